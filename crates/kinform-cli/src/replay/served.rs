//! A recording as an API server, and the command that talks to it.
//!
//! ```text
//! ReplaySource → informer ─changes─▶ objects of an embedded server ◀── COMMAND (kubectl, an operator)
//! ```
//!
//! Objects keep their uids, times, status, owners and managedFields; their versions are this server's,
//! since it counts its own history. The command begins when the first list is served, or with `--speed
//! max` when the whole recording is; later changes come at their times. No controller runs and no
//! garbage is collected: what was recorded is all that happens, but for the command's own writes.
//!
//! Upstream counterpart: none.

use std::time::Duration;

use futures::StreamExt as _;
use kinform::recording::ReplaySource;
use kinform::source::{ListerWatcher as _, ResourceInfo};
use kinform::{Changes, Notification, Obj, Projection};
use kinform_api::{Scope, Status};
use kinform_apiserver::{Expect, Server, shelf_name};
use kube_core::DynamicObject;
use serde_json::{Value, json};

use super::{QUIET, Replay};
use crate::args::recording::{ReplayArgs, Speed};
use crate::exit::{Ending, Failure};
use crate::files::TemporaryFile;
use crate::manifest::{create, create_namespace};
use crate::serve::child;
use crate::signals::Signals;
use crate::watch::failure;

/// Serves the recording until the command ends.
pub(super) async fn run(
    args: &ReplayArgs,
    replay: &Replay,
    mut signals: Signals,
) -> Result<Ending, Failure> {
    let source = &replay.source;
    let info = source.resource().clone();
    let server = Server::builder()
        .listen(([127, 0, 0, 1], 0).into())
        .without_garbage_collection()
        .keep_inert_objects();
    let server = server.start().await;
    let server = server.map_err(|error| Failure::new(format!("cannot serve: {error}")))?;
    define(&server, &info).await?;
    let factory = replay
        .factory()
        .projection(Projection::new().keep_managed_fields())
        .build();
    let informer = factory.select::<DynamicObject>(info.clone()).build();
    replay.wait_for(&informer);
    let mut feed = Feed {
        server: &server,
        info: &info,
        changes: informer.changes().map_err(failure)?,
        namespaces: Vec::new(),
    };
    factory.start().map_err(failure)?;
    let is_at_once = args.speed == Speed::Most;
    tokio::select! {
        biased;
        ending = signals.ending() => return Ok(ending),
        () = feed.first(source, is_at_once) => {}
    }
    let kubeconfig = TemporaryFile::new("kubeconfig");
    let text = kubeconfig_of(&server, &info);
    let written = kubeconfig.write(&text);
    written.map_err(|error| Failure::new(format!("kubeconfig: {error}")))?;
    crate::progress!("serving on {}", server.url());
    let ending = tokio::select! {
        biased;
        ending = child(&args.command, kubeconfig.path(), &mut signals) => ending,
        () = feed.rest() => Ok(Ending::Done),
    };
    signals.end_at_next();
    factory.shutdown_within(Duration::from_secs(2)).await;
    server.stop().await;
    ending
}

/// The server's kubeconfig, in the recorded namespace.
fn kubeconfig_of(server: &Server, info: &ResourceInfo) -> String {
    let text = server.kubeconfig();
    match &info.namespace {
        Some(namespace) => {
            let name = Value::from(namespace.as_str());
            text.replace("namespace: default\n", &format!("namespace: {name}\n"))
        }
        None => text,
    }
}

/// Serves the recorded type, if the server does not have it.
async fn define(server: &Server, info: &ResourceInfo) -> Result<(), Failure> {
    let of = &info.resource;
    let entries = server.registry().entries();
    let is_served = entries.iter().any(|entry| {
        (&*entry.group, &*entry.version, &*entry.plural)
            == (&*of.group, &*of.version, &*of.resource)
    });
    if is_served {
        return Ok(());
    }
    let scope = match info.scope {
        Scope::Namespaced => "Namespaced",
        Scope::Cluster => "Cluster",
    };
    let schema = json!({ "openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
    }});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{}.{}", of.resource, of.group),
            // The recorded group may be a reserved one.
            "annotations": { "api-approved.kubernetes.io": "unapproved, of a recording" },
        },
        "spec": {
            "group": of.group, "scope": scope,
            "names": {
                "plural": of.resource, "kind": info.kind, "singular": info.kind.to_lowercase(),
            },
            "versions": [{
                "name": of.version, "served": true, "storage": true, "schema": schema,
            }],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let created = create(server, path, &definition).await;
    created.map_err(|status| refused(info, &status))
}

fn refused(info: &ResourceInfo, status: &Status) -> Failure {
    Failure::new(format!("{info} cannot be served: {}", status.message))
}

/// The recorded changes on their way into the server.
struct Feed<'a> {
    server: &'a Server,
    info: &'a ResourceInfo,
    changes: Changes<DynamicObject>,
    /// Namespaces that were created.
    namespaces: Vec<String>,
}

impl Feed<'_> {
    /// Applies the first list, or everything.
    async fn first(&mut self, source: &ReplaySource, is_everything: bool) {
        let mut ended = Box::pin(source.ended());
        let mut is_over = false;
        loop {
            tokio::select! {
                biased;
                change = self.changes.next() => match change {
                    Some(Notification::Synced) if !is_everything => return,
                    Some(change) => self.apply(&change).await,
                    None => return,
                },
                () = &mut ended, if !is_over => is_over = true,
                // What was sent last has been heard then.
                () = tokio::time::sleep(QUIET), if is_over => return,
            }
        }
    }

    /// Applies changes for as long as the command runs.
    async fn rest(&mut self) {
        while let Some(change) = self.changes.next().await {
            self.apply(&change).await;
        }
        std::future::pending().await
    }

    async fn apply(&mut self, change: &Notification<DynamicObject>) {
        let applied = match change {
            Notification::Added(added) => self.put(added.object()).await,
            Notification::Updated { new, .. } => self.put(new).await,
            Notification::Deleted(deleted) => {
                self.remove(deleted.object());
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(status) = applied {
            crate::progress!("{}", refused(self.info, &status).to_string());
        }
    }

    async fn put(&mut self, object: &Obj<DynamicObject>) -> Result<(), Status> {
        if let Some(namespace) = object.namespace()
            && !self.namespaces.iter().any(|known| known == namespace)
        {
            create_namespace(self.server, namespace).await?;
            self.namespaces.push(namespace.to_owned());
        }
        let json = object.to_json();
        let object = serde_json::from_slice(&json).map_err(|error| {
            let message = format!("{}: {error}", object.key());
            Status::bad_request(message)
        })?;
        self.server.restore(object).map_err(|status| *status)
    }

    fn remove(&self, object: &Obj<DynamicObject>) {
        let of = &self.info.resource;
        let store = self.server.store();
        let shelf = store.shelf(&shelf_name(&of.group, &of.resource));
        // An absent object is already removed.
        let _ = store.remove(shelf, object.key().as_str(), Expect::Any);
    }
}
