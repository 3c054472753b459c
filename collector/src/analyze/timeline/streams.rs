//! What a timeline remembers of its streams.

use super::super::gaps::Neighbour;
use super::super::identity::{Class, Layer};
use super::super::idle::host::Over;
use super::super::idle::hta::HtaStream;
use super::super::idle::lead::LeadNumber;
use crate::hash::HashMap;
use crate::model::gpu_interval::{GpuInterval, host};

/// A stream, by its context and its id there.
pub type StreamKey = (u32, u64);

/// The streams of a timeline. Each has a place, which it keeps until one is removed: what is done for an operation looks it
/// up once.
#[derive(Debug, Default)]
pub struct Streams {
    places: HashMap<StreamKey, usize>,
    all: Vec<(StreamKey, Stream)>,
    /// How many there have been.
    pub used: u64,
}

/// A stream.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The earliest time at which the end event of the last timed operation can have fired.
    pub end: i64,
    /// When the last of its operations was called: host ns.
    pub called: i64,
    /// Host ns when the calls of all timed operations so far had returned.
    pub returned: u64,
    /// Untimed work that no timed operation has followed yet: at most one entry for each class and layer.
    pub untimed: Vec<Untracked>,
    /// Its last timed operation.
    pub last: Option<Ran>,
    /// The lead of the first of the launches that the next burst or run will have timed.
    pub first_member: LeadNumber,
    /// Its idle time as HTA counts it.
    pub hta: HtaStream,
}

/// When a timed operation ran: host ns on the line.
#[derive(Clone, Copy, Debug)]
pub struct Ran {
    /// Its start, by the best estimate.
    pub start: i64,
    /// Its end, by the best estimate.
    pub end: i64,
    /// It did not end before this.
    pub earliest_end: i64,
    /// How far its place can be off, ns.
    pub off_by: i64,
}

/// Untimed work.
#[derive(Clone, Copy, Debug)]
pub struct Untracked {
    /// Its layer.
    pub layer: Layer,
    /// What it is spent on.
    pub class: Class,
    /// It did not start before this: host ns on the line.
    pub since: i64,
    /// Host ns when the last of it was issued.
    pub issued: u64,
    /// The first of it.
    pub first: Neighbour,
}

impl Streams {
    /// Returns the place of a stream, which is a new one if it is not known.
    pub fn place(&mut self, key: StreamKey) -> usize {
        *self.places.entry(key).or_insert_with(|| {
            self.used += 1;
            self.all.push((key, Stream::default()));
            self.all.len() - 1
        })
    }

    /// Returns the stream in a place.
    pub fn at(&mut self, place: usize) -> &mut Stream {
        &mut self.all[place].1
    }

    /// Returns a stream if it is known.
    pub fn get(&self, key: StreamKey) -> Option<&Stream> {
        Some(&self.all[*self.places.get(&key)?].1)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, key: StreamKey) -> Option<&mut Stream> {
        Some(&mut self.all[*self.places.get(&key)?].1)
    }

    /// All streams with their keys.
    pub fn all(&self) -> &[(StreamKey, Stream)] {
        &self.all
    }

    /// The same, to be changed.
    pub fn all_mut(&mut self) -> &mut [(StreamKey, Stream)] {
        &mut self.all
    }

    /// Removes a stream.
    pub fn remove(&mut self, key: StreamKey) -> Option<Stream> {
        let place = self.places.remove(&key)?;
        let (_, stream) = self.all.swap_remove(place);
        if let Some((moved, _)) = self.all.get(place) {
            self.places.insert(*moved, place);
        }
        Some(stream)
    }
}

impl Untracked {
    /// Whether it counts in a layer as time of a class.
    pub fn is_of(&self, layer: Layer, class: Class) -> bool {
        (self.layer, self.class) == (layer, class)
    }
}

impl Default for Stream {
    fn default() -> Self {
        let (first_member, hta) = (LeadNumber::default(), HtaStream::default());
        Stream {
            end: i64::MIN,
            called: i64::MIN,
            returned: 0,
            untimed: Vec::new(),
            last: None,
            first_member,
            hta,
        }
    }
}

impl Ran {
    /// When an operation with this interval ran.
    pub fn of(interval: &GpuInterval) -> Ran {
        let GpuInterval { start, end, earliest_end, off_by, .. } = *interval;
        Ran { start, end, earliest_end, off_by: off_by.map_or(i64::MAX, host) }
    }

    /// When it was over.
    pub fn over(&self) -> Over {
        Over { at: self.end, off_by: self.off_by }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_keep_what_is_known_of_them_when_another_is_removed() {
        let mut streams = Streams::default();
        for stream in [7, 8, 9] {
            let place = streams.place((1, stream));
            streams.at(place).returned = stream;
        }
        assert_eq!(streams.remove((1, 7)).map(|stream| stream.returned), Some(7));
        for stream in [8, 9] {
            let place = streams.place((1, stream));
            assert_eq!(
                (streams.at(place).returned, streams.get((1, stream)).unwrap().returned),
                (stream, stream)
            );
        }
        assert!(streams.get((1, 7)).is_none() && streams.remove((1, 7)).is_none());
        streams.place((1, 7));
        assert_eq!((streams.all().len(), streams.used), (3, 4), "it is another one");
    }
}
