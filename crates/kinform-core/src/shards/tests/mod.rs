//! Tests of sharding: rules of one member as scripts, and many members in a simulated world.
//!
//! ```text
//! seed → World (server, replicas, chaos) → Sharding + Election of each → verdict
//! ```

mod chaos;
mod large;
mod model;
mod replica;
mod rules;
mod server;
mod world;

use std::sync::Arc;
use std::time::Duration;

use super::*;
