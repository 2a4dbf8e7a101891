//! The cost of operators: take-overs, renewals, tracking, fairness, losses of a lease.
//!
//! ```text
//! operators (the bench) ─ server ◀─HTTP─ operators replica | blocked | losses   (processes of their own)
//!                       └─ operators overhead | fairness: a source in the process, no server
//! ```
//!
//! Replicas report on stdout, one line an event: a word, a number. Times are microseconds since 1970,
//! by the machine's clock, which all processes share.

pub mod blocked;
pub mod cluster;
pub mod fairness;
pub mod losses;
pub mod overhead;
pub mod process;
pub mod replica;
pub mod source;
pub mod takeover;

use kinform_operator::leader::LeaseOptions;

/// The timings of a lease that a scenario is run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Timings {
    /// Those that an operator has by default.
    Default,
    /// `LeaseOptions::quick()`.
    Quick,
}

impl Timings {
    /// The options.
    #[must_use]
    pub fn options(self) -> LeaseOptions {
        match self {
            Self::Default => LeaseOptions::default(),
            Self::Quick => LeaseOptions::quick(),
        }
    }

    /// The name on a command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Quick => "quick",
        }
    }
}
