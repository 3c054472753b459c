//! Which NVTX ranges are open? The records that opened them, for a trace that has nothing else of the time before.

use crate::trace::record::{Body, NvtxRange, Record};
use gpuspy_wire::record::NvtxChange;
use std::collections::BTreeMap;

/// Limit on the open ranges: more than a process has. Further ones are not followed. And on those that are over before they start.
const MOST: usize = 1 << 16;

/// The open ranges that are followed.
#[derive(Debug, Default)]
pub struct OpenRanges {
    /// By thread and domain, the outermost first.
    pushed: BTreeMap<(u32, u32), Vec<Record>>,
    /// By id.
    started: BTreeMap<u64, Record>,
    /// How many there are.
    count: usize,
    /// The ends of started ranges that came before their starts, by id: one thread's records are drained before another's. The latest.
    over: BTreeMap<u64, u64>,
}

impl OpenRanges {
    /// Takes a change of a range. Returns false if it ends a range that is not followed.
    pub fn change(&mut self, range: &NvtxRange, record: &Record) -> bool {
        let on = (record.thread, range.domain);
        match range.change {
            NvtxChange::Push if self.count < MOST => {
                self.pushed.entry(on).or_default().push(record.clone());
                self.count += 1;
            }
            NvtxChange::Start if self.count < MOST && !self.over.contains_key(&range.id) => {
                let replaced = self.started.insert(range.id, record.clone());
                self.count += usize::from(replaced.is_none());
            }
            NvtxChange::Push | NvtxChange::Start | NvtxChange::Mark => {}
            NvtxChange::Pop => return self.popped(on),
            NvtxChange::End => {
                let was_followed = self.started.remove(&range.id).is_some();
                self.count -= usize::from(was_followed);
                if !was_followed {
                    self.comes_early(range.id, record.at);
                }
                return was_followed;
            }
        }
        true
    }

    fn comes_early(&mut self, id: u64, at: u64) {
        self.over.insert(id, at);
        if self.over.len() > MOST {
            self.over.pop_first();
        }
    }

    /// Whether the end of this range has come already, and was before `at`.
    pub fn is_over(&self, range: &NvtxRange, at: u64) -> bool {
        range.change == NvtxChange::Start && self.over.get(&range.id).is_some_and(|end| *end < at)
    }

    fn popped(&mut self, on: (u32, u32)) -> bool {
        let Some(stack) = self.pushed.get_mut(&on) else { return false };
        let was_followed = stack.pop().is_some();
        if stack.is_empty() {
            self.pushed.remove(&on);
        }
        self.count -= usize::from(was_followed);
        was_followed
    }

    /// Forgets what a thread pushed that has ended: no other one pops it.
    pub fn thread_ended(&mut self, thread: u32) {
        let pushed = self.pushed.range((thread, 0)..=(thread, u32::MAX)).map(|(on, _)| *on);
        for on in pushed.collect::<Vec<_>>() {
            self.count -= self.pushed.remove(&on).map_or(0, |stack| stack.len());
        }
    }

    /// The records that opened them: of those around each other, the outermost first.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.pushed.values().flatten().chain(self.started.values())
    }

    /// The numbers of their texts.
    pub fn texts(&self) -> impl Iterator<Item = u32> {
        self.records().filter_map(text_of)
    }
}

/// Returns the number of a range's text, 0 for none; `None` for other records.
pub fn text_of(record: &Record) -> Option<u32> {
    if let Body::NvtxRange(range) = &record.body { Some(range.text) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(open: &mut OpenRanges, change: NvtxChange, id: u64) -> bool {
        let range =
            NvtxRange { change, id, domain: 0, text: id as u32, category: 0, color: 0, payload: false };
        open.change(&range.clone(), &Record { thread: 1, at: id, body: Body::NvtxRange(range) })
    }

    fn texts(open: &OpenRanges) -> Vec<u64> {
        open.records().map(|record| record.at).collect()
    }

    #[test]
    fn ranges_are_open_from_their_start_to_their_end() {
        use NvtxChange::{End, Mark, Pop, Push, Start};
        let mut open = OpenRanges::default();
        for (change, id) in
            [(Push, 1), (Push, 2), (Push, 3), (Pop, 0), (Start, 4), (Mark, 9), (Start, 5), (End, 4)]
        {
            assert!(changed(&mut open, change, id), "{change:?} {id}");
        }
        assert_eq!((texts(&open), open.count), (vec![1, 2, 5], 3));
        assert!(!changed(&mut open, End, 4), "it is over");
        assert!(changed(&mut open, Pop, 0) && changed(&mut open, Pop, 0));
        assert!(!changed(&mut open, Pop, 0), "it was opened before");
        assert_eq!((texts(&open), open.count), (vec![5], 1));
    }

    /// The end is in the ring of another thread, which was drained first: such ranges were open for ever, and after 256 of them no later
    /// window had a range.
    #[test]
    fn a_range_whose_end_comes_before_its_start_is_not_open() {
        use NvtxChange::{End, Start};
        let mut open = OpenRanges::default();
        assert!(!changed(&mut open, End, 7), "it is not known yet");
        assert!(changed(&mut open, Start, 7));
        assert_eq!((texts(&open), open.count), (vec![], 0));
        let range =
            |id| NvtxRange { change: Start, id, domain: 0, text: 1, category: 0, color: 0, payload: false };
        assert_eq!(
            [(7, 8), (7, 7), (8, 9)].map(|(id, at)| open.is_over(&range(id), at)),
            [true, false, false]
        );
        assert!((0..=MOST as u64).all(|id| !changed(&mut open, End, 100 + id)));
        assert_eq!(open.over.len(), MOST, "of too many, the latest");
    }

    #[test]
    fn there_is_a_limit_in_all() {
        let mut open = OpenRanges::default();
        assert!((0..MOST as u64 + 10).all(|id| changed(&mut open, NvtxChange::Start, id)));
        changed(&mut open, NvtxChange::Push, 1);
        assert_eq!(open.records().count(), MOST);
    }
}
