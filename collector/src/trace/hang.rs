//! What hung? Operations and calls that did not end for long, as a Status holds them.
//!
//! An entry of a Status has a key and a value (see `meta.rs`). The key of a hang's entry is its number in the list times
//! 256, plus the number of the field, which `fields` assigns.

use gpuspy_wire::record::Direction;

/// Limit on the hangs of a Status.
pub const MAX_HANGS: usize = 64;

/// An operation on a stream, or a call, that did not end for longer than the limit that was set. Times are host ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hang {
    /// Since when nothing has been happening: when the operation was launched, or the operation before it on its stream
    /// was found completed, whichever is later; for a call, when it was entered.
    pub since: u64,
    /// Until when that is known: the time of the last observation, or of the end.
    pub until: u64,
    /// Whether it ended.
    pub is_over: bool,
    /// Whether the operation is known to have been pending all the time. Otherwise only a call is known to have
    /// blocked, and `operation` may have completed: it has no GPU time.
    pub is_pending: bool,
    /// The ordinal of the operation's device.
    pub device: Option<u32>,
    /// The operation's stream.
    pub stream: Option<u64>,
    /// The oldest operation of the stream that is known to be pending; without `is_pending`, the last one launched that
    /// may be.
    pub operation: Option<Operation>,
    /// The number of operations without a GPU time that were launched on the stream between the last one that
    /// completed and this one, of which each may be the one that does not end.
    pub untimed_before: u64,
    /// The API of the last call that made the stream wait for something else, after the last operation that completed.
    pub behind: Option<u16>,
    /// The last operation of the stream that was found completed.
    pub last: Option<Completed>,
    /// Whether other streams of the device completed operations meanwhile.
    pub others_complete: bool,
    /// The call that blocked a thread meanwhile.
    pub call: Option<Blocked>,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A kernel, in [`Namespace::Kernel`](gpuspy_wire::record::Namespace::Kernel); 0 = unknown.
    Kernel(u32),
    /// A copy of so many bytes.
    Copy(Direction, u64),
    /// A memset of so many bytes.
    Set(u64),
    /// A graph launch.
    Graph,
    /// Launches that are timed together, with their number; the kernel is the last one's.
    Run(u32, u64),
}

/// An operation that has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The operation.
    pub operation: Operation,
    /// When it was first found completed.
    pub seen: u64,
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocked {
    /// The thread's id in the system.
    pub tid: u32,
    /// In [`Namespace::Api`](gpuspy_wire::record::Namespace::Api).
    pub api: u16,
    /// The file that called it, in [`Namespace::Path`](gpuspy_wire::record::Namespace::Path); 0 = unknown.
    pub library: u32,
    /// When it was entered.
    pub since: u64,
}

impl Operation {
    fn to_words(self) -> [u64; 2] {
        let word = |kind: u64, id: u32| kind | u64::from(id) << 8;
        match self {
            Operation::Kernel(name) => [word(1, name), 0],
            Operation::Copy(direction, bytes) => [word(2, direction as u32), bytes],
            Operation::Set(bytes) => [word(3, 0), bytes],
            Operation::Graph => [word(4, 0), 0],
            Operation::Run(kernel, launches) => [word(5, kernel), launches],
        }
    }

    fn from_words([first, amount]: [u64; 2]) -> Option<Operation> {
        let id = u32::try_from(first >> 8).ok()?;
        Some(match first & 0xff {
            1 => Operation::Kernel(id),
            2 => Operation::Copy(Direction::from_wire(u8::try_from(id).ok()?)?, amount),
            3 => Operation::Set(amount),
            4 => Operation::Graph,
            5 => Operation::Run(id, amount),
            _ => return None,
        })
    }
}

const OVER: u64 = 1;
const PENDING: u64 = 2;
const OTHERS: u64 = 4;

/// The number of fields.
const FIELDS: usize = 16;

/// Returns each field's value; a field that is unknown is `None` and has no entry.
fn fields(hang: &Hang) -> [Option<u64>; FIELDS] {
    let flags = [(hang.is_over, OVER), (hang.is_pending, PENDING), (hang.others_complete, OTHERS)];
    let [operation, amount] = hang.operation.map_or([None; 2], |one| one.to_words().map(Some));
    let [last, last_amount] = hang.last.map_or([None; 2], |last| last.operation.to_words().map(Some));
    let call = hang.call;
    [
        Some(hang.since),
        Some(hang.until),
        Some(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum()),
        hang.device.map(u64::from),
        hang.stream,
        operation,
        amount,
        Some(hang.untimed_before),
        hang.behind.map(u64::from),
        last,
        last_amount,
        hang.last.map(|last| last.seen),
        call.map(|call| call.tid.into()),
        call.map(|call| call.api.into()),
        call.map(|call| call.library.into()),
        call.map(|call| call.since),
    ]
}

/// Returns the entries of a list of hangs: key and value.
pub(super) fn to_entries(hangs: &[Hang]) -> impl Iterator<Item = (u32, u64)> {
    (0..).zip(hangs.iter().take(MAX_HANGS)).flat_map(|(number, hang)| {
        (0..).zip(fields(hang)).filter_map(move |(field, value)| Some((number << 8 | field, value?)))
    })
}

/// Hangs that are being read from their entries, which may come in any order.
#[derive(Default)]
pub(super) struct Read(Vec<[Option<u64>; FIELDS]>);

impl Read {
    /// Takes an entry. Numbers and fields beyond those that this version writes are skipped.
    pub(super) fn take(&mut self, key: u32, value: u64) {
        let (number, field) = ((key >> 8) as usize, (key & 0xff) as usize);
        if number >= MAX_HANGS || field >= FIELDS {
            return;
        }
        if self.0.len() <= number {
            self.0.resize(number + 1, [None; FIELDS]);
        }
        self.0[number][field] = Some(value);
    }

    /// Returns the hangs; `None` if a value does not fit its field.
    pub(super) fn finish(self) -> Option<Vec<Hang>> {
        self.0.into_iter().map(hang).collect()
    }
}

fn hang(values: [Option<u64>; FIELDS]) -> Option<Hang> {
    let [since, until, flags, device, stream, operation, amount, untimed_before, behind, rest @ ..] = values;
    let [last, last_amount, seen, tid, api, library, entered] = rest;
    let number = |value: Option<u64>| value.map_or(Some(None), |v| u32::try_from(v).ok().map(Some));
    let short = |value: Option<u64>| value.map_or(Some(None), |v| u16::try_from(v).ok().map(Some));
    let operation_of = |first: Option<u64>, amount: Option<u64>| match first {
        Some(first) => Operation::from_words([first, amount.unwrap_or(0)]).map(Some),
        None => Some(None),
    };
    let flags = flags.unwrap_or(0);
    let call = match number(tid)? {
        Some(tid) => Some(Blocked {
            tid,
            api: short(api)?.unwrap_or(0),
            library: number(library)?.unwrap_or(0),
            since: entered.unwrap_or(0),
        }),
        None => None,
    };
    let last = operation_of(last, last_amount)?;
    Some(Hang {
        since: since.unwrap_or(0),
        until: until.unwrap_or(0),
        is_over: flags & OVER != 0,
        is_pending: flags & PENDING != 0,
        device: number(device)?,
        stream,
        operation: operation_of(operation, amount)?,
        untimed_before: untimed_before.unwrap_or(0),
        behind: short(behind)?,
        last: last.map(|operation| Completed { operation, seen: seen.unwrap_or(0) }),
        others_complete: flags & OTHERS != 0,
        call,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entries: impl Iterator<Item = (u32, u64)>) -> Option<Vec<Hang>> {
        let mut read = Read::default();
        entries.for_each(|(key, value)| read.take(key, value));
        read.finish()
    }

    #[test]
    fn hangs_are_the_same_after_writing_and_reading() {
        let completed = |operation| Some(Completed { operation, seen: 17 });
        let whole = Hang {
            since: 10,
            until: u64::MAX,
            is_over: true,
            is_pending: true,
            device: Some(3),
            stream: Some(1 << 63),
            operation: Some(Operation::Kernel(u32::MAX)),
            untimed_before: 5,
            behind: Some(77),
            last: completed(Operation::Copy(Direction::HtoD, u64::MAX)),
            others_complete: true,
            call: Some(Blocked { tid: 42, api: u16::MAX, library: 9, since: 11 }),
        };
        let others = [Operation::Set(7), Operation::Graph, Operation::Run(4, 32)];
        let others = others.map(|one| Hang { operation: Some(one), last: completed(one), ..Hang::default() });
        let all: Vec<Hang> = [whole, Hang::default()].into_iter().chain(others).collect();
        assert_eq!(read(to_entries(&all)), Some(all));
    }

    #[test]
    fn hostile_entries_cost_no_more_than_a_list_and_are_refused_where_they_cannot_be() {
        let skipped = [u32::MAX, (MAX_HANGS as u32) << 8, 0xff];
        assert_eq!(read(skipped.into_iter().map(|key| (key, 1))), Some(vec![]));
        assert_eq!(read([(3, u64::MAX)].into_iter()), None, "no device has such an ordinal");
        assert_eq!(read([(5, 99)].into_iter()), None, "there is no such operation");
    }
}
