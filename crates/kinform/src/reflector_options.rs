//! Options of reflectors: requests, deadlines and retries.
//!
//! ```text
//! ReflectorOptions (setters) → ReflectorConfig of the machine, with the informer's selectors
//! ```
//!
//! Upstream counterpart: `client-go:tools/cache/reflector.go` (`ReflectorOptions` and the
//! constants).

use std::time::Duration;

use kinform_core::backoff::BackoffPolicy;
use kinform_core::reflector::config::{FirstList, ReflectorConfig, StreamingList};
use kinform_core::reflector::limits::CacheLimits;

/// Options of a reflector: its requests, deadlines and retries. The defaults are right for most.
///
/// ```
/// use std::time::Duration;
/// use kinform::{ReflectorOptions, StreamingList};
///
/// let options = ReflectorOptions::new()
///     .with_streaming_list(StreamingList::Never)
///     .with_page_size(200)
///     .with_audit_period(Duration::from_secs(600));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct ReflectorOptions(ReflectorConfig);

impl ReflectorOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Streaming list or pages. Default: streaming first.
    pub fn with_streaming_list(mut self, streaming_list: StreamingList) -> Self {
        self.0.streaming_list = streaming_list;
        self
    }

    /// The state that the first list asks for. Default: by its mode.
    pub fn with_first_list(mut self, first_list: FirstList) -> Self {
        self.0.first_list = first_list;
        self
    }

    /// Items a page, at any version. Default: 500, but no pages at a version that the server's
    /// cache serves.
    pub fn with_page_size(mut self, items: u32) -> Self {
        self.0.page_size = Some(items);
        self
    }

    /// The shortest requested duration of a watch; each lasts at random one to two of these.
    /// Default: 5 min; less counts as that.
    pub fn with_min_watch_timeout(mut self, timeout: Duration) -> Self {
        self.0.min_watch_timeout = timeout;
        self
    }

    /// The time that one list request may take, first byte to last. Default: 2 min.
    pub fn with_list_deadline(mut self, deadline: Duration) -> Self {
        self.0.list_deadline = deadline;
        self
    }

    /// The time that a streaming list may take until the first byte of its body. Default: 3 s; then
    /// everything is listed in pages. A proxy that buffers replies holds back a streaming list,
    /// which never ends.
    pub fn with_first_byte_limit(mut self, limit: Duration) -> Self {
        self.0.first_byte_limit = limit;
        self
    }

    /// The time that a streaming list may be without a complete event. Default: 30 s.
    pub fn with_progress_limit(mut self, limit: Duration) -> Self {
        self.0.progress_limit = limit;
        self
    }

    /// The time that a streaming list may take until its end bookmark. Default: 5 min.
    pub fn with_initial_events_limit(mut self, limit: Duration) -> Self {
        self.0.initial_events_limit = limit;
        self
    }

    /// The time to stay with pages after a streaming list stalled. Default: 10 min.
    pub fn with_fallback_memory(mut self, memory: Duration) -> Self {
        self.0.fallback_memory = memory;
        self
    }

    /// The time that a watch, its headers included, may be without a complete event or bookmark.
    /// Default: 90 s, since bookmarks come each minute.
    pub fn with_silence_limit(mut self, limit: Duration) -> Self {
        self.0.silence_limit = limit;
        self
    }

    /// The time after a first internal error during which a watch is reopened instead of listing
    /// again. Default: zero.
    #[doc(alias = "MaxInternalErrorRetryDuration")]
    pub fn with_internal_error_window(mut self, window: Duration) -> Self {
        self.0.internal_error_window = window;
        self
    }

    /// Compares the cache each `period` with a list of metadata at exactly its version, for servers
    /// that lose events. A difference is reported, and everything is listed again. Default: never;
    /// less than 10 s counts as that. Not for servers whose versions have no order.
    pub fn with_audit_period(mut self, period: Duration) -> Self {
        self.0.audit_period = Some(period);
        self
    }

    /// The size that a list, and the cache made of it, may have. A larger list counts for nothing and
    /// is tried again with backoff; a cache that events make larger is listed again. Default: 10
    /// million objects, 16 GiB.
    pub fn with_cache_limits(mut self, limits: CacheLimits) -> Self {
        self.0.cache_limits = limits;
        self
    }

    /// Delays after failures. Default: from 0.8 s to 30 s, before jitter.
    pub fn with_backoff(mut self, backoff: BackoffPolicy) -> Self {
        self.0.backoff = backoff;
        self
    }

    pub(crate) fn into_config(self) -> ReflectorConfig {
        self.0
    }
}
