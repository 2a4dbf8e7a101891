//! Derives the one state that users see, from the reflector's events and the store.
//!
//! ```text
//! ReflectorEvent… + Root → InformerState
//! ```
//!
//! The reflector is synced when it has handed on a list; users see `Synced` when the list is in the
//! store. A state changes only when its meaning does: `Synced` keeps the version at which it began.
//!
//! Upstream counterpart: none; `client-go:tools/cache` has `HasSynced` and a callback for errors.

use std::time::Duration;

use jiff::Timestamp;
use kinform_core::reflector::report::{ReflectorEvent, State};
use kinform_core::store::root::Root;

use crate::report::trouble;
use crate::state::{InformerState, Trouble};

#[derive(Debug, Default)]
pub(super) struct Status {
    reflector: Option<State>,
    trouble: Option<Trouble>,
    stale_since: Option<Timestamp>,
    synced_at: Option<String>,
    restored_at: Option<Timestamp>,
}

impl Status {
    /// Objects were read from a snapshot that was written at this time.
    pub(super) fn restored(&mut self, written: Timestamp) {
        self.restored_at = Some(written);
    }

    pub(super) fn on_event(&mut self, event: &ReflectorEvent) {
        match event {
            ReflectorEvent::Retrying { after, problem } => {
                self.trouble = Some(trouble(problem, Some(*after)));
            }
            ReflectorEvent::State(state) => {
                if matches!(state, State::Synced { .. }) {
                    self.trouble = None;
                }
                self.reflector = Some(state.clone());
            }
            ReflectorEvent::Listed { .. } | ReflectorEvent::Resumed { .. } => self.trouble = None,
            _ => {}
        }
    }

    /// `quiet` is the time without a complete event of the server.
    pub(super) fn state(&mut self, root: &Root, quiet: Duration) -> InformerState {
        let state = self.derive(root, quiet);
        if !matches!(state, InformerState::Synced { .. }) {
            self.synced_at = None;
        }
        if !matches!(state, InformerState::Stale { .. }) {
            self.stale_since = None;
        }
        state
    }

    fn derive(&mut self, root: &Root, quiet: Duration) -> InformerState {
        let trouble = self.trouble.clone();
        let told = |fallback: &str| {
            trouble.clone().unwrap_or_else(|| Trouble {
                reason: "Unknown".to_owned(),
                message: fallback.to_owned(),
                retry_in: None,
            })
        };
        match &self.reflector {
            Some(State::Stopped) => InformerState::Stopped,
            Some(State::Forbidden { .. }) => InformerState::Forbidden(told("the server refuses")),
            Some(State::Unauthorized) => {
                InformerState::Forbidden(told("the server does not know these credentials"))
            }
            Some(State::NoSuchKind) => {
                InformerState::NoSuchKind(told("the server has no such resource"))
            }
            _ if !root.has_synced() => match self.restored_at {
                Some(since) => {
                    let trouble = told("read from disk, not compared with the server yet");
                    InformerState::Stale { since, trouble }
                }
                None => InformerState::Listing { trouble },
            },
            Some(State::Stale { .. }) => {
                let trouble = told("nothing is heard from the server");
                self.stale(quiet, trouble)
            }
            // A relist: the stored objects stay valid until something failed.
            Some(State::Pending | State::Listing) if trouble.is_some() => {
                let trouble = told("the server cannot be followed");
                self.stale(quiet, trouble)
            }
            _ => {
                let version = || root.version().to_string();
                let version = self.synced_at.get_or_insert_with(version).clone();
                InformerState::Synced { version }
            }
        }
    }

    fn stale(&mut self, quiet: Duration, trouble: Trouble) -> InformerState {
        let since = *self.stale_since.get_or_insert_with(|| {
            let now = crate::env::wall_clock();
            now.checked_sub(quiet).unwrap_or(now)
        });
        InformerState::Stale { since, trouble }
    }
}
