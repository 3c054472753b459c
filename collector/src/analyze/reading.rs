//! What do the records of a process mean, and what of that passes the filter? On threads of their own, in batches.

use super::scope::{Scope, Selected};
use crate::ahead::ahead;
use crate::model::clocks::Clocks;
use crate::model::filter::{Filter, RecordFilter};
use crate::model::period::Period;
use crate::model::steps::StepCounter;
use crate::model::{Event, Model, Process};
use crate::trace::batch;
use crate::trace::record::{Names, Record, Status};
use self_cell::self_cell;

/// What records mean, and what of it passes the filter.
type Meanings<'r> = Vec<(Event<'r>, Selected)>;

self_cell! {
    /// Records with their meanings.
    pub struct Batch {
        owner: Vec<Record>,
        #[covariant]
        dependent: Meanings,
    }
}

impl Batch {
    /// The events of the records, and their scopes.
    pub fn events(&self) -> impl Iterator<Item = (&Event<'_>, Scope<'_>)> {
        self.borrow_dependent().iter().map(|(event, selected)| (event, Scope::of(event, selected)))
    }
}

/// What reads the records of a process.
#[derive(Debug)]
pub struct Reading<'a> {
    model: Model<'a>,
    steps: StepCounter,
    filter: RecordFilter<'a>,
}

impl<'a> Reading<'a> {
    /// Begins to read the trace of a process whose clocks are known.
    pub fn new(
        names: &'a Names,
        status: Option<&Status>,
        clocks: &'a Clocks,
        filter: &'a Filter,
    ) -> Reading<'a> {
        Reading {
            model: Model::new(names, clocks),
            steps: StepCounter::new(&clocks.steps),
            filter: RecordFilter::of(filter, names, status, clocks),
        }
    }

    /// The selected time.
    pub fn period(&self) -> &Period {
        self.filter.period()
    }

    /// Reads all records on other threads, one that decodes them and one that says what they mean, and lets `take` take
    /// them with their meanings.
    pub fn ahead<R>(
        &mut self,
        mut records: impl Iterator<Item = Record> + Send,
        take: impl FnOnce(&mut (dyn Iterator<Item = Batch> + Send)) -> R,
    ) -> R {
        ahead(|| batch(&mut records), |batches| ahead(|| Some(self.batch(batches.next()?)), take))
    }

    fn batch(&mut self, records: Vec<Record>) -> Batch {
        Batch::new(records, |records| records.iter().map(|record| self.meaning(record)).collect())
    }

    /// Returns what was learned of the process.
    pub fn finish(self) -> Process {
        self.model.finish()
    }

    fn meaning<'r>(&mut self, record: &'r Record) -> (Event<'r>, Selected) {
        let mut event = self.model.observe(record);
        event.is_setting_up = self.steps.is_setting_up();
        event.step = self.steps.observe(record);
        event.is_preparing = self.steps.is_preparing();
        let selected = Selected::of(&mut self.filter, &event);
        (event, selected)
    }
}
