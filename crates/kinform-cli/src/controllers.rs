//! The built-in controllers beside `kinform serve`.
//!
//! ```text
//! Server::service_as(user) ─▶ client of each user, without sockets ─▶ ControlPlane, a task
//! ```

use kinform_apiserver::{Server, User};
use kinform_controlplane::{ControlPlane, Running, Selection, client_of};

use crate::exit::Failure;

/// Starts the selected controllers, if any, and waits until their caches are filled.
pub(crate) async fn start(
    server: &Server,
    selection: Option<&Selection>,
) -> Result<Option<Running>, Failure> {
    let Some(selection) = selection else {
        return Ok(None);
    };
    let client = |name: &str| {
        // They may do everything: also with --rbac on a server without the roles of controllers.
        let service = server.service_as(User::new(name).with_group("system:masters"));
        client_of(move |request| {
            let service = service.clone();
            async move { service.call(request).await }
        })
    };
    let plane = ControlPlane::new(client, selection).map_err(failed)?;
    plane.start().await.map(Some).map_err(failed)
}

/// Ends the controllers.
pub(crate) async fn stop(running: Option<Running>) -> Result<(), Failure> {
    match running {
        Some(running) => running.stop().await.map_err(failed),
        None => Ok(()),
    }
}

fn failed(error: kinform::Error) -> Failure {
    Failure::new(format!("controllers: {error}"))
}
