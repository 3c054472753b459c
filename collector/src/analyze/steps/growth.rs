//! How much does the memory that a program holds grow in each step?

/// The most steps at which it is noted; when there are more, every second one is dropped.
const MOST: usize = 64;

/// Live memory at the starts of steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Growth {
    noted: Vec<(u64, u64)>,
    /// The distance between noted steps, as a power of two.
    apart: u32,
}

impl Growth {
    /// Notes the bytes that are held when a step begins.
    pub(super) fn note(&mut self, step: u64, live: u64) {
        if !step.is_multiple_of(1 << self.apart) {
            return;
        }
        self.noted.push((step, live));
        if self.noted.len() > MOST {
            self.apart += 1;
            self.noted.retain(|(step, _)| step.is_multiple_of(1 << self.apart));
        }
    }

    /// Returns the bytes per step from step `from` on: the median of the slopes between all pairs of notes (Theil and Sen),
    /// which a few steps that hold more do not change.
    pub(super) fn per_step(&self, from: u64) -> f64 {
        let noted: Vec<_> = self.noted.iter().filter(|(step, _)| *step >= from).collect();
        let pairs = noted.iter().enumerate().flat_map(|(at, one)| noted[at + 1..].iter().map(move |two| (one, two)));
        let slope = |(one, two): (&&(u64, u64), &&(u64, u64))| (two.1 as f64 - one.1 as f64) / (two.0 - one.0) as f64;
        let mut slopes: Vec<f64> = pairs.map(slope).collect();
        slopes.sort_by(f64::total_cmp);
        slopes.get(slopes.len() / 2).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_what_most_steps_add() {
        let mut growth = Growth::default();
        for step in 0..5_000u64 {
            let evaluation = if step % 100 == 0 { 1 << 30 } else { 0 };
            growth.note(step, 1_000_000 + step * 512 + evaluation);
        }
        assert!(growth.noted.len() <= MOST);
        assert_eq!(growth.per_step(3), 512.0);
        assert_eq!(Growth::default().per_step(0), 0.0);
    }
}
