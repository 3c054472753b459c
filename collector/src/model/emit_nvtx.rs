//! What does PyTorch say in the text of an NVTX range?
//!
//! Inside `torch.autograd.profiler.emit_nvtx()`, PyTorch pushes a range for each operator, for each function of a backward
//! pass and for each `record_function` of the program. The text is a name, and behind it what the version of PyTorch knows,
//! in this order:
//!
//! ```text
//! aten::mm, seq = 12, op_id = 34, sizes = [[2, 3], [3, 4]], input_op_ids = [(30,0), (31,0)]
//! ```
//!
//! Each part may be missing: `seq` outside of autograd, `op_id` and `input_op_ids` before PyTorch 1.11, and `sizes` and
//! `input_op_ids` without `record_shapes=True`. A name alone says nothing, and is any range.
//!
//! A trace has the first [`MAX_NVTX_TEXT`] bytes of a text. A number or a list that may have lost its end is left out,
//! rather than given as something that PyTorch did not say.

use gpuspy_wire::record::MAX_NVTX_TEXT;

/// A range that PyTorch pushed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said<'t> {
    /// The name of an operator, of a function of a backward pass, or of a `record_function`.
    pub name: &'t str,
    /// The number that autograd gives an operator, and again the function that computes its gradient.
    pub sequence: Option<u64>,
    /// The number of the range among PyTorch's own.
    pub id: Option<u64>,
    /// The dimensions of each input. An input that is no tensor has none.
    pub sizes: Option<Vec<Vec<i64>>>,
    /// For inputs that are known to be the output of an operator: its number, and which of its outputs it is.
    pub inputs: Option<Vec<Vec<i64>>>,
}

/// Names of operators that are in no namespace: kernels of Inductor's, and functions that Dynamo compiled.
const OPERATORS: [&str; 2] = ["triton_", "Torch-Compiled Region"];

impl<'t> Said<'t> {
    /// Reads a text. `None`: it is not PyTorch's, or only a name.
    pub fn of(text: &'t str) -> Option<Said<'t>> {
        let is_cut = text.len() >= MAX_NVTX_TEXT;
        let mut ends_of_name = text.match_indices(", ").map(|(at, _)| at).filter(|at| *at > 0);
        ends_of_name.find_map(|at| {
            let (name, text) = text.split_at(at);
            Rest { text, is_cut }.said(name)
        })
    }

    /// Whether it is what PyTorch's own profiler calls an operator (`cpu_op`), and not a `record_function` of the program
    /// (`user_annotation`). The text does not say which of the two it is: only operators have a number of autograd's or a
    /// namespace.
    pub fn is_operator(&self) -> bool {
        self.sequence.is_some()
            || self.name.contains("::")
            || OPERATORS.iter().any(|begins| self.name.starts_with(begins))
    }
}

/// What comes before each part.
const KEYS: [&str; 4] = [", seq = ", ", op_id = ", ", sizes = ", ", input_op_ids = "];

/// What is left of a text.
struct Rest<'t> {
    text: &'t str,
    /// Whether the text may have been longer.
    is_cut: bool,
}

/// What a text says of something.
enum Part<T> {
    /// Nothing.
    Absent,
    /// This.
    Present(T),
    /// Nothing that is certain: its end was cut off.
    Cut,
}

impl<T> Part<T> {
    fn present(self) -> Option<T> {
        match self {
            Part::Present(value) => Some(value),
            Part::Absent | Part::Cut => None,
        }
    }

    fn is_absent(&self) -> bool {
        matches!(self, Part::Absent)
    }
}

impl<'t> Rest<'t> {
    /// Reads all parts, up to the end.
    fn said(mut self, name: &'t str) -> Option<Said<'t>> {
        let [sequence, id, sizes, inputs] = KEYS;
        let (sequence, id) = (self.number(sequence)?, self.number(id)?);
        let (sizes, inputs) = (self.lists(sizes, ("[", "]"))?, self.lists(inputs, ("(", ")"))?);
        let says_nothing = sequence.is_absent() && id.is_absent() && sizes.is_absent() && inputs.is_absent();
        let is_over =
            self.text.is_empty() || (self.is_cut && KEYS.iter().any(|key| key.starts_with(self.text)));
        let said = Said {
            name,
            sequence: sequence.present(),
            id: id.present(),
            sizes: sizes.present(),
            inputs: inputs.present(),
        };
        (is_over && !says_nothing).then_some(said)
    }

    /// Skips a text; returns whether it was there.
    fn skip(&mut self, text: &str) -> bool {
        let rest = self.text.strip_prefix(text);
        self.text = rest.unwrap_or(self.text);
        rest.is_some()
    }

    /// Whether the end of the text is not the end of what it said.
    fn ends_early(&self) -> bool {
        self.is_cut && self.text.is_empty()
    }

    /// Reads a number behind its key. `None`: the key is there, and something else behind it.
    fn number(&mut self, key: &str) -> Option<Part<u64>> {
        if !self.skip(key) {
            return Some(Part::Absent);
        }
        match self.digits() {
            _ if self.ends_early() => Some(Part::Cut),
            digits => digits.parse().ok().map(Part::Present),
        }
    }

    fn digits(&mut self) -> &'t str {
        let end = self.text.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.text.len());
        let (digits, rest) = self.text.split_at(end);
        self.text = rest;
        digits
    }

    /// Reads a list of lists behind its key: `[[2, 3], []]`. The inner ones are between `around`.
    fn lists(&mut self, key: &str, around: (&str, &str)) -> Option<Part<Vec<Vec<i64>>>> {
        if !self.skip(key) {
            return Some(Part::Absent);
        }
        let lists = self.list(("[", "]"), |rest| rest.list(around, Rest::signed));
        match lists {
            None if self.ends_early() => Some(Part::Cut),
            lists => lists.map(Part::Present),
        }
    }

    /// Reads a list; `None` if it is none.
    fn list<T>(
        &mut self,
        (begin, end): (&str, &str),
        mut item: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let mut items = Vec::new();
        if !self.skip(begin) {
            return None;
        }
        while !self.skip(end) {
            if !items.is_empty() && !self.skip(",") {
                return None;
            }
            self.skip(" ");
            items.push(item(self)?);
        }
        Some(items)
    }

    fn signed(&mut self) -> Option<i64> {
        let sign = if self.skip("-") { -1 } else { 1 };
        let digits = self.digits();
        digits.parse::<i64>().ok().map(|number| sign * number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Said<'_> {
        Said::of(text).unwrap_or_else(|| panic!("{text} is PyTorch's"))
    }

    #[test]
    fn every_version_of_the_text_is_read() {
        let whole = said(
            "aten::mm, seq = 12, op_id = 34, sizes = [[2, 3], [3, 4], []], input_op_ids = [(30,0), (31,1)]",
        );
        assert_eq!((whole.name, whole.sequence, whole.id), ("aten::mm", Some(12), Some(34)));
        assert_eq!(whole.sizes, Some(vec![vec![2, 3], vec![3, 4], vec![]]));
        assert_eq!(whole.inputs, Some(vec![vec![30, 0], vec![31, 1]]));

        // Before 1.11, without shapes, outside of autograd.
        let old = said("addmm, seq = 7, sizes = [[128], [64, 256], [256, 128], [], []]");
        assert_eq!((old.name, old.sequence, old.id), ("addmm", Some(7), None));
        assert_eq!(old.sizes.map(|sizes| sizes.len()), Some(5));
        assert_eq!(
            said("aten::relu, seq = 3"),
            Said { name: "aten::relu", sequence: Some(3), ..Said::default() }
        );
        assert_eq!(
            said("aten::empty, op_id = 5"),
            Said { name: "aten::empty", id: Some(5), ..Said::default() }
        );
        assert_eq!(said("aten::cat, sizes = []").sizes, Some(vec![]));

        // Names with anything in them.
        let backward = said("autograd::engine::evaluate_function: AddmmBackward0, seq = 4, op_id = 90");
        assert_eq!(backward.name, "autograd::engine::evaluate_function: AddmmBackward0");
        assert_eq!(said("load, seq = x, op_id = 4").name, "load, seq = x");
        assert_eq!(said("größe, op_id = 1").name, "größe");
    }

    #[test]
    fn operators_are_told_from_what_the_program_records() {
        let is_operator = |text| said(text).is_operator();
        assert!(is_operator("aten::mm, op_id = 1") && is_operator("AddmmBackward0, seq = 3"));
        assert!(is_operator("torch::autograd::AccumulateGrad, op_id = 4"));
        assert!(is_operator("triton_poi_fused_add_0, op_id = 4"));
        assert!(
            !is_operator("Optimizer.step#SGD.step, op_id = 7") && !is_operator("ProfilerStep#3, op_id = 9")
        );
    }

    #[test]
    fn what_is_not_of_this_form_is_nothing() {
        for text in [
            "",
            "forward",
            "aten::mm",
            ", op_id = 3",
            "step, 4",
            "step, op_id = ",
            "step, op_id = x",
            "step, op_id = -3",
            "step, op_id = 3 ",
            "step, op_id = 99999999999999999999",
            "step, sizes = [[1, 2], [3",
            "step, sizes = [[1 2]]",
            "step, sizes = [(1, 2)]",
            "step, sizes = [[99999999999999999999]]",
            "step, sizes = [1]",
            "step, sizes = ",
        ] {
            assert_eq!(Said::of(text), None, "{text}");
        }
    }

    #[test]
    fn of_a_text_that_was_cut_only_what_is_certain_is_read() {
        let text = format!(
            "aten::cat, seq = 12, op_id = 34, sizes = [{}], input_op_ids = [(1,0)]",
            ["[64, 256, 56, 56]"; 12].join(", ")
        );
        let whole = said(&text[..]);
        assert_eq!(whole.sizes.as_ref().map(Vec::len), Some(12));
        for length in 1..=text.len() {
            let (short, long) = text.split_at(length);
            let (begun, padded) = (Said::of(short), format!("{}{short}", "n".repeat(MAX_NVTX_TEXT)));
            // However long a text is, a part of it is never taken for the whole.
            if let Some(cut) = Said::of(&padded) {
                assert!(cut.name.ends_with("aten::cat"), "{padded}");
                assert!(
                    cut.sequence.is_none_or(|sequence| sequence == 12) && cut.id.is_none_or(|id| id == 34),
                    "{short}"
                );
                assert!(cut.sizes.is_none() || cut.sizes == whole.sizes, "{short}");
                assert!(cut.inputs.is_none() || long.is_empty(), "{short}");
            }
            let is_whole = short.len() < MAX_NVTX_TEXT;
            assert!(!is_whole || begun.is_none_or(|begun| begun.sizes.is_none()), "{short}");
        }
    }
}
