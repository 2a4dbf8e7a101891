//! The frame of all controllers: shared informers, a client for each user, one clock.
//!
//! ```text
//! client of a user name ─┬─▶ factory (one watch a resource, shared)
//!                        └─▶ client of each controller's user: its writes
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use kinform::{CancellationToken, Error, InformerFactory};
use kube_client::Client;

use crate::clock::Clock;
use crate::pods::Pods;

/// The user that reads for all controllers.
pub(crate) const READER: &str = "system:kube-controller-manager";

/// The parts that every controller gets. Clones share them.
#[derive(Clone)]
pub(crate) struct Frame {
    pub(crate) factory: InformerFactory,
    pub(crate) pods: Pods,
    pub(crate) clock: Clock,
    pub(crate) stop: CancellationToken,
    clients: Arc<HashMap<&'static str, Client>>,
}

impl Frame {
    /// `clients` has the one of each user that reads or writes; its clock starts at `now`.
    ///
    /// # Errors
    /// The indexes of pods cannot be made.
    pub(crate) fn new(
        clients: HashMap<&'static str, Client>,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let factory = InformerFactory::new(client_in(&clients, READER));
        Ok(Self {
            pods: Pods::new(&factory.informer())?,
            factory,
            clock: Clock::at(now),
            stop: CancellationToken::new(),
            clients: Arc::new(clients),
        })
    }

    /// The client of a controller's service account.
    pub(crate) fn client(&self, account: &str) -> Client {
        self.client_of(&format!("system:serviceaccount:kube-system:{account}"))
    }

    /// The client of a user.
    pub(crate) fn client_of(&self, user: &str) -> Client {
        client_in(&self.clients, user)
    }
}

fn client_in(clients: &HashMap<&'static str, Client>, user: &str) -> Client {
    let client = clients.get(user);
    client.expect("`USERS` names every user").clone()
}
