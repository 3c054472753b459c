use super::super::analysis::finish_at;
use super::*;
use crate::model::{Operation, simulation};
use crate::trace::record::{Record, Work};
use gpuspy_wire::record::{Direction, Namespace};

const COPY: u16 = 3;

/// A copy of 4 kB to a GPU.
#[derive(Clone, Copy)]
struct Copy {
    src: u64,
    dst: u64,
    called: u64,
    ran: Option<(i64, i64)>,
    off_by: Option<u64>,
    kind: TransferKind,
    host_memory: HostMemory,
    flags: u16,
    rows: u32,
}

/// A copy from page-locked memory that is called at host ns `called` and over at `over`.
fn copy(called: u64, over: i64) -> Copy {
    let (kind, host_memory) = (TransferKind::HtoD, HostMemory::Pinned);
    let ran = Some((over - 100, over));
    Copy { src: 64, dst: 4_096, called, ran, off_by: Some(5), kind, host_memory, flags: 0, rows: 1 }
}

/// Returns what is found, and how many copies are remembered.
fn uploads(copies: impl IntoIterator<Item = Copy>) -> (Option<Repeats>, usize) {
    let names = Names([((Namespace::Api, COPY.into()), "cuMemcpyHtoDAsync_v2_ptsz".to_owned())].into());
    let mut fold = Uploads::new(&Start { began: 500, ..Start::of(&names) });
    for Copy { src, dst, called, ran, off_by, kind, host_memory, flags, rows } in copies {
        let mut work = simulation::work(called + 10, 10, 0);
        (work.call.api, work.call.flags) = (COPY, flags);
        let direction = Direction::HtoD;
        let peer_context = 0;
        work.what =
            What::Memcpy { direction, asynchronous: true, bytes: 4_096, dst, src, rows, peer_context };
        let what = Action::Transfer { kind, host_memory, bytes: 4_096 };
        let mut operation = simulation::operation(what, (called, called + 10));
        if let Some((start, end)) = ran {
            let mut interval = simulation::exactly(start, end);
            interval.off_by = off_by;
            operation.when = When::Timed(interval);
        }
        observe(&mut fold, work, operation);
    }
    let kept = fold.uploads.len();
    let mut rows = finish_at(fold, 0);
    let found = rows.remove(&("cuMemcpyHtoDAsync".to_owned(), Source::default()));
    assert!(rows.is_empty(), "{rows:?}");
    (found, kept)
}

fn observe(fold: &mut Uploads<'_>, work: Work, operation: Operation) {
    let record = Record { thread: 1, at: operation.returned, body: Body::Work(work) };
    let event = Event { operation: Some(operation), ..Event::new(&record) };
    fold.observe(&event, &Scope::whole(&event, true));
}

fn found(copies: &[Copy]) -> Option<Repeats> {
    uploads(copies.iter().copied()).0
}

#[test]
fn a_copy_that_is_called_while_the_same_one_runs_is_certainly_a_repeat() {
    let found = found(&[copy(1_000, 2_000), copy(1_500, 2_100), copy(1_600, 2_200)]).unwrap();
    let time = Sum { value: 200, lo: 200, hi: 200 };
    let expected = Repeats { buffers: 1, count: 2, certain: 2, bytes: 8_192, timed: 2, time, first: 1_000 };
    assert_eq!(found, expected);
}

/// Eight batches that are copied into one buffer by turns were said to be there already.
#[test]
fn what_was_overwritten_by_another_copy_is_no_repeat() {
    let other = |called, over| Copy { src: 128, ..copy(called, over) };
    assert_eq!(
        found(&[copy(1_000, 4_000), other(1_100, 4_100), copy(1_200, 4_200), other(1_300, 4_300)]),
        None
    );
    let elsewhere = |called, over| Copy { dst: 8_192, ..other(called, over) };
    let two = [copy(1_000, 4_000), elsewhere(1_100, 4_100), copy(1_200, 4_200), elsewhere(1_300, 4_300)];
    assert_eq!(found(&two).map(|found| found.certain), Some(2));
}

#[test]
fn the_host_may_have_changed_what_was_read_before() {
    assert_eq!(found(&[copy(1_000, 2_000), copy(2_001, 3_000)]), None);
    // The clock can be off by 5 ns.
    assert_eq!(found(&[copy(1_000, 2_000), copy(1_995, 3_000)]), None);
    assert_eq!(found(&[copy(1_000, 2_000), copy(1_994, 3_000)]).map(|found| found.certain), Some(1));
    let unknown = Copy { off_by: None, ..copy(1_000, 2_000) };
    assert_eq!(found(&[unknown, copy(1_500, 3_000)]), None, "nothing bounds its clock");
    let untimed = Copy { ran: None, ..copy(1_000, 2_000) };
    assert_eq!(found(&[untimed, copy(1_500, 3_000)]), None);
}

#[test]
fn copies_of_a_buffer_are_repeats_if_at_least_half_of_them_certainly_are() {
    let (certain, possible) = (copy(1_100, 2_000), copy(2_500, 2_700));
    let half = found(&[copy(1_000, 2_000), certain, possible]).unwrap();
    assert_eq!((half.count, half.certain), (2, 1));
    assert_eq!(found(&[copy(1_000, 2_000), certain, possible, copy(3_500, 3_700)]), None);
}

#[test]
fn other_addresses_are_other_data() {
    let first = copy(1_000, 2_000);
    assert_eq!(found(&[first, Copy { src: 65, ..copy(1_100, 2_100) }]), None);
    assert_eq!(found(&[first, Copy { dst: 65, ..copy(1_100, 2_100) }]), None);
    let another = |called| Copy { src: 65, ..copy(called, 2_100) };
    let elsewhere = |called| Copy { dst: 65_536, ..another(called) };
    let both = found(&[first, elsewhere(1_010), copy(1_100, 2_100), elsewhere(1_200)]).unwrap();
    assert_eq!((both.buffers, both.count), (2, 2));
}

#[test]
fn only_plain_copies_to_a_gpu_that_read_page_locked_memory_later_count() {
    let twice = |of: fn(Copy) -> Copy| found(&[of(copy(1_000, 2_000)), of(copy(1_100, 2_100))]);
    assert!(twice(|copy| copy).is_some());
    assert_eq!(twice(|copy| Copy { host_memory: HostMemory::Pageable, ..copy }), None);
    assert_eq!(twice(|copy| Copy { kind: TransferKind::DtoH, ..copy }), None);
    assert_eq!(twice(|copy| Copy { rows: 2, ..copy }), None);
    for flags in [flag::BLOCKING, flag::BATCH, flag::PREFETCH] {
        let of = |at| Copy { flags, ..copy(at, 2_000) };
        assert_eq!(found(&[of(1_000), of(1_100)]), None, "{flags:#x}");
    }
}

#[test]
fn untimed_repeats_count_like_the_timed_ones() {
    let untimed = Copy { ran: None, ..copy(1_200, 0) };
    let found = found(&[copy(1_000, 2_000), copy(1_100, 2_100), untimed]).unwrap();
    assert_eq!((found.count, found.certain, found.timed, found.time.value), (2, 2, 1, 100));
    assert_eq!(found.whole(), 200);
    assert_eq!(Repeats::default().whole(), 0);
}

#[test]
fn buffers_that_are_copied_once_do_not_fill_the_memory() {
    let once =
        (0..3 * MOST as u64).map(|at| Copy { src: 10_000 + at, dst: 1 << 40, ..copy(3_000 + at, 4_000) });
    let repeated = [copy(1_000, 2_000), copy(1_100, 2_100)];
    let (found, kept) = uploads(repeated.into_iter().chain(once).chain([copy(2_050, 2_150)]));
    assert_eq!(found.map(|found| (found.count, found.certain)), Some((2, 2)));
    assert!(kept <= MOST, "{kept}");
}

#[test]
fn the_first_repeat_of_all_processes_is_the_earliest() {
    let of =
        |count, first| Repeats { buffers: 1, count, certain: count, bytes: 10, first, ..Repeats::default() };
    let mut all = Repeats::default();
    [of(2, 700), of(3, 300), of(1, 900)].iter().for_each(|repeats| all.merge(repeats));
    assert_eq!((all.buffers, all.count, all.bytes, all.first), (3, 6, 30, 300));
}
