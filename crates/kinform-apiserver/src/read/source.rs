//! The objects that lists and watches of a resource read: those of its shelf, or their mirror in a
//! version that is not stored.
//!
//! ```text
//! resource ──converted by a webhook?──▶ Store | Mirror ──▶ View, events, revisions
//! ```
//!
//! A mirror lags behind, so that a consistent read of it waits: three seconds, as upstream's caches.
//!
//! Upstream: `apiserver:pkg/storage/cacher/{cacher,delegator}.go`.

use std::sync::Arc;

use kinform_api::Status;
use tokio::sync::watch;

use super::FUTURE_WAIT;
use crate::conversion::{self, failure};
use crate::encode::Encoder;
use crate::http::negotiate::Form;
use crate::resource::ResourceInfo;
use crate::state::State;
use crate::storage::mirror::{Broken, Mirror};
use crate::storage::{Ends, OutOfReach, PollLimits, Polled, View};

/// The objects of a resource, as its readers see them.
#[derive(Clone)]
pub(super) struct Source {
    state: Arc<State>,
    resource: Arc<ResourceInfo>,
    /// `None` for the shelf itself.
    mirror: Option<Arc<Mirror>>,
}

impl Source {
    /// Returns the objects of a resource. The first reader of a version makes its mirror.
    pub(super) fn of(state: &Arc<State>, resource: &Arc<ResourceInfo>) -> Self {
        Self {
            state: state.clone(),
            resource: resource.clone(),
            mirror: conversion::mirror(state, resource),
        }
    }

    /// Returns the present objects.
    ///
    /// # Errors
    /// 500 if they could not be converted within three seconds.
    ///
    /// # Cancel safety
    /// Nothing is lost with the future.
    pub(super) async fn latest(&self) -> Result<View, Status> {
        let store = &self.state.store;
        let Some(mirror) = &self.mirror else {
            return Ok(store.shown(self.resource.shelf));
        };
        self.caught_up(mirror).await?;
        Ok(mirror.view())
    }

    /// Waits until the mirror has every change.
    async fn caught_up(&self, mirror: &Mirror) -> Result<(), Status> {
        let store = &self.state.store;
        let mut progress = mirror.subscribe();
        let caught_up = async {
            while !mirror.refresh(store) {
                progress.mark_unchanged();
                if mirror.refresh(store) || progress.changed().await.is_err() {
                    break;
                }
            }
        };
        match tokio::time::timeout(FUTURE_WAIT, caught_up).await {
            Ok(()) => Ok(()),
            Err(_) => {
                let late = || Broken {
                    key: Box::default(),
                    revision: mirror.upto(),
                    why: "the conversion webhook did not answer in time".to_owned(),
                };
                let broken = mirror.failure().unwrap_or_else(late);
                Err(failure::not_listed(&self.resource, &broken))
            }
        }
    }

    /// Waits until the revision is reached that a request names; a fault may make it less.
    ///
    /// # Errors
    /// As of [`Source::reached`].
    pub(super) async fn asked(&self, revision: u64) -> Result<(), Status> {
        super::wait_for_asked(&self.state, revision).await?;
        self.mirrored(revision).await
    }

    /// Waits until a revision is reached.
    ///
    /// # Errors
    /// 504 on timeout, 500 if the objects could not be converted.
    pub(super) async fn reached(&self, revision: u64) -> Result<(), Status> {
        super::wait_for_revision(&self.state, revision).await?;
        self.mirrored(revision).await
    }

    async fn mirrored(&self, revision: u64) -> Result<(), Status> {
        match &self.mirror {
            Some(mirror) if mirror.upto() < revision => self.caught_up(mirror).await,
            _ => Ok(()),
        }
    }

    /// Waits until a mirror that was just made has every change, or cannot have it.
    pub(super) async fn begun(&self) {
        let Some(mirror) = self.mirror.as_ref().filter(|of| !of.is_ready()) else {
            return;
        };
        let store = &self.state.store;
        let mut progress = mirror.subscribe();
        let is_over = |_: &u64| mirror.failure().is_some() || mirror.refresh(store);
        let begun = progress.wait_for(is_over);
        // What is not there then is missing, as in a cache that could never be filled.
        drop(tokio::time::timeout(FUTURE_WAIT, begun).await);
    }

    /// Returns the objects that may be stale.
    pub(super) fn replica(&self) -> View {
        let Some(mirror) = &self.mirror else {
            return self.state.replica_view(self.resource.shelf);
        };
        mirror.refresh(&self.state.store);
        let lagging = self.state.faults.replica();
        let lagging = lagging.and_then(|at| mirror.view_at(at).ok());
        lagging.unwrap_or_else(|| mirror.view())
    }

    /// Returns the objects of a continue token.
    ///
    /// # Errors
    /// As of [`Source::at`]; a fault may let each token expire.
    pub(super) fn of_token(&self, revision: u64) -> Result<View, OutOfReach> {
        match self.state.faults.refuses_continue_tokens() {
            true => Err(OutOfReach::Expired),
            false => self.at(revision),
        }
    }

    /// Returns the objects at a past revision.
    ///
    /// # Errors
    /// The revision is below the history, or not reached yet.
    pub(super) fn at(&self, revision: u64) -> Result<View, OutOfReach> {
        match &self.mirror {
            None => self.state.store.view_at(self.resource.shelf, revision),
            Some(mirror) => {
                mirror.refresh(&self.state.store);
                mirror.view_at(revision)
            }
        }
    }

    /// Returns the events after a cursor.
    pub(super) fn poll(&self, after: u64, limits: PollLimits) -> Polled {
        let store = &self.state.store;
        let Some(mirror) = &self.mirror else {
            return store.poll(self.resource.shelf, after, limits);
        };
        mirror.refresh(store);
        let polled = mirror.poll(after, limits);
        Polled {
            ends: self.ends(),
            ..polled
        }
    }

    /// Returns whether events are going to come that readers of the store see already.
    pub(super) fn is_behind(&self) -> bool {
        let mirror = self.mirror.as_ref();
        mirror.is_some_and(|of| of.is_behind(&self.state.store))
    }

    /// Returns an encoder of the objects.
    pub(super) fn encoder(&self, form: Form) -> Encoder {
        match &self.mirror {
            None => Encoder::new(&self.resource, form, self.state.clock),
            Some(_) => Encoder::plain(&self.resource, form, self.state.clock),
        }
    }

    /// Returns the number of times that its watches were ended: those of the shelf, and of the mirror.
    pub(super) fn ends(&self) -> Ends {
        let ends = self.state.store.ends(self.resource.shelf);
        let mirror = self.mirror.as_ref().map_or(0, |of| of.ends().at_once);
        Ends {
            at_once: ends.at_once + mirror,
            ..ends
        }
    }

    /// Returns the receivers that wake when there may be events: of the shelf, and of its mirror.
    pub(super) fn subscribe(&self) -> (watch::Receiver<u64>, Option<watch::Receiver<u64>>) {
        let shelf = self.state.store.subscribe(self.resource.shelf);
        (shelf, self.mirror.as_ref().map(|mirror| mirror.subscribe()))
    }

    /// Checks that a watch can start after a revision. The error is the lowest such revision.
    pub(super) fn can_resume(&self, revision: u64) -> Result<(), u64> {
        self.state.store.can_resume(revision)?;
        match &self.mirror {
            Some(mirror) if revision < mirror.floor() => Err(mirror.floor()),
            _ => Ok(()),
        }
    }
}
