//! The meaning of a reconcile's error, whatever its type: found in its chain of causes.
//!
//! ```text
//! error → its causes → Permanent | 409 | 429 → no retry | a quick retry | a retry when the server asks
//!                    → a stale view → a retry in a second
//!                    → else → a retry when the limiter allows
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/reconcile` (`TerminalError`); conflicts and
//! throttling are ordinary failures there.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use super::action::{Action, Ctx};
use crate::error::{Error, Permanent, SourceError};

/// The error type of a user's function.
pub(super) type BoxError = Box<dyn StdError + Send + Sync>;

/// The meaning of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A retry may help.
    Failure,
    /// A retry does not help before the object changes.
    Permanent,
    /// Another writer was faster (409).
    Conflict,
    /// The server asks for a pause (429).
    Throttled(Duration),
    /// The controller's view was not shown to be fresh.
    Stale,
    /// The user's error policy decided.
    Decided(Action),
}

/// The pause after a 429 that names none.
const PAUSE: Duration = Duration::from_secs(1);
/// BOUND: the longest pause that a server can demand.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// BOUND: causes that are looked at: a chain can be a circle in a broken error type.
pub(super) const CAUSES_MAX: usize = 16;

/// The meaning of an error: that of the first cause that has one.
pub(super) fn meaning(error: &(dyn StdError + Send + Sync + 'static)) -> Meaning {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    for _ in 0..CAUSES_MAX {
        let Some(error) = cause else { break };
        if let Some(meaning) = meaning_of(error) {
            return meaning;
        }
        cause = error.source();
    }
    Meaning::Failure
}

fn meaning_of(error: &(dyn StdError + 'static)) -> Option<Meaning> {
    if let Some(decided) = error.downcast_ref::<ByPolicy>() {
        return Some(Meaning::Decided(decided.action));
    }
    if error.is::<Permanent>() {
        return Some(Meaning::Permanent);
    }
    if let Some(error) = error.downcast_ref::<Error>() {
        if error.is_stale() {
            return Some(Meaning::Stale);
        }
        return of_code(error.http_code()?, error.retry_after());
    }
    if let Some(error) = error.downcast_ref::<SourceError>() {
        return of_code(error.http_code()?, error.retry_after());
    }
    let kube = error.downcast_ref::<kube_client::Error>();
    let kube = kube.or_else(|| Some(&**error.downcast_ref::<Box<kube_client::Error>>()?));
    let kube = kube.or_else(|| Some(&**error.downcast_ref::<Arc<kube_client::Error>>()?));
    let kube_client::Error::Api(status) = kube? else {
        return None;
    };
    let seconds = status.details.as_ref().map_or(0, |d| d.retry_after_seconds);
    let retry_after = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
    of_code(status.code, retry_after)
}

fn of_code(code: u16, retry_after: Option<Duration>) -> Option<Meaning> {
    match code {
        409 => Some(Meaning::Conflict),
        429 => {
            let pause = retry_after.unwrap_or(PAUSE).min(PAUSE_MAX);
            Some(Meaning::Throttled(pause))
        }
        _ => None,
    }
}

/// An error with its causes, as one line.
pub(super) fn chain(error: &dyn StdError) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    for _ in 0..CAUSES_MAX {
        let Some(error) = cause else { break };
        let said = error.to_string();
        if !line.ends_with(&said) {
            line = line + ": " + &said;
        }
        cause = error.source();
    }
    line
}

/// The error of a reconcile function whose retry an error policy decided:
/// [`with_error_policy`].
#[derive(Debug)]
pub struct ByPolicy {
    action: Action,
    error: BoxError,
}

impl fmt::Display for ByPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl StdError for ByPolicy {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.error.source()
    }
}

/// Adapts functions written for kube-runtime: `reconcile(object, context)` and
/// `error_policy(object, error, context)`, which decides the retry instead of the limiter.
///
/// ```no_run
/// # use std::{sync::Arc, time::Duration};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kinform::{Action, Controller, Informer, controller::with_error_policy};
/// # struct State;
/// async fn reconcile(map: Arc<ConfigMap>, state: Arc<State>) -> Result<Action, kube_client::Error> {
///     Ok(Action::requeue(Duration::from_secs(300)))
/// }
///
/// fn error_policy(map: Arc<ConfigMap>, error: &kube_client::Error, state: Arc<State>) -> Action {
///     Action::requeue(Duration::from_secs(5))
/// }
///
/// # async fn example(maps: Informer<ConfigMap>) -> Result<(), kinform::Error> {
/// let controller = Controller::of(&maps).context(State);
/// controller.run(with_error_policy(reconcile, error_policy)).await
/// # }
/// ```
pub fn with_error_policy<K, C, F, R, E, P>(
    reconcile: F,
    error_policy: P,
) -> impl Fn(Arc<K>, Ctx<C>) -> BoxFuture<'static, Result<Action, ByPolicy>> + Send + Sync + 'static
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    F: Fn(Arc<K>, Arc<C>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action, E>> + Send + 'static,
    E: Into<BoxError> + 'static,
    P: Fn(Arc<K>, &E, Arc<C>) -> Action + Send + Sync + 'static,
{
    let error_policy = Arc::new(error_policy);
    move |object, ctx| {
        let error_policy = Arc::clone(&error_policy);
        let reconciling = reconcile(Arc::clone(&object), ctx.context());
        Box::pin(async move {
            reconciling.await.map_err(|error| ByPolicy {
                action: error_policy(object, &error, ctx.context()),
                error: error.into(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use kinform_api::Status;

    use super::*;

    #[derive(Debug)]
    struct Wrapped(&'static str, Option<BoxError>);

    impl fmt::Display for Wrapped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl StdError for Wrapped {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }

    fn kube(code: u16, retry_after: u32) -> kube_client::Error {
        let mut status = kube_core::Status::failure("no", "Reason").with_code(code);
        let mut details = kube_core::response::StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: 0,
        };
        details.retry_after_seconds = retry_after;
        status.details = Some(details);
        kube_client::Error::Api(Box::new(status))
    }

    #[test]
    fn an_error_means_what_its_chain_of_causes_says() {
        let second = Duration::from_secs(1);
        let throttled = SourceError::from_status(429, Status::too_many_requests("slowly", 7));
        let cases: Vec<(BoxError, Meaning)> = vec![
            ("a text".into(), Meaning::Failure),
            (kube(500, 0).into(), Meaning::Failure),
            (kube(404, 0).into(), Meaning::Failure),
            (kube(409, 0).into(), Meaning::Conflict),
            (kube(429, 0).into(), Meaning::Throttled(second)),
            (kube(429, 5).into(), Meaning::Throttled(5 * second)),
            (
                kube(429, u32::MAX).into(),
                Meaning::Throttled(3600 * second),
            ),
            (Error::from(kube(409, 0)).into(), Meaning::Conflict),
            (
                Error::from(kube(429, 5)).into(),
                Meaning::Throttled(5 * second),
            ),
            (throttled.into(), Meaning::Throttled(7 * second)),
            (Permanent::new("never").into(), Meaning::Permanent),
            (
                Error::from(Permanent::new("never")).into(),
                Meaning::Permanent,
            ),
            // A conflict that its author calls permanent is permanent.
            (Permanent::new(kube(409, 0)).into(), Meaning::Permanent),
        ];
        for (error, expected) in cases {
            assert_eq!(meaning(&*error), expected, "{error}");
            let wrapped = Wrapped("outer", Some(Wrapped("inner", Some(error)).into()));
            assert_eq!(meaning(&wrapped), expected, "{wrapped:?}");
        }
        let boxed: BoxError = Box::new(Box::new(kube(409, 0)));
        assert_eq!(meaning(&*boxed), Meaning::Conflict);
        let shared: BoxError = Box::new(Arc::new(kube(409, 0)));
        assert_eq!(meaning(&*shared), Meaning::Conflict);
    }

    #[test]
    fn a_chain_that_is_a_circle_ends() {
        #[derive(Debug)]
        struct Circle;
        impl fmt::Display for Circle {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("round")
            }
        }
        impl StdError for Circle {
            fn source(&self) -> Option<&(dyn StdError + 'static)> {
                Some(self)
            }
        }
        assert_eq!(meaning(&Circle), Meaning::Failure);
        assert_eq!(chain(&Circle), "round");
    }
}
