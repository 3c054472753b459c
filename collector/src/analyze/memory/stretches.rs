//! Values over time in bounded memory: equally long stretches, which become twice as long when there are too many.

/// What is kept of a stretch.
pub trait Join: Copy {
    /// Returns the value of two adjacent stretches.
    fn join(self, later: Self) -> Self;
}

/// The least level of a stretch, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Floor(pub u64);

impl Join for Floor {
    fn join(self, later: Floor) -> Floor {
        Floor(self.0.min(later.0))
    }
}

/// The values of stretches of steps or of time, from index 0 on.
#[derive(Clone, Debug)]
pub struct Stretches<Value> {
    most: usize,
    /// How many indices each stretch has.
    pub length: u64,
    /// In order.
    pub values: Vec<Value>,
}

impl<Value: Join> Stretches<Value> {
    /// There will be no more than `most` stretches, an even number.
    pub fn new(most: usize) -> Self {
        Stretches { most, length: 1, values: Vec::new() }
    }

    /// Returns the stretch of an index. Stretches that were not there before get the value `between`.
    pub fn at(&mut self, index: u64, between: Value) -> &mut Value {
        while index / self.length >= self.most as u64 {
            self.length = self.length.saturating_mul(2);
            let joined = self.values.chunks(2).map(|two| match *two {
                [one, other] => one.join(other),
                _ => two[0],
            });
            self.values = joined.collect();
        }
        let place = (index / self.length) as usize;
        if self.values.len() <= place {
            self.values.resize(place + 1, between);
        }
        &mut self.values[place]
    }
}

impl Stretches<Floor> {
    /// Records that `level` has been held since the last call, and still is at `index`.
    pub fn held(&mut self, level: u64, index: u64) {
        if let Some(last) = self.values.last_mut() {
            *last = last.join(Floor(level));
        }
        let here = self.at(index, Floor(level));
        *here = here.join(Floor(level));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_level_of_each_stretch_is_kept() {
        let mut floors = Stretches::new(4);
        for (level, index) in [(5, 0), (7, 2), (3, 3)] {
            floors.held(level, index);
        }
        assert_eq!((floors.length, floors.values.as_slice()), (1, [5, 7, 3, 3].map(Floor).as_slice()));
        floors.held(9, 6);
        assert_eq!((floors.length, floors.values.as_slice()), (2, [5, 3, 9, 9].map(Floor).as_slice()));
    }
}
