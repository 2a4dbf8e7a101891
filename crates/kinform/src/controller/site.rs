//! The identity of a controller: its resource, name, field manager and client.
//!
//! ```text
//! named, operator_name, client (or the informer's) → Site → every Ctx of the controller
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/controller` (`Options`, names),
//! `pkg/client` (`WithFieldOwner`).

use std::sync::Arc;

use kube_client::Client;

use super::elision::Elisions;
use super::view::View;
use crate::events::EventRecorder;
use crate::source::ResourceInfo;

/// The names that a user gave.
#[derive(Clone, Default)]
pub(super) struct Naming {
    pub(super) controller: Option<String>,
    pub(super) operator: Option<String>,
    pub(super) client: Option<Client>,
    pub(super) events: Option<EventRecorder>,
}

/// The identity of a running controller.
pub(super) struct Site {
    pub(super) resource: ResourceInfo,
    pub(super) name: String,
    pub(super) manager: String,
    pub(super) client: Option<Client>,
    pub(super) view: Arc<View>,
    /// The recorder of events about the controller's objects.
    pub(super) events: Option<EventRecorder>,
    /// `None` until the controller runs.
    pub(super) elisions: Option<Elisions>,
    /// The user gave the client, or the operator's name.
    given: Given,
}

#[derive(Clone, Copy, Debug)]
struct Given {
    client: bool,
    operator: bool,
}

impl Site {
    /// Sends no applies that these find out to change nothing, or to take an object from its owner.
    pub(super) fn eliding(self, elisions: Elisions) -> Self {
        Self {
            elisions: Some(elisions),
            ..self
        }
    }

    /// Takes the client and the name of an operator where the user gave none.
    pub(super) fn adopt(&mut self, operator: &str, client: Client) {
        if !self.given.client {
            self.client = Some(client);
        }
        if !self.given.operator {
            self.manager = format!("{operator}/{}", self.name);
        }
    }
}

impl Naming {
    /// The identity of a controller of `resource` that has this view, and whose informer has the
    /// client `informers`.
    pub(super) fn site(
        self,
        resource: &ResourceInfo,
        informers: Option<Client>,
        view: View,
    ) -> Site {
        let name = self
            .controller
            .unwrap_or_else(|| resource.kind.to_lowercase());
        let manager = match &self.operator {
            Some(operator) => format!("{operator}/{name}"),
            None => name.clone(),
        };
        let given = Given {
            client: self.client.is_some(),
            operator: self.operator.is_some(),
        };
        Site {
            given,
            resource: resource.clone(),
            name,
            manager,
            client: self.client.or(informers),
            view: Arc::new(view),
            events: self.events,
            elisions: None,
        }
    }
}
