//! The error table: what was asked and what went wrong, to what happens next.
//!
//! ```text
//! Failure | ERROR event → ProblemKind      Ask × ProblemKind → Verdict
//! ```
//!
//! Nothing here has state; counting, waiting and the version to ask for are the machine's. Where
//! this table differs from upstream's it is more patient with a watch: resuming is always safe,
//! since a server that forgot the version says so, and a relist of everything is what a server
//! that comes back from an outage needs least.
//!
//! Upstream counterpart: `client-go:tools/cache/reflector.go` (`list`, `watch`, `watchList`,
//! `handleAnyWatch`, `isTooLargeResourceVersionError`).

use std::time::Duration;

use kinform_api::{Status, mutant, reason};

use super::input::Failure;
use super::report::{FallbackReason, Problem, ProblemKind, RelistReason, Verb};

/// The kind of request that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    StreamingList,
    /// The first page, or the whole list.
    Page,
    /// A page after the first.
    NextPage,
    Watch,
    /// A list of one item that tells the server's version.
    Probe,
    /// A list of one item that tells whether there are objects: a streaming list had none.
    Confirm,
}

/// The next step after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Wait, then ask the same again; a list starts from its beginning.
    Retry,
    /// Like `Retry`, but a few of these in a row are a reason to list again.
    RetryFew,
    /// Wait, then list again.
    Relist(RelistReason),
    /// List again, at once if that is not becoming a habit.
    RelistSoon(RelistReason),
    /// Ask at once for the most recent state instead of a version.
    AskConsistent,
    /// List in pages at once, this time.
    AskPages(FallbackReason),
    /// Ask at once for the whole list instead of pages.
    AskUnpaged,
    /// Reopen the watch within the window for internal errors, else list again.
    InternalError,
    /// The answer was not needed: open the watch.
    Skip,
    /// There is no list to compare with: the empty streaming list counts.
    Believe,
}

impl Ask {
    pub(super) const fn verb(self) -> Verb {
        match self {
            Self::StreamingList => Verb::StreamingList,
            Self::Page | Self::NextPage => Verb::List,
            Self::Watch => Verb::Watch,
            Self::Probe | Self::Confirm => Verb::Probe,
        }
    }
}

impl Failure {
    /// Returns the time that the server asks the client to wait.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status {
                status,
                retry_after,
                ..
            } => retry_after.or_else(|| status.retry_after()),
            _ => None,
        }
    }

    /// The same as one line, with its kind.
    pub(super) fn problem(&self, verb: Verb) -> Problem {
        let (kind, code, message) = match self {
            Self::Refused { message } => (ProblemKind::Refused, None, message.clone()),
            Self::Certificate { message } => (ProblemKind::Certificate, None, message.clone()),
            Self::Transport { message } => (ProblemKind::Transport, None, message.clone()),
            Self::Deadline => (ProblemKind::Deadline, None, String::new()),
            Self::NotKubernetes { code, message } => {
                (ProblemKind::NotKubernetes, Some(*code), message.clone())
            }
            Self::Status { code, status, .. } => {
                (kind_of(*code, status), Some(*code), status.message.clone())
            }
        };
        Problem {
            verb,
            kind,
            code,
            message,
        }
    }
}

/// The same for an ERROR event; one that carries no Status is named so.
pub(super) fn problem_of_event(status: Option<&Status>, verb: Verb) -> Problem {
    let Some(status) = status else {
        let message = "error event without a Status".to_owned();
        return Problem {
            verb,
            kind: ProblemKind::Other,
            code: None,
            message,
        };
    };
    let code = (status.code != 0).then_some(status.code);
    let kind = kind_of(status.code, status);
    Problem {
        verb,
        kind,
        code,
        message: status.message.clone(),
    }
}

fn kind_of(code: u16, status: &Status) -> ProblemKind {
    // client-go: TestReflectorFullListIfTooLarge, TestReflectorReplacesStoreOnUnsafeDelete
    if status.is_too_large_resource_version() {
        return ProblemKind::TooLarge;
    }
    if status.is_expired() {
        return ProblemKind::Expired;
    }
    if status.is_too_many_requests() {
        return ProblemKind::TooManyRequests;
    }
    if status.reason == "StoreReadError" {
        return ProblemKind::StoreRead;
    }
    match code {
        401 => ProblemKind::Unauthorized,
        403 => ProblemKind::Forbidden,
        404 => ProblemKind::NotFound,
        410 => ProblemKind::Expired,
        429 => ProblemKind::TooManyRequests,
        500 => ProblemKind::Internal,
        502..=504 => ProblemKind::Unavailable,
        400..500 => ProblemKind::Rejected,
        _ if status.reason == reason::INTERNAL_ERROR => ProblemKind::Internal,
        _ => ProblemKind::Other,
    }
}

/// The table for requests that came to nothing.
pub(super) fn of_failure(ask: Ask, kind: ProblemKind) -> Verdict {
    use ProblemKind as P;
    match (ask, kind) {
        // A proxy may know lists and pass them, and not what is asked for here.
        (Ask::StreamingList, P::NotKubernetes) => Verdict::AskPages(FallbackReason::Failed),
        (
            _,
            P::Refused | P::Certificate | P::TooManyRequests | P::Unauthorized | P::NotKubernetes,
        ) => Verdict::Retry,

        (Ask::StreamingList | Ask::Page, P::Expired | P::TooLarge) => Verdict::AskConsistent,
        (Ask::StreamingList, P::NotFound) => Verdict::Retry,
        (Ask::StreamingList, P::Rejected | P::Forbidden) => {
            Verdict::AskPages(FallbackReason::Refused)
        }
        (Ask::StreamingList, P::Deadline) => Verdict::AskPages(FallbackReason::NoProgress),
        (Ask::StreamingList, _) => Verdict::AskPages(FallbackReason::Failed),

        // client-go: TestReflectorFullListIfExpired, TestListPager_List
        (Ask::NextPage, P::Expired) if mutant!("D10") => Verdict::Retry,
        (Ask::NextPage, P::Expired) => Verdict::AskUnpaged,
        (Ask::Page | Ask::NextPage, _) => Verdict::Retry,

        (Ask::Watch, P::Expired) if mutant!("B18") => Verdict::Retry,
        (Ask::Watch, P::TooLarge) if mutant!("D9") => Verdict::Retry,
        (Ask::Watch, P::Expired) => Verdict::RelistSoon(RelistReason::Expired),
        (Ask::Watch, P::TooLarge) => Verdict::RelistSoon(RelistReason::TooLarge),
        (Ask::Watch, P::Unavailable | P::Transport | P::Deadline) => Verdict::RetryFew,
        (Ask::Watch, _) => Verdict::Relist(RelistReason::WatchRefused),

        (Ask::Probe, P::Unavailable | P::Transport | P::Deadline) => Verdict::Retry,
        (Ask::Probe, _) => Verdict::Skip,

        // A client that may watch but not list.
        (Ask::Confirm, P::Forbidden | P::Rejected) => Verdict::Believe,
        // The same stream would ask the same question again: pages answer it for themselves.
        (Ask::Confirm, P::Deadline | P::Transport | P::Internal | P::Unavailable) => {
            Verdict::AskPages(FallbackReason::Failed)
        }
        (Ask::Confirm, _) => Verdict::Retry,
    }
}

/// The table for ERROR events in a stream.
pub(super) fn of_event(ask: Ask, kind: ProblemKind) -> Verdict {
    use ProblemKind as P;
    match (ask, kind) {
        // client-go: TestBackoffOnTooManyRequests, TestNoRelistOnTooManyRequests
        (_, P::TooManyRequests) => Verdict::Retry,
        (Ask::StreamingList, P::Expired | P::TooLarge) => Verdict::AskConsistent,
        // client-go: TestWatchList (any error falls back, Invalid falls back)
        (Ask::StreamingList, _) => Verdict::AskPages(FallbackReason::Failed),
        (_, P::Expired) => Verdict::RelistSoon(RelistReason::Expired),
        (_, P::TooLarge) => Verdict::RelistSoon(RelistReason::TooLarge),
        // client-go: TestRetryInternalError
        (_, P::Internal) => Verdict::InternalError,
        (_, _) => Verdict::Relist(RelistReason::WatchError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Ask::{NextPage, Page, Probe, StreamingList, Watch};

    fn status(code: u16, status: Status) -> Failure {
        Failure::Status {
            code,
            status: Box::new(status),
            retry_after: None,
        }
    }

    fn bare(code: u16, reason: &str) -> Failure {
        status(code, Status::failure(code, reason, "said so"))
    }

    fn check(failure: &Failure, expected: [Verdict; 5]) {
        let kind = failure.problem(Verb::List).kind;
        for (ask, expected) in [StreamingList, Page, NextPage, Watch, Probe]
            .iter()
            .zip(expected)
        {
            assert_eq!(of_failure(*ask, kind), expected, "{ask:?}: {failure:?}");
        }
    }

    #[test]
    fn requests_that_come_to_nothing() {
        use Verdict::{
            AskConsistent, AskPages, AskUnpaged, Relist, RelistSoon, Retry, RetryFew, Skip,
        };
        let message = String::new;
        let (refused, failed) = (
            AskPages(FallbackReason::Refused),
            AskPages(FallbackReason::Failed),
        );
        let relist = Relist(RelistReason::WatchRefused);
        let expired = RelistSoon(RelistReason::Expired);
        let large = RelistSoon(RelistReason::TooLarge);
        let late = AskPages(FallbackReason::NoProgress);
        // columns: streaming list, first page, next page, watch, probe
        let table = [
            (Failure::Refused { message: message() }, [Retry; 5]),
            (Failure::Certificate { message: message() }, [Retry; 5]),
            (bare(429, reason::TOO_MANY_REQUESTS), [Retry; 5]),
            (bare(429, ""), [Retry; 5]),
            (status(429, Status::failure(0, "", "no code")), [Retry; 5]),
            (bare(401, reason::UNAUTHORIZED), [Retry; 5]),
            (
                Failure::NotKubernetes {
                    code: 200,
                    message: message(),
                },
                [failed, Retry, Retry, Retry, Retry],
            ),
            (
                Failure::Transport { message: message() },
                [failed, Retry, Retry, RetryFew, Retry],
            ),
            (Failure::Deadline, [late, Retry, Retry, RetryFew, Retry]),
            (
                bare(503, reason::SERVICE_UNAVAILABLE),
                [failed, Retry, Retry, RetryFew, Retry],
            ),
            (bare(502, ""), [failed, Retry, Retry, RetryFew, Retry]),
            (
                bare(504, reason::TIMEOUT),
                [failed, Retry, Retry, RetryFew, Retry],
            ),
            (
                bare(500, reason::INTERNAL_ERROR),
                [failed, Retry, Retry, relist, Skip],
            ),
            (bare(500, ""), [failed, Retry, Retry, relist, Skip]),
            (
                bare(403, reason::FORBIDDEN),
                [refused, Retry, Retry, relist, Skip],
            ),
            (
                bare(404, reason::NOT_FOUND),
                [Retry, Retry, Retry, relist, Skip],
            ),
            (
                bare(422, reason::INVALID),
                [refused, Retry, Retry, relist, Skip],
            ),
            (
                bare(400, reason::BAD_REQUEST),
                [refused, Retry, Retry, relist, Skip],
            ),
            (
                bare(410, reason::EXPIRED),
                [AskConsistent, AskConsistent, AskUnpaged, expired, Skip],
            ),
            (
                bare(410, reason::GONE),
                [AskConsistent, AskConsistent, AskUnpaged, expired, Skip],
            ),
            (
                bare(410, ""),
                [AskConsistent, AskConsistent, AskUnpaged, expired, Skip],
            ),
            (
                status(504, Status::too_large_resource_version(9, 5)),
                [AskConsistent, AskConsistent, Retry, large, Skip],
            ),
        ];
        for (failure, expected) in table {
            check(&failure, expected);
        }
    }

    #[test]
    fn error_events() {
        let expired = Verdict::RelistSoon(RelistReason::Expired);
        let large = Verdict::RelistSoon(RelistReason::TooLarge);
        let error = Verdict::Relist(RelistReason::WatchError);
        let pages = Verdict::AskPages(FallbackReason::Failed);
        // columns: in a streaming list, in a watch
        let table = [
            (
                Some(Status::expired("old")),
                Verdict::AskConsistent,
                expired,
            ),
            (Some(Status::gone("old")), Verdict::AskConsistent, expired),
            (
                Some(Status::too_large_resource_version(9, 5)),
                Verdict::AskConsistent,
                large,
            ),
            (
                Some(Status::too_many_requests("later", 1)),
                Verdict::Retry,
                Verdict::Retry,
            ),
            (
                Some(Status::internal_error("oops")),
                pages,
                Verdict::InternalError,
            ),
            (
                Some(Status::failure(500, "StoreReadError", "")),
                pages,
                error,
            ),
            (Some(Status::failure(0, "", "")), pages, error),
            (None, pages, error),
        ];
        for (status, in_list, in_watch) in table {
            let kind = problem_of_event(status.as_ref(), Verb::Watch).kind;
            assert_eq!(of_event(StreamingList, kind), in_list, "{status:?}");
            assert_eq!(of_event(Watch, kind), in_watch, "{status:?}");
        }
    }

    #[test]
    fn the_header_goes_before_the_body() {
        let body = Status::too_many_requests("later", 3);
        let header = Some(Duration::from_secs(7));
        let both = Failure::Status {
            code: 429,
            status: Box::new(body.clone()),
            retry_after: header,
        };
        assert_eq!(both.retry_after(), header);
        assert_eq!(
            status(429, body).retry_after(),
            Some(Duration::from_secs(3))
        );
    }
}
