//! Which line of the forward pass computed what autograd now computes the gradient of?
//!
//! Inside `torch.autograd.profiler.emit_nvtx()`, the range of an operator has a number, `seq`: the one that a function of the
//! backward pass gets if the operator makes one. Later operators have the same number until one does, so it belongs to the
//! last operator that had it. In the backward pass, the outermost range with a number is the function that has it. (PyTorch's
//! documentation of `emit_nvtx`.) What autograd does with the function's results, such as the sum of a gradient that was
//! broadcast, comes behind that range, in the one around it.
//!
//! Each thread counts for itself, and a range does not say which thread's number it has. It is that of the thread that waits
//! for the pass, if that thread had it, or else of the only one that had.

use super::emit_nvtx::Said;
use crate::hash::HashMap;
use crate::trace::record::{Names, NvtxRange};
use gpuspy_wire::record::{Namespace, NvtxChange};
use std::collections::BTreeMap;

/// How many numbers are kept, the latest ones. A step of a large model has some ten thousand.
const MOST_NUMBERS: usize = 1 << 16;

/// The ranges that are open, and the calls of operators.
#[derive(Clone, Debug, Default)]
pub struct Forward {
    /// The ranges that say something, by their texts.
    texts: HashMap<u32, Open>,
    /// Each thread's open ranges, the outermost first.
    open: HashMap<u32, Vec<Open>>,
    /// The stacks of the last call of an operator, by its number and thread.
    stacks: BTreeMap<(u64, u32), u32>,
}

/// A range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Open {
    /// Its number; that of the last function inside if it is around functions of the backward pass.
    number: Option<u64>,
    /// Whether it is around a function of the backward pass.
    evaluates: bool,
}

impl Open {
    fn of(text: &str) -> Option<Open> {
        let said = Said::of(text)?;
        let open = Open { number: said.sequence, evaluates: said.evaluates() };
        (open != Open::default()).then_some(open)
    }
}

impl Forward {
    /// Reads from a trace's names which ranges say something.
    pub fn of(names: &Names) -> Forward {
        let texts = names.0.range((Namespace::NvtxRange, 0)..=(Namespace::NvtxRange, u32::MAX));
        let texts = texts.filter_map(|((_, id), text)| Some((*id, Open::of(text)?))).collect();
        Forward { texts, ..Forward::default() }
    }

    /// Returns it as it is before the first record.
    pub fn again(&self) -> Forward {
        Forward { texts: self.texts.clone(), ..Forward::default() }
    }

    /// Takes a range that a thread begins or ends. PyTorch's are in the default domain.
    pub fn range(&mut self, thread: u32, range: &NvtxRange) {
        if self.texts.is_empty() || range.domain != 0 {
            return;
        }
        let open = self.open.entry(thread).or_default();
        match range.change {
            NvtxChange::Push => {
                let pushed = self.texts.get(&range.text).copied().unwrap_or_default();
                if let Some(around) = open.last_mut().filter(|around| around.evaluates) {
                    around.number = pushed.number.or(around.number);
                }
                open.push(pushed);
            }
            NvtxChange::Pop => drop(open.pop()),
            NvtxChange::Start | NvtxChange::End | NvtxChange::Mark => {}
        }
    }

    /// Takes a call of a thread that is not autograd's.
    pub fn call(&mut self, thread: u32, stack: u32) {
        let open = self.open.get(&thread).into_iter().flatten();
        if let Some(number) = open.rev().find_map(|open| open.number) {
            self.stacks.insert((number, thread), stack);
            if self.stacks.len() > MOST_NUMBERS {
                self.stacks.pop_first();
            }
        }
    }

    /// Returns the stack of the operator whose gradient a thread of autograd's computes now. `waiting`: the thread that waits
    /// for the pass, if it is known.
    pub fn stack(&self, thread: u32, waiting: Option<u32>) -> Option<u32> {
        let number = self.open.get(&thread)?.iter().find_map(|open| open.number)?;
        let of_waiting = waiting.and_then(|waiting| self.stacks.get(&(number, waiting)));
        let mut all = self.stacks.range((number, 0)..=(number, u32::MAX)).map(|(_, stack)| stack);
        of_waiting.or_else(|| all.next().filter(|_| all.next().is_none())).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: u32 = 1;
    const OTHER: u32 = 2;
    const AUTOGRAD: u32 = 3;

    /// Ranges by the texts that PyTorch 2.7.1 gives them.
    struct Program {
        forward: Forward,
        names: Names,
    }

    impl Program {
        fn new(texts: &[&str]) -> Program {
            let named = (1..).zip(texts).map(|(id, text)| ((Namespace::NvtxRange, id), (*text).to_owned()));
            let names = Names(named.collect());
            Program { forward: Forward::of(&names), names }
        }

        fn change(&mut self, thread: u32, change: NvtxChange, domain: u32, text: &str) {
            let text = self.names.0.iter().find(|(_, known)| *known == text).map_or(0, |((_, id), _)| *id);
            let range = NvtxRange { change, id: 0, domain, text, category: 0, color: 0, payload: false };
            self.forward.range(thread, &range);
        }

        /// A range around what `inside` does.
        fn inside(&mut self, thread: u32, text: &str, inside: impl FnOnce(&mut Program)) {
            self.change(thread, NvtxChange::Push, 0, text);
            inside(self);
            self.change(thread, NvtxChange::Pop, 0, "");
        }

        fn operator(&mut self, thread: u32, text: &str, stack: u32) {
            self.inside(thread, text, |program| program.forward.call(thread, stack));
        }
    }

    const LINEAR: &str = "aten::linear, seq = 7, op_id = 1";
    const ADDMM: &str = "aten::addmm, seq = 7, op_id = 2";
    const RELU: &str = "aten::relu, seq = 8, op_id = 3";
    const EVALUATE: &str = "autograd::engine::evaluate_function: AddmmBackward0, op_id = 8";
    const BACKWARD: &str = "AddmmBackward0, seq = 7, op_id = 9";
    const INNER: &str = "aten::mm, seq = 8, op_id = 10";
    const TEXTS: [&str; 7] = ["step", LINEAR, ADDMM, RELU, EVALUATE, BACKWARD, INNER];

    /// What is found inside of the function of the backward pass.
    fn found(program: &mut Program, waiting: Option<u32>) -> Option<u32> {
        let mut found = None;
        program.inside(AUTOGRAD, EVALUATE, |program| {
            program.inside(AUTOGRAD, BACKWARD, |program| {
                program.inside(AUTOGRAD, INNER, |program| found = program.forward.stack(AUTOGRAD, waiting));
            });
        });
        found
    }

    #[test]
    fn a_number_belongs_to_the_last_operator_that_had_it() {
        let mut program = Program::new(&TEXTS);
        program.inside(MAIN, "step", |program| {
            program.operator(MAIN, LINEAR, 20);
            program.inside(MAIN, LINEAR, |program| program.operator(MAIN, ADDMM, 21));
            program.operator(MAIN, RELU, 22);
            program.forward.call(MAIN, 23);
        });
        assert_eq!(found(&mut program, Some(MAIN)), Some(21));
        assert_eq!(program.forward.stack(AUTOGRAD, Some(MAIN)), None, "no range is open");
        program.inside(AUTOGRAD, EVALUATE, |program| {
            assert_eq!(program.forward.stack(AUTOGRAD, Some(MAIN)), None, "the function has not begun");
            program.inside(AUTOGRAD, BACKWARD, |_| {});
            assert_eq!(program.forward.stack(AUTOGRAD, Some(MAIN)), Some(21), "its results are summed");
        });
        assert_eq!(program.forward.again().stacks.len(), 0);
    }

    #[test]
    fn of_two_threads_with_the_same_number_it_is_that_of_the_one_that_waits() {
        let mut program = Program::new(&TEXTS);
        assert_eq!(found(&mut program, Some(MAIN)), None);
        program.operator(OTHER, ADDMM, 31);
        assert_eq!(found(&mut program, Some(MAIN)), Some(31), "a thread computes for the one that waits");
        program.operator(MAIN, ADDMM, 30);
        assert_eq!(found(&mut program, Some(MAIN)), Some(30));
        assert_eq!(found(&mut program, None), None);
    }

    #[test]
    fn ranges_of_other_domains_and_kinds_are_not_pytorchs() {
        let mut program = Program::new(&TEXTS);
        program.change(MAIN, NvtxChange::Push, 5, ADDMM);
        program.change(MAIN, NvtxChange::Start, 0, ADDMM);
        program.forward.call(MAIN, 30);
        assert_eq!(found(&mut program, Some(MAIN)), None);
        program.change(MAIN, NvtxChange::Pop, 0, "");
        program.operator(MAIN, ADDMM, 31);
        assert_eq!(found(&mut program, Some(MAIN)), Some(31), "an end without a start ends nothing");
    }

    #[test]
    fn the_latest_numbers_are_kept() {
        let texts: Vec<String> =
            (0..MOST_NUMBERS + 2).map(|n| format!("aten::mm, seq = {n}, op_id = 1")).collect();
        let mut program = Program::new(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        for (thread, number) in (0..MOST_NUMBERS as u32 + 2).map(|number| (MAIN, number)) {
            let range = NvtxRange {
                change: NvtxChange::Push,
                id: 0,
                domain: 0,
                text: number + 1,
                category: 0,
                color: 0,
                payload: false,
            };
            program.forward.range(thread, &range);
            program.forward.call(thread, number);
            program.forward.range(thread, &NvtxRange { change: NvtxChange::Pop, ..range });
        }
        let first = program.forward.stacks.keys().next().copied();
        assert_eq!((program.forward.stacks.len(), first), (MOST_NUMBERS, Some((2, MAIN))));
    }
}
