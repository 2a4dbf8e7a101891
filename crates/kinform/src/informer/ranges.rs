//! The ranges of hashes that one loop reads, as its share has them.
//!
//! ```text
//! Share ──wanted──▶ Followed ──▶ what to tell reflector and store ──▶ root's scope ──has──▶ Share
//! ```
//!
//! Several changes that are there at once are one. The reflector hears of a change first, so that a
//! list which is void ends before the store hears of it. A range counts as read once the root says that it has it.
//!
//! Upstream counterpart: none.

use std::sync::Arc;

use kinform_core::delta::Delta;
use kinform_core::reflector::input::Input;
use kinform_core::scope::{Scope, ScopeField};
use kinform_core::shards::{Ranges, ShardField};
use kinform_core::store::root::Root;
use tokio::sync::watch;

use crate::share::{Reading, Share};
use crate::source::ResourceInfo;

/// The share of an informer, and the text of its objects that is hashed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sharded {
    pub(crate) share: Share,
    pub(crate) field: ScopeField,
}

impl Sharded {
    /// Objects of the share itself.
    pub(crate) fn own(share: &Share) -> Self {
        let field = match share.shards().field() {
            ShardField::Namespace => ScopeField::Namespace,
            ShardField::Uid => ScopeField::Uid,
        };
        let share = share.clone();
        Self { share, field }
    }

    /// Objects whose controlling owners are of the share. An owner has its objects' namespace.
    pub(crate) fn of_owners(share: &Share) -> Self {
        let own = Self::own(share);
        let field = match own.field {
            ScopeField::Uid => ScopeField::OwnerUid,
            other => other,
        };
        Self { field, ..own }
    }

    /// Why this resource cannot be shared so, if it cannot.
    pub(crate) fn mistake(&self, info: &ResourceInfo, keeps_owners: bool) -> Option<String> {
        let is_of_cluster = info.scope == kinform_api::Scope::Cluster;
        match self.field {
            ScopeField::Namespace if is_of_cluster => Some(format!(
                "{info}: a resource of the cluster has no namespaces to divide it by"
            )),
            ScopeField::OwnerUid if !keeps_owners => Some(format!(
                "{info}: the projection drops metadata.ownerReferences, which say whose objects to keep"
            )),
            _ => None,
        }
    }
}

/// The ranges that a loop follows.
pub(super) struct Followed {
    reading: Reading,
    wanted: watch::Receiver<Ranges>,
    /// The objects that are kept of the bytes that are read from now on.
    scope: Arc<Scope>,
    has_begun: bool,
    /// The ranges that the share was last told of.
    told: Ranges,
    /// The root may have more ranges than the share knows of.
    is_news: bool,
    /// That others come, too, was logged.
    has_said: bool,
}

/// The consequences of a change.
pub(super) struct Change {
    /// For the reflector, before anything else.
    pub(super) input: Option<Input>,
    /// For the store.
    pub(super) deltas: Vec<Delta>,
}

impl Followed {
    pub(super) fn new(reading: Reading, field: ScopeField) -> Self {
        let mut wanted = reading.wanted();
        // The first look is a change.
        wanted.mark_changed();
        Self {
            wanted,
            reading,
            scope: Arc::new(Scope::new(field, Ranges::none())),
            has_begun: false,
            told: Ranges::none(),
            is_news: false,
            has_said: false,
        }
    }

    /// The scope of what is read.
    pub(super) fn scope(&self) -> Arc<Scope> {
        Arc::clone(&self.scope)
    }

    /// Waits for other ranges.
    ///
    /// Cancel safety: nothing is lost.
    pub(super) async fn changed(&mut self) {
        if self.wanted.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Takes the ranges that are wanted now.
    pub(super) fn follow(&mut self) -> Change {
        let wanted = self.wanted.borrow_and_update().clone();
        let scope = Arc::new(Scope::new(self.scope.field(), wanted));
        let before = std::mem::replace(&mut self.scope, scope);
        let (before, after) = (before.ranges(), self.scope.ranges());
        let selector = self.scope.selector();
        // A range that went and came before anybody looked: what the share forgot is to be read again.
        let forgotten = self.told.difference(&self.reading.read());
        let grows =
            !after.difference(before).is_empty() || forgotten.difference(after) != forgotten;
        let input = if after.is_empty() {
            (!self.has_begun || !before.is_empty()).then_some(Input::Rest)
        } else if grows {
            Some(Input::Extend { selector })
        } else {
            (before != after).then_some(Input::Narrow { selector })
        };
        // Until its list, a range that went and came is not claimed, though it is stored.
        self.is_news = !grows;
        let mut deltas = Vec::new();
        if input.is_some() {
            deltas.push(Delta::Scope(Arc::clone(&self.scope)));
        }
        // A store that is to have nothing has it.
        if matches!(input, Some(Input::Rest)) {
            deltas.push(Delta::CaughtUp);
        }
        self.has_begun = true;
        Change { input, deltas }
    }

    /// A list was stored: the root may have more.
    pub(super) fn listed(&mut self) {
        self.is_news = true;
    }

    /// Tells the share what the root has.
    pub(super) fn tell(&mut self, root: &Root) {
        // Before a change is followed, it is not known what of the root still counts.
        let is_due = self.is_news && !self.wanted.has_changed().unwrap_or(false);
        if is_due && let Some(scope) = root.scope() {
            self.is_news = false;
            self.told.clone_from(scope.ranges());
            self.reading.has(scope.ranges());
        }
    }

    /// Says once that a server which was asked for ranges sends others, too.
    pub(super) fn say_outside(&mut self, outside: u64) {
        if outside > 0
            && self.scope.selector().is_some()
            && !std::mem::replace(&mut self.has_said, true)
        {
            tracing::info!(
                "the server sends objects of all shards: those of others are dropped here"
            );
        }
    }
}
