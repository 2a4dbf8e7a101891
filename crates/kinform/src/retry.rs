//! Retries a write that conflicts with another writer's.
//!
//! ```text
//! read, change, replace ──409──▶ a short wait ──▶ read, change, replace …  at most five times
//! ```
//!
//! For the user's own writes: an optimistic replace that meets a newer version fails with 409, and
//! only reading again helps. Every other error is returned immediately.
//!
//! Upstream counterpart: `client-go:util/retry/util.go` (`RetryOnConflict`, `DefaultRetry`).

use std::time::Duration;

use kube_client::Error;

use crate::env::Env;

/// BOUND: tries.
const STEPS: u32 = 5;
const WAIT: Duration = Duration::from_millis(10);

/// Runs `attempt` until it does not fail with a conflict (409), at most five times, about 10 ms
/// apart. Each attempt has to read the object again.
///
/// # Errors
/// The first failure that is no conflict, or the last conflict.
///
/// Cancel safety: dropping it between attempts loses nothing; during one, as that attempt.
#[doc(alias = "RetryOnConflict")]
pub async fn retry_on_conflict<T, F>(mut attempt: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let env = Env::system();
    for _ in 1..STEPS {
        match attempt().await {
            Err(Error::Api(status)) if status.code == 409 => {
                let wait = WAIT.mul_f64(1.0 + env.jitter() / 10.0);
                env.sleep_until(env.now() + wait).await;
            }
            done => return done,
        }
    }
    attempt().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: u16) -> Error {
        let status = kube_core::Status::failure("no", "Conflict").with_code(code);
        Error::Api(Box::new(status))
    }

    #[tokio::test(start_paused = true)]
    async fn conflicts_are_tried_again_and_nothing_else_is() {
        // client-go: TestRetryOnConflict
        for (codes, attempts, expected) in [
            (&[][..], 1, None),
            (&[409], 2, None),
            (&[409, 409, 409, 409], 5, None),
            (&[409, 409, 409, 409, 409, 409], 5, Some(409)),
            (&[404], 1, Some(404)),
            (&[409, 403], 2, Some(403)),
        ] {
            let (mut made, mut left) = (0, codes.iter());
            let done = retry_on_conflict(|| {
                made += 1;
                let code = left.next();
                async move { code.map_or(Ok(()), |code| Err(refusal(*code))) }
            })
            .await;
            let code = match done {
                Err(Error::Api(status)) => Some(status.code),
                _ => None,
            };
            assert_eq!((made, code), (attempts, expected), "{codes:?}");
        }
    }
}
