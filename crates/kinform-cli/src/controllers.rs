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
        let service = server.service_as(account(name));
        client_of(move |request| {
            let service = service.clone();
            async move { service.call(request).await }
        })
    };
    let plane = ControlPlane::at(server.now(), client, selection).map_err(failed)?;
    plane.start().await.map(Some).map_err(failed)
}

/// The user of a name. With --rbac, controllers have the rights of their roles. Those of a kubelet are
/// decided by no role, and this server has no authorizer of nodes: it may do everything.
fn account(name: &str) -> User {
    let user = User::new(name);
    match name.starts_with("system:node:") {
        true => user.with_group("system:masters"),
        false => user,
    }
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
