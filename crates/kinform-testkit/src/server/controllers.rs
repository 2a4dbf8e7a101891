//! The built-in controllers beside a test's server.
//!
//! ```text
//! with_controllers() ─▶ Server::service_as(user) ─▶ client of each user ─▶ ControlPlane, a task
//! ```
//!
//! They run in the test's runtime, without sockets, also beside a server that has some: under paused
//! time their delays are the test's. A stopped or restarted server ends them first.

use kinform_apiserver::{Builder, Server, User};
use kinform_controlplane::{ControlPlane, ControllerName, Running, Selection, client_of};

use super::{TestError, failed};

/// Gives a server what controllers need: the content of namespaces, and pods that a kubelet ends.
pub(crate) fn furnish(builder: Builder, selection: &Selection) -> Builder {
    let builder = match selection.has(ControllerName::Kubelet) {
        true => builder.with_kubelets(),
        false => builder,
    };
    builder.with_namespace_content()
}

/// Starts controllers, and waits until their caches are filled.
pub(crate) async fn start(server: &Server, selection: &Selection) -> Result<Running, TestError> {
    let client = |name: &str| {
        let service = server.service_as(account(name));
        client_of(move |request| {
            let service = service.clone();
            async move { service.call(request).await }
        })
    };
    let plane = ControlPlane::at(server.now(), client, selection);
    let plane = plane.map_err(|error| failed("make the controllers", &error))?;
    let started = plane.start().await;
    started.map_err(|error| failed("start the controllers", &error))
}

/// The user of a name. With authorization, controllers have the rights of their roles. Those of a
/// kubelet are decided by no role, and this server has no authorizer of nodes: it may do everything.
fn account(name: &str) -> User {
    let user = User::new(name);
    match name.starts_with("system:node:") {
        true => user.with_group("system:masters"),
        false => user,
    }
}
