//! The built-in controllers beside a test's server.
//!
//! ```text
//! with_controllers() ─▶ Server::service_as(user) ─▶ client of each user ─▶ ControlPlane, a task
//! ```
//!
//! They run in the test's runtime, without sockets, also beside a server that has some: under paused
//! time their delays are the test's. A stopped or restarted server ends them first.

use std::io;
use std::time::Duration;

use http_body_util::BodyExt;
use kinform::CancellationToken;
use kinform_apiserver::{Server, Service, User};
use kinform_controlplane::{ControlPlane, Selection};
use kube_client::Client;
use kube_client::client::Body;
use tokio::task::JoinHandle;

use super::{TestError, failed};

/// The time in which informers must have their first lists.
const SYNC_WITHIN: Duration = Duration::from_secs(30);

/// Controllers that run until this is dropped.
#[derive(Debug)]
pub(super) struct Controllers {
    stop: CancellationToken,
    running: Option<JoinHandle<Result<(), kinform::Error>>>,
}

impl Controllers {
    /// Starts controllers, and waits until their caches are filled.
    pub(super) async fn start(server: &Server, selection: &Selection) -> Result<Self, TestError> {
        let service = |user: &str| server.service_as(account(user));
        // One service for each user, made while the server is at hand.
        let users = kinform_controlplane::users();
        let services: Vec<(&str, Service)> =
            users.iter().map(|user| (*user, service(user))).collect();
        let client = move |user: &str| {
            let found = services.iter().find(|(name, _)| *name == user);
            let (_, service) = found.expect("`users` names every user of the control plane");
            client(service.clone())
        };
        let plane = ControlPlane::new(client, selection);
        let plane = plane.map_err(|error| failed("make the controllers", &error))?;
        let informers = plane.informers();
        let stop = CancellationToken::new();
        let running = tokio::spawn(plane.run(stop.clone()));
        let started = Self {
            stop,
            running: Some(running),
        };
        let synced = informers.synced_within(SYNC_WITHIN).await;
        synced.map_err(|error| failed("start the controllers", &error))?;
        Ok(started)
    }

    /// Ends them and waits for their tasks.
    pub(super) async fn stop(mut self) {
        self.stop.cancel();
        if let Some(running) = self.running.take() {
            // What they ended with is no matter of the test's: they were asked to.
            drop(running.await);
        }
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The user of a name. It may do everything: a test's server need not have the roles of controllers.
fn account(name: &str) -> User {
    User::new(name).with_group("system:masters")
}

/// A client of a server in this process.
fn client(service: Service) -> Client {
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let service = service.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
            let reply = service.call(http::Request::from_parts(head, body)).await;
            Ok::<_, io::Error>(reply)
        }
    });
    Client::new(service, "default")
}
