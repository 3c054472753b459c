use super::super::analysis::finish_at;
use super::*;
use crate::model::simulation::{self, exactly};
use crate::model::{Operation, Reason, When};
use crate::trace::record::{self, Record};
use gpuspy_wire::record::{Untimed, WindowChange};

const MS: u64 = 1_000_000;

/// A program that opens ranges, under `--timing auto`.
struct Program<'a> {
    fold: RangeFold<'a>,
    now: u64,
}

impl Program<'_> {
    fn observe(&mut self, body: Body, operation: Option<Operation>) {
        let record = Record { thread: 1, at: self.now, body };
        let event = Event { operation, ..Event::new(&record) };
        self.fold.observe(&event, &Scope::whole(&event, true));
    }

    fn range(&mut self, change: NvtxChange) {
        let range = NvtxRange { change, id: 0, domain: 0, text: 1, category: 0, color: 0, payload: false };
        self.observe(Body::NvtxRange(range), None);
    }

    fn window(&mut self, change: WindowChange) {
        let window = record::Window { change, agent_ns: 0, poller_ns: 0, launches: 0 };
        self.observe(Body::Window(window), None);
    }

    /// Launches a kernel that runs from `start` on for a tenth of a ms.
    fn launch(&mut self, start: u64, is_timed: bool) {
        let when = match is_timed {
            true => When::Timed(exactly(start as i64, (start + MS / 10) as i64)),
            false => When::Untimed { reason: Reason::Untimed(Untimed::Budget), after: Some(0) },
        };
        let kernel = Action::Kernel { name: 1, communication: false };
        let called = (self.now, self.now + 1);
        let operation = Operation { when, ..simulation::operation(kernel, called) };
        self.observe(Body::Work(simulation::work(self.now + 1, 1, 0)), Some(operation));
    }

    /// A step of 2 ms: a range of two launches, 0.9 ms apart, so that it takes 1 ms on the GPU.
    fn step(&mut self, timed: [bool; 2]) {
        self.range(NvtxChange::Push);
        for (n, is_timed) in (0..).zip(timed) {
            self.launch(self.now + 9 * n * MS / 10, is_timed);
        }
        self.range(NvtxChange::Pop);
        self.now += 2 * MS;
    }
}

fn run(program: impl FnOnce(&mut Program<'_>)) -> RangeTimes {
    let names = Names::default();
    let mut all = Program { fold: RangeFold::new(&Start::of(&names)), now: MS };
    program(&mut all);
    let rows = finish_at(all.fold, all.now);
    rows.by_name.into_values().next().unwrap()
}

/// Of 300 ranges of 1.2 ms each, 190 ms in all were said to be the exact GPU time, since 108 had a timed operation.
#[test]
fn ranges_in_pauses_of_the_budget_have_the_time_of_those_that_were_measured() {
    let ranges = run(|p| {
        for _ in 0..30 {
            p.window(WindowChange::Opens);
            (0..3).for_each(|_| p.step([true; 2]));
            p.step([true, false]);
            p.window(WindowChange::Closes);
            (0..6).for_each(|_| p.step([false; 2]));
        }
    });
    let total = ranges.total().unwrap();
    assert_eq!((ranges.host.count, ranges.working(), ranges.gpu().count()), (300, 300, 90));
    assert_eq!((total.kind, total.value.div_ceil(MS)), (Kind::Extrapolated, 300), "{total:?}");
    assert!(total.lo <= 300 * MS && 300 * MS <= total.hi, "{total:?}");
    assert_eq!(ranges.gpu().min().map(|least| least.value), Some(MS), "one was not known whole");
}

#[test]
fn a_range_of_which_only_a_part_was_timed_lasts_until_the_end_of_the_records_at_most() {
    let ranges = run(|p| {
        p.range(NvtxChange::Push);
        (0..10).for_each(|n| {
            p.launch(p.now, (3..7).contains(&n));
            p.now += MS;
        });
        p.range(NvtxChange::Pop);
    });
    let total = ranges.total().unwrap();
    assert_eq!((total.kind, total.lo, total.hi), (Kind::Extrapolated, 3 * MS + MS / 10, 10 * MS));
}

#[test]
fn ranges_that_are_all_measured_are_not_extrapolated() {
    let ranges = run(|p| (0..10).for_each(|_| p.step([true; 2])));
    assert_eq!(ranges.total(), Some(Estimate::exactly(10 * MS)));
    let none = run(|p| (0..10).for_each(|_| p.step([false; 2])));
    assert_eq!((none.total(), none.working()), (None, 10));
}
