//! A limit of the requests that a client sends in a second.
//!
//! ```text
//! request ──watch?──▶ inner
//!        └──▶ a turn, in the order of arrival ──▶ a token of the bucket ──▶ inner
//! ```
//!
//! Watches, and so streaming lists, are outside of it: they are opened seldom, and last. A request
//! that is given up while it waits takes no token and leaves its turn to the next.
//!
//! BOUND: requests that wait are held by their callers, which have deadlines of their own.
//! Upstream counterpart: `client-go:rest/request.go` (`tryThrottle`),
//! `client-go:util/flowcontrol/throttle.go`.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use kinform_api::mutant;
use kinform_core::bucket::Bucket;
use kinform_core::time::Instant;
use kube_client::client::Body;
use tokio::sync::Semaphore;
use tower::{BoxError, Layer, Service, ServiceExt};

use crate::env::Env;

/// Lets a number of requests pass in a second.
#[derive(Clone)]
pub(super) struct ThrottleLayer(Arc<Shared>);

/// The service of [`ThrottleLayer`].
#[derive(Clone)]
pub(super) struct Throttle<S> {
    inner: S,
    shared: Arc<Shared>,
}

struct Shared {
    env: Env,
    /// One request waits for a token, the others for their turn.
    turn: Semaphore,
    bucket: Mutex<Bucket>,
}

impl ThrottleLayer {
    /// A limit of `per_second` requests, after a burst; `None` if that is zero.
    pub(super) fn new(per_second: u32, burst: u32) -> Option<Self> {
        let interval = Duration::from_secs(1).checked_div(per_second)?;
        Some(Self(Arc::new(Shared {
            env: Env::system(),
            turn: Semaphore::new(1),
            bucket: Mutex::new(Bucket::new(interval, burst)),
        })))
    }
}

impl<S> Layer<S> for ThrottleLayer {
    type Service = Throttle<S>;

    fn layer(&self, inner: S) -> Throttle<S> {
        Throttle {
            inner,
            shared: Arc::clone(&self.0),
        }
    }
}

impl<S, B> Service<Request<Body>> for Throttle<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Each call has a service of its own, and waits for it.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (inner, shared) = (self.inner.clone(), Arc::clone(&self.shared));
        Box::pin(async move {
            if !is_watch(request.uri()) && !mutant!("K17") {
                shared.pass().await;
            }
            inner.oneshot(request).await
        })
    }
}

impl Shared {
    /// Waits for a token.
    ///
    /// Cancel safety: a caller that leaves has taken none.
    async fn pass(&self) {
        // It is never closed. Those that wait have their turns in the order in which they came.
        let _turn = self.turn.acquire().await;
        while let Err(there_at) = self.take() {
            self.env.sleep_until(there_at).await;
        }
    }

    fn take(&self) -> Result<(), Instant> {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.take(self.env.now())
    }
}

/// Returns whether a request opens a watch or a streaming list.
fn is_watch(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query
        .split('&')
        .any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::future::ready;

    use futures::FutureExt;
    use tower::{ServiceBuilder, service_fn};

    const BURST: u32 = 4;

    /// A limit of 50 a second in front of a server that always answers.
    fn limited() -> impl Service<
        Request<Body>,
        Response = Response<()>,
        Error = BoxError,
        Future = BoxFuture<'static, Result<Response<()>, BoxError>>,
    > + Clone {
        let server = service_fn(|_| ready(Ok::<_, Infallible>(Response::new(()))));
        ServiceBuilder::new()
            .layer(ThrottleLayer::new(50, BURST).unwrap())
            .map_err(BoxError::from)
            .service(server)
    }

    fn get(path: &str) -> Request<Body> {
        Request::get(path).body(Body::empty()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn k17_requests_beyond_a_burst_go_one_an_interval_in_their_order() {
        // client-go: TestBasicThrottle
        let service = limited();
        let began = tokio::time::Instant::now();
        let order = Mutex::new(Vec::new());
        let requests = (0..10).map(|number| {
            let (service, order) = (service.clone(), &order);
            async move {
                service.oneshot(get("/api/v1/pods")).await.unwrap();
                order
                    .lock()
                    .unwrap()
                    .push((number, began.elapsed().as_millis()));
            }
        });
        futures::future::join_all(requests).await;
        let order = order.into_inner().unwrap();
        for (place, (number, millis)) in order.into_iter().enumerate() {
            let expected = 20 * (place as u128 + 1).saturating_sub(BURST.into());
            // The runtime's timers are of a millisecond.
            assert_eq!(number, place);
            assert!(
                (expected..=expected + 1).contains(&millis),
                "{place}: {millis} ms"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn watches_never_wait_and_take_nothing() {
        let service = limited();
        let request = |path: &str| service.clone().oneshot(get(path)).now_or_never();
        let watches = [
            "/api/v1/pods?watch=true&sendInitialEvents=true",
            "/api/v1/pods?limit=5&watch=1",
        ];
        for path in watches.iter().cycle().take(100) {
            assert!(request(path).is_some());
        }
        for path in [
            "/api/v1/pods",
            "/api/v1/pods?watch=false",
            "/a?b=watch=true",
            "/a",
        ] {
            assert!(request(path).is_some());
        }
        assert!(request("/api/v1/pods").is_none());
        assert!(request(watches[0]).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_given_up_takes_no_token() {
        let service = limited();
        for _ in 0..BURST {
            service.clone().oneshot(get("/")).await.unwrap();
        }
        for _ in 0..1_000 {
            assert!(service.clone().oneshot(get("/")).now_or_never().is_none());
        }
        let began = tokio::time::Instant::now();
        service.oneshot(get("/")).await.unwrap();
        assert!(began.elapsed() <= Duration::from_millis(21));
    }

    #[test]
    fn zero_is_no_limit() {
        assert!(ThrottleLayer::new(0, 100).is_none());
    }
}
