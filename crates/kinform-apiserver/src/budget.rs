//! The bounds of one request: the time until its reply and the bytes of its body.
//!
//! ```text
//! read | write + `timeout` of the query ──▶ Budget { time }
//! ```
//!
//! A watch has a timeout of its own (`state/`). Work inside a request that a client could inflate
//! counts its own steps: the cost of CEL rules (`schema/rules/`), the copies of a JSON patch
//! (`write/patch.rs`).
//!
//! Upstream: `kubernetes/apiserver:pkg/server/config.go` (`RequestTimeout`, `MaxRequestBodyBytes`),
//! `pkg/endpoints/handlers/rest.go`.

use std::time::Duration;

/// BOUND: the size of a body in bytes, as on a real server.
pub(crate) const BODY: usize = 3 << 20;
/// BOUND: the time for an ordinary request.
const READ_TIME: Duration = Duration::from_secs(60);
/// BOUND: the time for a write.
const WRITE_TIME: Duration = Duration::from_secs(34);

/// The bounds of a request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// The time from its head to its reply.
    pub(crate) time: Duration,
}

impl Budget {
    /// Returns the bounds of a read. A client may request less time; 0 counts as no request.
    pub(crate) fn read(asked: Option<Duration>) -> Self {
        Self::at_most(READ_TIME, asked)
    }

    /// Returns the bounds of a write, with the same rule for the requested time.
    pub(crate) fn write(asked: Option<Duration>) -> Self {
        Self::at_most(WRITE_TIME, asked)
    }

    fn at_most(most: Duration, asked: Option<Duration>) -> Self {
        let asked = asked.filter(|asked| !asked.is_zero());
        Self {
            time: asked.map_or(most, |asked| asked.min(most)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_ask_for_less_time_but_not_for_more() {
        let seconds = Duration::from_secs;
        for (asked, read, write) in [
            (None, 60, 34),
            (Some(0), 60, 34),
            (Some(5), 5, 5),
            (Some(40), 40, 34),
            (Some(3600), 60, 34),
        ] {
            let asked = asked.map(seconds);
            assert_eq!(Budget::read(asked).time, seconds(read), "{asked:?}");
            assert_eq!(Budget::write(asked).time, seconds(write), "{asked:?}");
        }
    }
}
