//! How does a trace store what is known about its process? These are the payloads of Status, Names and End chunks.
//!
//! Status and End consist of entries of 16 bytes, `u32 field · u32 key · u64 value`; key is 0 except in maps. Status:
//! 1 pid, 2 start_time, 3 began, 4 began_realtime, 5 ended, 6 ending (0 running, 1 exited, 2 vanished, 3 replaced,
//! 4 detached), 7 agent_ns, 8 poller_ns, 9 calls, 10 published, 11 collected, 12 pending, 13 lookups,
//! 14 lookups_hooked, 15 driver_hooked, 16 lost (key: the cause), 17 threads (key: the claim, value: the tid),
//! 18 parent, 19 exit (key: 1 = a code, 2 = a signal), 20 outside_launches, 21 outside_others, 22 boot,
//! 23 hangs (key: see `hang.rs`), 24 write_error, 25 session_realtime, 26 lost_since (host ns: the losses were last fewer then; absent
//! if they are those of the Status before).
//! End: 1 records, 2 times joined by the writer, 3 times written late, 4 times whose launch never came.

use super::format::Fields;
use super::hang;
use super::record::{Ending, Exit, Names, Status};
use gpuspy_wire::record::{LossCause, Namespace};
use std::collections::BTreeMap;

const LOST: u32 = 16;
const THREADS: u32 = 17;
const PARENT: u32 = 18;
const EXIT: u32 = 19;
const OUTSIDE_LAUNCHES: u32 = 20;
const OUTSIDE_OTHERS: u32 = 21;
const BOOT: u32 = 22;
const HANGS: u32 = 23;
const WRITE_ERROR: u32 = 24;
const SESSION_REALTIME: u32 = 25;
const LOST_SINCE: u32 = 26;
const EXIT_CODE: u32 = 1;
const EXIT_SIGNAL: u32 = 2;
const ENDINGS: [Ending; 5] =
    [Ending::Running, Ending::Exited, Ending::Vanished, Ending::Replaced, Ending::Detached];

/// Size of an entry, bytes.
pub(super) const ENTRY_BYTES: usize = 16;
/// Limit on the threads of a Status chunk, which keeps the chunk below its limit, and on those that a reader keeps of all of them;
/// of more threads, the youngest are written and kept.
pub(super) const MAX_THREADS: usize = 1 << 19;

fn entry(bytes: &mut Vec<u8>, field: u32, key: u32, value: u64) {
    bytes.extend(field.to_le_bytes());
    bytes.extend(key.to_le_bytes());
    bytes.extend(value.to_le_bytes());
}

/// A Status chunk's payload. `lost_since`: when losses were last fewer, host ns, if more were counted than in the Status before.
pub(super) fn status_to_bytes(status: &Status, lost_since: Option<u64>) -> Vec<u8> {
    let ending = ENDINGS.iter().position(|ending| *ending == status.ending).unwrap_or(0);
    let values = [
        u64::from(status.pid),
        status.start_time,
        status.began,
        status.began_realtime,
        status.ended,
        ending as u64,
        status.agent_ns,
        status.poller_ns,
        status.calls,
        status.published,
        status.collected,
        status.pending,
        status.lookups,
        status.lookups_hooked,
        u64::from(status.driver_hooked),
    ];
    let mut bytes = Vec::new();
    for (field, value) in (1..).zip(values) {
        entry(&mut bytes, field, 0, value);
    }
    if let Some(parent) = status.parent {
        entry(&mut bytes, PARENT, 0, parent.into());
    }
    match status.exit {
        Some(Exit::Code(code)) => entry(&mut bytes, EXIT, EXIT_CODE, code.into()),
        Some(Exit::Signal(signal)) => entry(&mut bytes, EXIT, EXIT_SIGNAL, signal.into()),
        None => {}
    }
    if let Some(boot) = status.boot {
        entry(&mut bytes, BOOT, 0, boot);
    }
    if let Some(began) = status.session_realtime {
        entry(&mut bytes, SESSION_REALTIME, 0, began);
    }
    if let Some(error) = status.write_error.and_then(|error| u64::try_from(error).ok()) {
        entry(&mut bytes, WRITE_ERROR, 0, error);
    }
    let outside = [(OUTSIDE_LAUNCHES, status.outside_launches), (OUTSIDE_OTHERS, status.outside_others)];
    for (field, count) in outside.into_iter().filter(|(_, count)| *count > 0) {
        entry(&mut bytes, field, 0, count);
    }
    for (key, value) in hang::to_entries(&status.hangs) {
        entry(&mut bytes, HANGS, key, value);
    }
    for (cause, count) in &status.lost {
        entry(&mut bytes, LOST, *cause as u32, *count);
    }
    if let Some(since) = lost_since {
        entry(&mut bytes, LOST_SINCE, 0, since);
    }
    for (claim, tid) in status.threads.iter().rev().take(MAX_THREADS) {
        entry(&mut bytes, THREADS, *claim, u64::from(*tid));
    }
    bytes
}

/// Adds the threads of a status to those that are known, of which `most` are kept. Of more, the oldest go that the status does not
/// have, so that a thread which lives as long as its process stays.
pub(super) fn add_threads(known: &mut BTreeMap<u32, u32>, latest: &BTreeMap<u32, u32>, most: usize) {
    known.extend(latest);
    if known.len() <= most {
        return;
    }
    // More than needed, so that this is seldom.
    let mut goes = known.len() - most + most / 8;
    known.retain(|claim, _| {
        let stays = goes == 0 || latest.contains_key(claim);
        goes -= usize::from(!stays);
        stays
    });
    while known.len() > most {
        known.pop_first();
    }
}

/// Reads a Status chunk's payload, and its `lost_since`; `None` if a value does not fit its field.
pub(super) fn status_from_bytes(plain: &[u8]) -> Option<(Status, Option<u64>)> {
    let mut values = [0u64; LOST as usize];
    let (mut lost, mut threads) = (BTreeMap::new(), BTreeMap::new());
    let (mut parent, mut exit, mut boot, mut write_error) = (None, None, None, None);
    let (mut session_realtime, mut lost_since) = (None, None);
    let (mut outside_launches, mut outside_others) = (0, 0);
    let mut hangs = hang::Read::default();
    let mut fields = Fields(plain);
    while !fields.0.is_empty() {
        let (field, key, value) = (fields.u32()?, fields.u32()?, fields.u64()?);
        match field {
            LOST => {
                // A cause that this version does not know has no name here and is skipped.
                if let Some(cause) = u8::try_from(key).ok().and_then(LossCause::from_wire) {
                    lost.insert(cause, value);
                }
            }
            THREADS => {
                threads.insert(key, u32::try_from(value).ok()?);
            }
            PARENT => parent = Some(u32::try_from(value).ok()?),
            BOOT => boot = Some(value),
            SESSION_REALTIME => session_realtime = Some(value),
            LOST_SINCE => lost_since = Some(value),
            HANGS => hangs.take(key, value),
            WRITE_ERROR => write_error = Some(i32::try_from(value).ok()?),
            OUTSIDE_LAUNCHES => outside_launches = value,
            OUTSIDE_OTHERS => outside_others = value,
            EXIT => {
                let number = u8::try_from(value).ok()?;
                exit = match key {
                    EXIT_CODE => Some(Exit::Code(number)),
                    EXIT_SIGNAL => Some(Exit::Signal(number)),
                    _ => None,
                };
            }
            _ => {
                if let Some(slot) = values.get_mut(field as usize) {
                    *slot = value;
                }
            }
        }
    }
    let status = Status {
        pid: u32::try_from(values[1]).ok()?,
        start_time: values[2],
        began: values[3],
        began_realtime: values[4],
        session_realtime,
        ended: values[5],
        ending: *ENDINGS.get(usize::try_from(values[6]).ok()?)?,
        exit,
        boot,
        parent,
        write_error,
        agent_ns: values[7],
        poller_ns: values[8],
        calls: values[9],
        published: values[10],
        collected: values[11],
        pending: values[12],
        lookups: values[13],
        lookups_hooked: values[14],
        driver_hooked: values[15] != 0,
        lost,
        outside_launches,
        outside_others,
        threads,
        hangs: hangs.finish()?,
    };
    Some((status, lost_since))
}

/// Limit on a name's text, bytes; longer ones are cut. The wire's own limit is far below.
pub(super) const MAX_NAME: usize = 1 << 20;

/// Approximate memory of a name in addition to its text, bytes.
const NAME_OVERHEAD: usize = 64;

/// Appends an entry of a Names chunk.
pub(super) fn push_name(bytes: &mut Vec<u8>, namespace: Namespace, id: u32, text: &str) {
    let text = &text[..text.floor_char_boundary(MAX_NAME)];
    bytes.extend([namespace as u8, 0, 0, 0]);
    bytes.extend(id.to_le_bytes());
    bytes.extend((text.len() as u32).to_le_bytes());
    bytes.extend(text.as_bytes());
}

/// Takes a Names chunk's payload as far as the bytes left in `budget` allow; the first name beyond them sets `budget`
/// to 0. Returns `None` if not all names were taken.
pub(super) fn names_from_bytes(plain: &[u8], names: &mut Names, budget: &mut usize) -> Option<()> {
    let mut fields = Fields(plain);
    while !fields.0.is_empty() {
        let namespace = fields.u8()?;
        fields.bytes(3)?;
        let (id, length) = (fields.u32()?, fields.u32()?);
        let text = fields.bytes(usize::try_from(length).ok()?)?;
        if let Some(namespace) = Namespace::from_wire(namespace) {
            let text = String::from_utf8_lossy(text).into_owned();
            let left = budget.checked_sub(text.len() + NAME_OVERHEAD);
            *budget = left.unwrap_or(0);
            left?;
            names.0.insert((namespace, id), text);
        }
    }
    Some(())
}

/// The totals of a finished trace file. The End chunk holds all of them but the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Bytes of the file.
    pub bytes: u64,
    /// Records in it.
    pub records: u64,
    /// GPU times that met their launch before it was written.
    pub timed_joined: u64,
    /// GPU times that came later and were written by themselves; the reader joins them.
    pub timed_late: u64,
    /// GPU times whose launch never came (its record was lost): not written.
    pub timed_orphaned: u64,
}

/// The End chunk's payload.
pub(super) fn end_to_bytes(summary: &Summary) -> Vec<u8> {
    let mut bytes = Vec::new();
    let totals = [summary.records, summary.timed_joined, summary.timed_late, summary.timed_orphaned];
    for (field, value) in (1..).zip(totals) {
        entry(&mut bytes, field, 0, value);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first thread of a server was left out of the last Status, as the oldest of too many.
    #[test]
    fn of_too_many_threads_those_that_the_process_still_has_stay() {
        let mut known: BTreeMap<u32, u32> = (1..=16).map(|claim| (claim, 500 + claim)).collect();
        add_threads(&mut known, &[(1, 501), (17, 517)].into(), 16);
        assert_eq!(
            known.keys().copied().collect::<Vec<_>>(),
            [&[1][..], &[5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]].concat()
        );
        let many: BTreeMap<u32, u32> = (1..=20).map(|claim| (claim, 500 + claim)).collect();
        add_threads(&mut known, &many, 16);
        assert_eq!(known.first_key_value(), Some((&5, &505)), "the latest of one status");
    }
}
