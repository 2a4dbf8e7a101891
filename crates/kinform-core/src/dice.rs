//! The only chance of a machine: a sequence of numbers from a seed.
//!
//! ```text
//! seed → numbers in [0, 1)
//! ```
//!
//! Good enough to spread timeouts and retries over many clients, and for nothing else.
//! The seed comes from the shell, so a simulation replays exactly. SplitMix64.
//!
//! Upstream counterpart: `math/rand` in `client-go:tools/cache/reflector.go`.

/// A seeded sequence.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, in `[0, 1)`.
    pub(crate) fn throw(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throws_spread_over_the_unit() {
        let mut dice = Dice::new(7);
        let throws: Vec<f64> = (0..1_000).map(|_| dice.throw()).collect();
        assert!(throws.iter().all(|t| (0.0..1.0).contains(t)));
        let mean = throws.iter().sum::<f64>() / 1e3;
        assert!((0.45..0.55).contains(&mean), "{mean}");
    }
}
