//! The return addresses around a call of native code, as a trace has them: `python address address …`, the number of the Python
//! stack that the call has besides (decimal, 0 = none), and the addresses, hexadecimal, the innermost first.

use crate::hash::HashMap;
use crate::trace::record::Names;
use gpuspy_wire::record::{MAX_FRAMES, Namespace};

/// A native stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativeStack {
    /// The number of the Python stack of the same call; 0 = none.
    pub python: u32,
    /// The return addresses, the innermost first.
    pub addresses: Vec<u64>,
}

impl NativeStack {
    /// Reads the native stacks among the names of a trace, by their numbers in records of calls.
    pub fn all(names: &Names) -> HashMap<u32, NativeStack> {
        let of = (Namespace::NativeStack, 0)..=(Namespace::NativeStack, u32::MAX);
        let stacks = names.0.range(of);
        stacks.filter_map(|((_, id), text)| Some((*id, NativeStack::parse(text)?))).collect()
    }

    fn parse(text: &str) -> Option<NativeStack> {
        let mut words = text.split(' ');
        let python = words.next()?.parse().ok()?;
        let address = |word| u64::from_str_radix(word, 16).ok();
        let addresses = words.take(MAX_FRAMES).map(address).collect::<Option<Vec<u64>>>()?;
        Some(NativeStack { python, addresses })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_native_stack_is_read_and_a_damaged_one_is_none() {
        let stack = NativeStack { python: 7, addresses: vec![0x10, 0x7fff_0000] };
        assert_eq!(NativeStack::parse("7 10 7fff0000"), Some(stack));
        assert_eq!(NativeStack::parse("0"), Some(NativeStack::default()));
        for text in ["", "x", "7 zz", "7 -1", "-1 10"] {
            assert_eq!(NativeStack::parse(text), None, "{text:?}");
        }
        let long = "0 ".to_owned() + &vec!["10"; 100_000].join(" ");
        assert_eq!(NativeStack::parse(&long).unwrap().addresses.len(), MAX_FRAMES);
    }
}
