//! The checkers of kinform's own tests: no promise to users.
//!
//! ```text
//! Stage { server, Link | Proxy } ─▶ informer under test → what its handlers heard → EventChecker, EventModel
//!      ▲ Round { FaultPlan of a seed, Writer } ────┘ trouble
//! ```
//!
//! | file | what lives there |
//! |---|---|
//! | `stage` | a server behind a network that misbehaves |
//! | `writer` | random writes by ordinary requests, and the truth read by one |
//! | `event_model`, `event_checker` | a model of the notifications; contradictions; convergence |
//! | `rounds` | sequences of faults from a seed |

pub mod event_checker;
pub mod event_model;
pub mod rounds;
pub mod stage;
pub mod writer;
