//! Controllers as a task, and clients of a server in the same process.
//!
//! ```text
//! function that answers requests ─▶ client ─▶ ControlPlane ─▶ Running ──stop──▶ ended
//! ```

use std::io;
use std::panic::resume_unwind;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use kinform::{CancellationToken, Error};
use kube_client::Client;
use kube_client::client::Body;
use tokio::task::{JoinError, JoinHandle};
use tower::BoxError;

use crate::plane::{ControlPlane, SYNC_WITHIN};

/// Makes a client of a server in this process from the function that answers its requests. The
/// client uses the namespace `default` where none is named.
pub fn client_of<F, R, B>(answer: F) -> Client
where
    F: Fn(Request<Bytes>) -> R + Clone + Send + 'static,
    R: Future<Output = Response<B>> + Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
            Ok::<_, io::Error>(answer(Request::from_parts(head, body)).await)
        }
    });
    Client::new(service, "default")
}

/// Controllers that run in a task. They end when this is dropped.
#[derive(Debug)]
pub struct Running {
    stop: CancellationToken,
    task: Option<JoinHandle<Result<(), Error>>>,
}

impl ControlPlane {
    /// Runs the controllers in a task of the current runtime, and waits for their first lists.
    ///
    /// # Errors
    /// The informers have no first list within 30 s.
    ///
    /// # Cancel safety
    /// Dropping the future ends the controllers.
    pub async fn start(self) -> Result<Running, Error> {
        let informers = self.informers();
        let stop = CancellationToken::new();
        let mut task = tokio::spawn(self.run(stop.clone()));
        let guard = stop.clone().drop_guard();
        tokio::select! {
            biased;
            // It ends early only for a reason.
            ended = &mut task => ended.unwrap_or_else(outcome)?,
            synced = informers.synced_within(SYNC_WITHIN) => synced?,
        }
        drop(guard.disarm());
        Ok(Running {
            stop,
            task: Some(task),
        })
    }
}

impl Running {
    /// Ends the controllers and waits for their tasks.
    ///
    /// # Errors
    /// A controller failed while it ran.
    ///
    /// # Panics
    /// A controller panicked: its panic goes on here.
    ///
    /// # Cancel safety
    /// The controllers end by themselves.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.stop.cancel();
        let Some(task) = self.task.take() else {
            return Ok(());
        };
        task.await.unwrap_or_else(outcome)
    }
}

/// The outcome of a task that did not end by itself: its panic goes on here.
fn outcome(error: JoinError) -> Result<(), Error> {
    match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        // The runtime shuts down.
        Err(_) => Ok(()),
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
