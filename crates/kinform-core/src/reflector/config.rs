//! The fixed configuration of a reflector: its requests and its time limits.
//!
//! ```text
//! the informer's options → ReflectorConfig → Reflector
//! ```
//!
//! The defaults are those of the design; tests shorten them. Nothing here changes while it runs, but for
//! the shard selector.
//!
//! Upstream counterpart: `client-go:tools/cache/reflector.go` (`ReflectorOptions` and the constants).

use std::time::Duration;

use kinform_api::mutant;

use crate::backoff::BackoffPolicy;
use crate::time::Instant;

use super::limits::CacheLimits;

/// The way of listing: a stream of events (`sendInitialEvents`), or pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamingList {
    /// As a stream first, as pages if that does not work.
    #[default]
    Preferred,
    /// As pages until then, since streams did not work on this server for this resource; what an
    /// earlier reflector reported in [`FellBack`](super::report::ReflectorEvent::FellBack).
    NotBefore(Instant),
    /// As pages, always.
    Never,
}

/// The state that the first list asks for. Later lists never ask for an older one than was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstList {
    /// Pages take any state that the server has at hand, a stream takes the most recent: what
    /// client-go does.
    #[default]
    ByMode,
    /// Any state, also as a stream: a quick start, perhaps a little in the past.
    AnyVersion,
    /// The most recent state, also as pages: never in the past of another client, for a server's
    /// full price.
    MostRecent,
}

/// The requests of a reflector, and its time limits.
#[derive(Clone, Debug, PartialEq)]
pub struct ReflectorConfig {
    /// Sent with every request.
    pub label_selector: Option<String>,
    /// Sent with every request.
    pub field_selector: Option<String>,
    /// The ranges of hashes that the first requests ask for; [`Input`](super::input::Input) changes it.
    pub shard_selector: Option<String>,
    /// Streaming list or pages. Default: streaming first.
    pub streaming_list: StreamingList,
    /// The state that the first list asks for. Default: by its mode.
    pub first_list: FirstList,
    /// Items a page, whatever the version asked for. Default: 500, but all of it at a version that caches serve.
    pub page_size: Option<u32>,
    /// A watch lasts at random one to two of these. Default 5 min; less counts as that.
    pub min_watch_timeout: Duration,
    /// The limit of one list request, first byte to last. Default 2 min: servers give up after one.
    pub list_deadline: Duration,
    /// The limit of a streaming list, its headers included, until the first byte of its body.
    /// Default 3 s: a proxy may hold back a reply until it is complete, which this one never is.
    pub first_byte_limit: Duration,
    /// The limit of a streaming list without a complete event. Default 30 s.
    pub progress_limit: Duration,
    /// The limit of a streaming list until its end bookmark. Default 5 min.
    pub initial_events_limit: Duration,
    /// The time to stay with pages after a streaming list stalled. Default 10 min.
    pub fallback_memory: Duration,
    /// The limit of a watch, its headers included, without a complete event or bookmark. Default
    /// 90 s: bookmarks come each minute.
    pub silence_limit: Duration,
    /// For so long after the first internal error a watch is reopened instead of listing again.
    /// Default zero: never.
    pub internal_error_window: Duration,
    /// The period at which the owner compares the store with a list of metadata at exactly its
    /// version, for servers that lose events. A difference is reported, and everything is listed
    /// again. Default: never; less than 10 s counts as 10 s. Not for servers whose versions have no
    /// order.
    pub audit_period: Option<Duration>,
    /// The size that a list, and the cache made of it, may have.
    pub cache_limits: CacheLimits,
    /// Delays after failures.
    pub backoff: BackoffPolicy,
}

impl Default for ReflectorConfig {
    fn default() -> Self {
        Self {
            label_selector: None,
            field_selector: None,
            shard_selector: None,
            streaming_list: StreamingList::Preferred,
            first_list: FirstList::ByMode,
            page_size: None,
            min_watch_timeout: MIN_WATCH_TIMEOUT,
            list_deadline: Duration::from_secs(120),
            first_byte_limit: Duration::from_secs(3),
            progress_limit: Duration::from_secs(30),
            initial_events_limit: Duration::from_secs(300),
            fallback_memory: Duration::from_secs(600),
            silence_limit: Duration::from_secs(90),
            internal_error_window: Duration::ZERO,
            audit_period: None,
            cache_limits: CacheLimits::default(),
            backoff: BackoffPolicy::default(),
        }
    }
}

impl ReflectorConfig {
    /// A watch timeout, uniformly from one to two times the minimum.
    pub(super) fn watch_timeout(&self, random: f64) -> Duration {
        if mutant!("D6") {
            return MIN_WATCH_TIMEOUT;
        }
        // client-go: TestWatchTimeout
        let min = self.min_watch_timeout.max(MIN_WATCH_TIMEOUT);
        min.saturating_add(Duration::try_from_secs_f64(min.as_secs_f64() * random).unwrap_or(min))
    }
}

/// Shorter watches only cost the server.
const MIN_WATCH_TIMEOUT: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_last_five_to_ten_minutes() {
        // client-go: TestWatchTimeout
        for (min, random, expected) in [
            (0, 0.0, 300),
            (1, 0.5, 450),
            (300, 0.999, 599),
            (600, 0.5, 900),
        ] {
            let min_watch_timeout = Duration::from_secs(min);
            let config = ReflectorConfig {
                min_watch_timeout,
                ..ReflectorConfig::default()
            };
            assert_eq!(
                config.watch_timeout(random).as_secs(),
                expected,
                "{min} {random}"
            );
        }
    }
}
