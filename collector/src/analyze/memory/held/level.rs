//! How much is held over time, as far as operations are launched meanwhile: what is freed after the last operation does not
//! lower the level.

use crate::analyze::memory::churn::Place;
use crate::analyze::memory::stretches::{Floor, Stretches};

/// The most stretches of a level: as many for each line as for the whole, so that they can be compared.
const STRETCHES: usize = 128;

/// The bytes held over time.
#[derive(Debug)]
pub struct Level {
    /// The bytes that are held now.
    pub bytes: u64,
    /// The number of operations in the selected time at the last change.
    operations: u64,
    steps: Stretches<Floor>,
    time: Stretches<Floor>,
}

impl Default for Level {
    fn default() -> Self {
        let (steps, time) = (Stretches::new(STRETCHES), Stretches::new(STRETCHES));
        Level { bytes: 0, operations: 0, steps, time }
    }
}

impl Level {
    /// Records the present level, before it changes or at the end.
    pub fn settle(&mut self, now: Place) {
        if now.selected == self.operations {
            return;
        }
        self.operations = now.selected;
        if let Some(step) = now.steps {
            self.steps.held(self.bytes, step);
        }
        if let Some(micros) = now.micros {
            self.time.held(self.bytes, micros);
        }
    }

    /// Returns the least of each stretch of steps, or of time.
    pub fn stretches(&self, in_steps: bool) -> &Stretches<Floor> {
        if in_steps { &self.steps } else { &self.time }
    }
}
