//! How are the operators of PyTorch shown? Inside `torch.autograd.profiler.emit_nvtx()` each of them is an NVTX range whose
//! text says more than a name ([`emit_nvtx`]). As in Kineto, it is a `cpu_op` with the name alone.
//!
//! - Its `External id` is unique in the file. The calls in it have the same, and so has what they launched: those of the
//!   innermost operator that was open on the thread when the call was made.
//! - `Sequence number` is that of the operator and of the function that computes its gradient. `Input Dims` are the
//!   dimensions of its inputs, `Record function id` is PyTorch's own number of the range, and `Input op ids` are those of
//!   the operators that made its inputs, each with the number of the output. What a text does not say is left out.
//! - An operator has no projection onto the GPU, as in Kineto: its kernels say which operator launched them.
//! - A range that PyTorch pushed for a `record_function` of the program stays a `user_annotation`, with the name alone.
//!
//! [`emit_nvtx`]: crate::model::emit_nvtx

use super::Pass;
use crate::export::timeline::sink::{Arg, Category, Key, Row, Sink, Slice, Value};
use crate::model::emit_nvtx::Said;
use crate::trace::record::NvtxRange;
use gpuspy_wire::record::{Namespace, NvtxChange};
use std::io;

/// The operator that a range is, or lies in.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Within {
    /// Its `External id`; 0 without one.
    pub id: u64,
    /// Whether it is the range itself.
    pub is_itself: bool,
}

impl<'s, S: Sink> Pass<'_, 's, S> {
    /// What PyTorch says in the text of a range. It pushes its ranges, in the default domain.
    pub(super) fn said(&self, range: &NvtxRange) -> Option<Said<'s>> {
        let is_possible = range.domain == 0 && range.change == NvtxChange::Push;
        let text = self.source.names.get(Namespace::NvtxRange, range.text).filter(|_| is_possible)?;
        Said::of(text)
    }

    /// The operator that a range is which a thread begins, or in which it lies.
    pub(super) fn within(&mut self, thread: u32, range: &NvtxRange) -> Within {
        if !self.said(range).is_some_and(|said| said.is_operator()) {
            return Within { id: self.external(thread).unwrap_or(0), is_itself: false };
        }
        self.export.operators += 1;
        Within { id: self.export.operators, is_itself: true }
    }

    /// The `External id` of the innermost operator that is open on a thread.
    pub(super) fn external(&self, thread: u32) -> Option<u64> {
        let within = self.ranges.innermost(thread)?;
        (within.id != 0).then_some(within.id)
    }

    /// Writes an operator that has ended.
    pub(super) fn operator(
        &mut self,
        said: &Said<'_>,
        id: u64,
        row: Row,
        span: (i64, i64),
    ) -> io::Result<()> {
        let name = &self.ranges.function(said.name, &mut self.export.sink);
        let number = |key: Key, number: Option<u64>| number.map(|number| Arg::of(key, number));
        let mut args = vec![Arg::of(Key::External, id)];
        args.extend(number(Key::RecordFunction, said.id));
        args.extend(number(Key::Sequence, said.sequence));
        args.extend(said.sizes.as_deref().map(|sizes| Arg(Key::InputDims, Value::Lists(sizes))));
        args.extend(said.inputs.as_deref().map(|inputs| Arg(Key::InputIds, Value::Lists(inputs))));
        self.export.summary.operators += 1;
        let (category, more, arrow, inside) = (Category::Operator, None, None, None);
        self.export.sink.slice(&Slice { category, name, row, span, args: &args, more, arrow, inside })
    }
}
