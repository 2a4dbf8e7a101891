//! The parts of every port that a move leaves as they are: metrics, pages, the pause between runs.
//!
//! ```text
//! observed.rs (metrics, last event, trace) │ web.rs (a port) │ check_back, listable
//! ```
//!
//! Both columns of a port use them, so they count for neither.

use std::fmt::Debug;
use std::time::Duration;

use kube::api::{Api, ListParams};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;

pub mod observed;
pub mod web;

pub use observed::Observed;

/// The variable with another pause between two runs, in milliseconds.
const CHECK_BACK: &str = "PORTS_CHECK_BACK_MS";
/// The variable with a number of runs at one time, for the column on kube-runtime.
const CONCURRENCY: &str = "PORTS_CONCURRENCY";

/// The pause after which an object is looked at again if nothing happens: this one, or what the
/// environment says.
#[must_use]
pub fn check_back(default: Duration) -> Duration {
    let stated = std::env::var(CHECK_BACK).ok();
    let stated = stated.and_then(|text| text.parse().ok());
    stated.map_or(default, Duration::from_millis)
}

/// The number of runs at one time on kube-runtime, where 0 is no limit, which is its default: none, or
/// what the environment says.
#[must_use]
pub fn concurrency() -> u16 {
    let stated = std::env::var(CONCURRENCY).ok();
    stated
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

/// Fails if objects of a type cannot be listed: their definition is not installed, or a right is
/// missing.
///
/// # Errors
/// The answer of the server.
pub async fn listable<K>(client: Client) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let all: Api<K> = Api::all(client);
    let first = ListParams::default().limit(1);
    all.list(&first).await.map(drop)
}
