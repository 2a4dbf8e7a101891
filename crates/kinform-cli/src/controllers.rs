//! The built-in controllers beside `kinform serve`.
//!
//! ```text
//! Server::service_as(user) ─▶ client of each user, without sockets ─▶ ControlPlane, a task
//! ```

use std::io;
use std::time::Duration;

use http_body_util::BodyExt as _;
use kinform::CancellationToken;
use kinform_apiserver::{Server, Service, User};
use kinform_controlplane::{ControlPlane, Selection, users};
use kube_client::Client;
use kube_client::client::Body;
use tokio::task::JoinHandle;

use crate::exit::Failure;

/// The time in which informers must have their first lists.
const SYNC_WITHIN: Duration = Duration::from_secs(30);

/// Controllers that run until they are stopped, if there are any.
#[derive(Debug)]
pub(crate) struct Controllers {
    stop: CancellationToken,
    running: Option<JoinHandle<Result<(), kinform::Error>>>,
}

impl Controllers {
    /// Starts controllers, and waits until their caches are filled.
    pub(crate) async fn start(
        server: &Server,
        selection: Option<&Selection>,
    ) -> Result<Self, Failure> {
        let stop = CancellationToken::new();
        let Some(selection) = selection else {
            return Ok(Self {
                stop,
                running: None,
            });
        };
        let services: Vec<(&str, Service)> = users()
            .iter()
            // They may do everything: also with --rbac on a server without the roles of controllers.
            .map(|user| (*user, User::new(*user).with_group("system:masters")))
            .map(|(name, user)| (name, server.service_as(user)))
            .collect();
        let client = move |user: &str| {
            let found = services.iter().find(|(name, _)| *name == user);
            let (_, service) = found.expect("`users` names every user of the control plane");
            client(service.clone())
        };
        let failed = |error: kinform::Error| Failure::new(format!("controllers: {error}"));
        let plane = ControlPlane::new(client, selection).map_err(failed)?;
        let informers = plane.informers();
        let running = Some(tokio::spawn(plane.run(stop.clone())));
        informers.synced_within(SYNC_WITHIN).await.map_err(failed)?;
        Ok(Self { stop, running })
    }

    /// Ends them and waits for their tasks.
    pub(crate) async fn stop(self) -> Result<(), Failure> {
        self.stop.cancel();
        let Some(running) = self.running else {
            return Ok(());
        };
        match running.await {
            Ok(ended) => ended.map_err(|error| Failure::new(format!("controllers: {error}"))),
            Err(error) => Err(Failure::new(format!("controllers: {error}"))),
        }
    }
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
