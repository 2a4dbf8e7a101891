//! The random numbers of a thread that simulates: a sequence from a seed.
//!
//! ```text
//! begin(seed) ─▶ next() of this thread: Some(number) ─▶ guard dropped ─▶ None: ask the system
//! ```
//!
//! A simulation runs clients and a server on one thread. Code that needs a random number there
//! draws it from this sequence, so that the same seed gives the same names, uids and jitter. No
//! other thread is affected. Never: used outside of simulations.
//!
//! Upstream counterpart: none.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    static STATE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Ends the sequence of this thread when it is dropped.
#[derive(Debug)]
pub struct Simulated {
    before: Option<u64>,
    /// It belongs to its thread.
    thread: PhantomData<*const ()>,
}

impl Drop for Simulated {
    fn drop(&mut self) {
        STATE.set(self.before);
    }
}

/// Begins a sequence on this thread; it replaces another one until the guard is dropped.
#[must_use]
pub fn begin(seed: u64) -> Simulated {
    Simulated {
        before: STATE.replace(Some(seed)),
        thread: PhantomData,
    }
}

/// Returns whether this thread simulates.
#[must_use]
pub fn is_on() -> bool {
    STATE.get().is_some()
}

/// Returns the next number of this thread's sequence (SplitMix64), or `None` if the thread does not
/// simulate.
#[must_use]
pub fn next() -> Option<u64> {
    let state = STATE.get()?.wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(Some(state));
    let mut mixed = state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Some(mixed ^ (mixed >> 31))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_sequence_and_none_outlives_its_guard() {
        assert_eq!((next(), is_on()), (None, false));
        let drawn = |seed| {
            let _guard = begin(seed);
            [next(), next(), next()]
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
        let outer = begin(1);
        let first = next();
        drop(begin(2));
        assert!(is_on());
        assert_ne!(next(), first);
        drop(outer);
        assert_eq!(next(), None);
    }
}
