//! Events: a controller's messages to people about an object (`kubectl describe` shows them).
//!
//! ```text
//! EventRecorder (never waits) → bounded queue → EventDelivery::run → correlator │ series → POST, PATCH
//! ```
//!
//! A recorder is a handle for reconcile functions; delivery is one future that its owner runs in
//! parallel to the controller. Events are for people, so they are never worth a stall: a full queue
//! drops (and counts) the new one, a noisy object is rate limited, an event that the server refuses
//! is dropped, and logged once for each cause.
//!
//! There are two APIs, and an event of either is seen in both. `v1` ([`EventRecorder::new`]): equal
//! events within ten minutes are one object whose count grows, and from the tenth on, those that
//! differ in their message only are one. `events.k8s.io/v1` ([`EventRecorder::with_series`]): equal
//! events are a series, which costs a request at its begin, its end, and each half hour.
//!
//! `recorder.rs` is the handle, `occurrence.rs` what it records; `correlator.rs` and `series.rs`
//! decide which requests are made (pure, time comes in), `delivery.rs` makes them, `request.rs` is
//! their form.
//! Never: retries a refusal, exceeds its bounds, fails a reconcile.
//!
//! Upstream counterpart: `client-go:tools/record`, `client-go:tools/events`.

mod correlator;
mod counts;
mod delivery;
mod machine;
mod occurrence;
mod recorder;
mod remembered;
mod request;
mod series;
mod telling;

pub use self::counts::EventCounts;
pub use self::delivery::EventDelivery;
pub use self::occurrence::EventType;
pub use self::recorder::{EventRecorder, ObjectEvents};
