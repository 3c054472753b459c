//! Where did the GPU's time go, when not all of it was observed? (`--timing auto`)
//!
//! What passed while work was only counted takes the parts of what was observed, in their proportion: windows open
//! regardless of what the program does, and the first phase is among them. The parts still sum to the span, to the
//! nanosecond. Their intervals are no sampling errors but bounds: lo is what was seen for certain, hi what could be at all.

use super::estimate::Sum;
use super::identity::Identity;

/// The parts of the whole span, nothing left unobserved; `None` when all was observed, or nothing.
pub fn extrapolated(identity: &Identity) -> Option<Identity> {
    let unobserved = identity.unobserved.value;
    let mut whole = Identity { unobserved: Sum::default(), ..*identity };
    let observed: u64 = parts(&mut whole).map(|part| part.value).sum();
    if unobserved == 0 || observed == 0 {
        return None;
    }
    let share = |part: u64| u128::from(part) * u128::from(unobserved);
    let mut given = 0;
    // What each lacks to a whole ns, so that the largest remainders get the ns that rounding down leaves.
    let mut remainders = Vec::new();
    for (index, part) in parts(&mut whole).enumerate() {
        let more = (share(part.value) / u128::from(observed)) as u64;
        remainders.push((share(part.value) % u128::from(observed), index));
        part.value += more;
        given += more;
    }
    remainders.sort_unstable_by(|a, b| b.cmp(a));
    let lucky = &remainders[..(unobserved - given) as usize];
    for (index, part) in parts(&mut whole).enumerate() {
        part.value += u64::from(lucky.iter().any(|(_, one)| *one == index));
        part.lo = part.lo.min(part.value);
        part.hi = part.hi.max(part.value);
    }
    Some(whole)
}

/// Everything but what was not observed.
fn parts(identity: &mut Identity) -> impl Iterator<Item = &mut Sum> {
    identity.busy.iter_mut().chain([&mut identity.idle, &mut identity.undecided])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exactly(value: u64) -> Sum {
        Sum { value, lo: value, hi: value }
    }

    fn identity(busy: [u64; 4], idle: u64, undecided: u64, unobserved: u64) -> Identity {
        Identity {
            span: busy.iter().sum::<u64>() + idle + undecided + unobserved,
            busy: busy.map(exactly),
            idle: exactly(idle),
            undecided: exactly(undecided),
            unobserved: exactly(unobserved),
        }
    }

    #[test]
    fn the_rest_is_shared_out_in_proportion() {
        let mut observed = identity([60, 0, 0, 0], 40, 0, 900);
        observed.busy[0].hi = 960;
        let whole = extrapolated(&observed).unwrap();
        assert_eq!((whole.busy[0].value, whole.idle.value, whole.unobserved.value), (600, 400, 0));
        assert_eq!((whole.busy[0].lo, whole.busy[0].hi), (60, 960), "all of the rest, or nothing of it");
    }

    #[test]
    fn nothing_is_made_up() {
        assert_eq!(extrapolated(&identity([60, 0, 0, 0], 40, 0, 0)), None, "all was observed");
        assert_eq!(extrapolated(&identity([0; 4], 0, 0, 900)), None, "nothing was");
    }

    proptest! {
        #[test]
        fn the_parts_sum_to_the_span(
            busy in proptest::array::uniform4(0..1u64 << 40),
            rest in proptest::array::uniform3(0..1u64 << 40),
        ) {
            let identity = identity(busy, rest[0], rest[1], rest[2]);
            if let Some(mut whole) = extrapolated(&identity) {
                prop_assert_eq!(parts(&mut whole).map(|part| part.value).sum::<u64>(), identity.span);
                prop_assert!(parts(&mut whole).all(|part| part.lo <= part.value && part.value <= part.hi));
            }
        }
    }
}
