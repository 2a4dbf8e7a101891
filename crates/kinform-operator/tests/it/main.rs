//! Tests of the public interface on the embedded server.

#![expect(clippy::unwrap_used, reason = "a test may unwrap")]

mod certificate;
mod configuration;
mod failover;
mod inspect;
mod leader;
mod memory_budget;
mod operator;
mod planted;
mod sharding;
mod support;
