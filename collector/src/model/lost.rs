//! When may records of a process have been lost?

use super::host_time::host;
use crate::trace::LostTime;
use std::sync::Arc;

/// Stretches of host time in which records may have been lost: host ns, in order and disjoint.
#[derive(Clone, Debug, Default)]
pub struct Lost(Arc<[(i64, i64)]>);

impl Lost {
    /// What the reader of a trace has found.
    pub fn of(found: LostTime) -> Lost {
        found.sorted().into_iter().map(|(from, to)| (host(from), host(to))).collect()
    }

    /// What any of these has.
    pub fn union<'l>(all: impl Iterator<Item = &'l Lost>) -> Lost {
        let mut stretches: Vec<(i64, i64)> = all.flat_map(|lost| lost.0.iter().copied()).collect();
        stretches.sort_unstable();
        stretches.dedup_by(|next, last| {
            let meets = next.0 <= last.1;
            last.1 = if meets { last.1.max(next.1) } else { last.1 };
            meets
        });
        Lost(stretches.into())
    }

    /// The stretches.
    pub fn stretches(&self) -> &[(i64, i64)] {
        &self.0
    }

    /// Whether records may have been lost between two moments.
    pub fn meets(&self, from: i64, to: i64) -> bool {
        let over = self.0.partition_point(|(_, end)| *end < from);
        self.0.get(over).is_some_and(|(begin, _)| *begin <= to)
    }
}

impl FromIterator<(i64, i64)> for Lost {
    fn from_iter<T: IntoIterator<Item = (i64, i64)>>(stretches: T) -> Self {
        Lost(stretches.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_traces_lack_is_missing_where_one_lacks_it() {
        let lost = |stretches: &[(i64, i64)]| stretches.iter().copied().collect::<Lost>();
        let all = [lost(&[(10, 20), (50, 60)]), Lost::default(), lost(&[(15, 30), (40, 45)])];
        assert_eq!(Lost::union(all.iter()).stretches(), [(10, 30), (40, 45), (50, 60)]);
    }

    #[test]
    fn a_time_meets_a_loss_that_it_touches() {
        let lost: Lost = [(10, 20), (30, 30)].into_iter().collect();
        let met = [(0, 9), (0, 10), (12, 13), (20, 25), (21, 29), (25, 40), (31, 40)];
        assert_eq!(met.map(|(from, to)| lost.meets(from, to)), [false, true, true, true, false, true, false]);
        assert!(!Lost::default().meets(i64::MIN, i64::MAX));
    }
}
