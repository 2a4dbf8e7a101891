//! The memory that a reader holds on the heap while it reads.
//!
//! ```text
//! mark ──▶ the reader reads ──▶ grown: bytes since then ──▶ no more than a few times the input
//! ```
//!
//! The allocator counts for all threads, so only one measurement runs at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::HEAP;

/// BOUND: the bytes that a reader may hold beyond those allowed for its input.
const FREE: usize = 256 << 10;

/// A measurement; no other one runs at the same time.
#[derive(Debug)]
pub struct Mark {
    before: usize,
    allowed: usize,
    _alone: MutexGuard<'static, ()>,
}

impl Mark {
    /// Begins a measurement of a reader that is given `input` bytes.
    #[must_use]
    pub fn new(input: usize) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        Self {
            before: HEAP.allocated(),
            allowed: 4 * input + FREE,
            _alone: alone,
        }
    }

    /// Asserts that no more is held than the input allows.
    ///
    /// # Panics
    /// More is held.
    pub fn check(&self) {
        let grown = HEAP.allocated().saturating_sub(self.before);
        assert!(
            grown <= self.allowed,
            "{grown} bytes are kept, {} would do",
            self.allowed
        );
    }
}

/// Limits what may ever be allocated: a fuzzer's run ends there.
///
/// # Panics
/// More is allocated already.
pub fn limit(bytes: usize) {
    HEAP.set_limit(bytes).expect("less is allocated");
}
