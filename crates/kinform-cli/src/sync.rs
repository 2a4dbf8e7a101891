//! Waiting for a cache in commands that end: a trouble that does not pass by itself is a failure.
//!
//! ```text
//! Informer's states → synced | Failure with a hint
//! ```
//!
//! `watch` waits for ever, since a permission may be granted; `get` and `measure` must end.

use kinform::{Informer, InformerState, Trouble};

use crate::exit::Failure;

/// Waits until the cache is complete.
///
/// # Errors
/// 401, 403, 404, a reply that is not Kubernetes', or a stopped informer: immediately.
///
/// # Cancel safety
/// Nothing is lost.
pub(crate) async fn synced<K>(informer: &Informer<K>) -> Result<(), Failure> {
    let is_failure = |state: &InformerState| matches!(verdict(state), Some(Err(_)));
    // The state may be another one again before it is looked at, as where watches are refused; that
    // the first list was stored stays true.
    let state = tokio::select! {
        biased;
        result = informer.synced() => match result {
            Ok(()) => return Ok(()),
            Err(_) => InformerState::Stopped,
        },
        state = informer.state_when(is_failure) => state,
    };
    verdict(&state)
        .unwrap_or(Ok(()))
        .map_err(|(message, hint)| {
            let failure = Failure::new(format!("{}: {message}", informer.resource()));
            if hint.is_empty() {
                failure
            } else {
                failure.with_hint(hint)
            }
        })
}

/// The hint for a list that the server rejects.
pub(crate) const REJECTED_HINT: &str = "the server rejects the request itself: check the selectors";

/// Returns whether a server rejected the request (400, 422 and the like), which no wait mends.
pub(crate) fn is_rejected(trouble: &Trouble) -> bool {
    trouble.reason == "Rejected"
}

/// The failure of a state, or `None` while waiting makes sense.
fn verdict(state: &InformerState) -> Option<Result<(), (String, &'static str)>> {
    let failed = |trouble: &Trouble, hint| Some(Err((trouble.message.clone(), hint)));
    match state {
        InformerState::Synced { .. } => Some(Ok(())),
        InformerState::Forbidden(trouble) if trouble.reason == "Unauthorized" => {
            failed(trouble, "the token or certificate is wrong or has expired")
        }
        InformerState::Forbidden(trouble) => failed(
            trouble,
            "an informer needs the rights list and watch; -n NAMESPACE may be enough of the cluster",
        ),
        InformerState::NoSuchKind(trouble) => {
            failed(trouble, "its definition was removed just now")
        }
        // A cache that was read from disk is stale until it is synced.
        InformerState::Listing {
            trouble: Some(trouble),
        }
        | InformerState::Stale { trouble, .. }
            if trouble.reason == "NotKubernetes" =>
        {
            failed(trouble, "a proxy or login page in between?")
        }
        InformerState::Listing {
            trouble: Some(trouble),
        }
        | InformerState::Stale { trouble, .. }
            if trouble.reason == "CertificateNotAccepted" =>
        {
            failed(
                trouble,
                "--certificate-authority and --tls-server-name choose what is accepted",
            )
        }
        InformerState::Listing {
            trouble: Some(trouble),
        } if is_rejected(trouble) => failed(trouble, REJECTED_HINT),
        InformerState::Stopped => Some(Err(("stopped".to_owned(), ""))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_will_not_pass_is_a_failure_and_the_rest_is_waited_for() {
        let trouble = |reason: &str| Trouble {
            reason: reason.to_owned(),
            message: "no".to_owned(),
            retry_in: None,
        };
        for (state, expected) in [
            (InformerState::Pending, None),
            (InformerState::Listing { trouble: None }, None),
            (
                InformerState::Listing {
                    trouble: Some(trouble("ConnectionRefused")),
                },
                None,
            ),
            (
                InformerState::Listing {
                    trouble: Some(trouble("NotKubernetes")),
                },
                Some(false),
            ),
            (
                InformerState::Listing {
                    trouble: Some(trouble("Rejected")),
                },
                Some(false),
            ),
            (InformerState::Forbidden(trouble("Forbidden")), Some(false)),
            (InformerState::NoSuchKind(trouble("NotFound")), Some(false)),
            (
                InformerState::Synced {
                    version: "5".to_owned(),
                },
                Some(true),
            ),
            (InformerState::Stopped, Some(false)),
        ] {
            assert_eq!(
                verdict(&state).map(|verdict| verdict.is_ok()),
                expected,
                "{state}"
            );
        }
    }
}
