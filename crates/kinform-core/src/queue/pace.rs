//! How long workers have a key, of late.
//!
//! ```text
//! each key given back → moving average → usual work, for who decides whether one more is worth waking
//! ```
//!
//! An eighth of what is told is new each time. Nothing is known at first, and a long work counts as one of
//! 100 µs: the average is then back at short ones after some thirty of them. Of a queue that keeps no times, one hand-out
//! in sixteen is told, so that the clock is read for those only, and the average follows sixteen times slower.
//! Which ones is no multiple of anything: keys that come in turn all have theirs.
//!
//! Upstream counterpart: none; `client-go:util/workqueue` wakes a worker an add.

use std::time::Duration;

/// BOUND: nanoseconds of one work that count.
const LONGEST: u64 = 100_000;

/// Of so many hand-outs one is told, where times are not kept.
const SAMPLED: u32 = 16;

/// A moving average of works.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    nanos: u64,
}

impl Pace {
    /// As if all had been long.
    pub(super) fn new() -> Self {
        Self { nanos: LONGEST }
    }

    /// Whether this hand-out is told where times are not kept.
    #[inline]
    pub(super) fn samples(generation: u32) -> bool {
        // The golden ratio of a word: its multiples lie evenly, whatever the step.
        generation.wrapping_mul(0x9E37_79B9) < u32::MAX / SAMPLED
    }

    #[inline]
    pub(super) fn worked(&mut self, nanos: u64) {
        self.nanos = (self.nanos * 7 + nanos.min(LONGEST)) / 8;
    }

    /// Never nothing.
    pub(super) fn usual(self) -> Duration {
        Duration::from_nanos(self.nanos.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_hand_out_in_sixteen_is_told_whatever_the_step() {
        for step in [1, 2, 3, 4, 8, 16, 48] {
            let told = (0..16_000)
                .filter(|turn| Pace::samples(turn * step))
                .count();
            assert!((900..1100).contains(&told), "{told} of each {step}th");
        }
    }

    #[test]
    fn short_works_are_known_as_such_and_one_long_one_is_forgotten() {
        let mut pace = Pace::new();
        assert_eq!(pace.usual(), Duration::from_micros(100));
        let mut work = |times: usize, nanos: u64| {
            (0..times).for_each(|_| pace.worked(nanos));
            pace.usual().as_nanos()
        };
        assert!((200..300).contains(&work(60, 200)));
        assert!((10_000..15_000).contains(&work(1, u64::MAX)));
        assert!((200..500).contains(&work(30, 200)));
        assert_eq!(work(100, 0), 1);
        assert!((99_000..=100_000).contains(&work(60, 3_000_000_000)));
    }
}
