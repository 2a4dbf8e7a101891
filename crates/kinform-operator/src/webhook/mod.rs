//! Webhooks: admission and conversion requests of an API server, answered by typed functions.
//!
//! ```text
//! POST body (bounded) → review → typed function → verdict, patch or converted objects → reply
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/webhook`.
