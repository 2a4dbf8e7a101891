//! Following changes: a watch, its end, its silence, and what comes after.
//!
//! ```text
//! position → watch → events ──▶ deltas            ended, cut → reopen at the same version
//!              ▲                                   silent, cut → probe → reopen | list again (`silence`)
//!              └──────────────────────────────────┘
//! ```
//!
//! A watch that ends is opened again at once; if it was short, only the first three times in a row.
//! A server whose version went back keeps a watch from its future silent: after silence, a
//! lost connection or a bookmark older than ours, a probe (a list of one item) tells its version
//! first.
//!
//! An event older than ours is either a replay or the second half of a gap; which, cannot be told,
//! so everything is listed again, unless that is this server's way (`position`). A `DELETED` may carry its object's last version, as old servers
//! send it: it is handed on and moves nothing.
//!
//! Upstream counterpart: `client-go:tools/cache/reflector.go` (`watch`, `handleAnyWatch`); the
//! probe and the order check have none.

use std::time::Duration;

use kinform_api::{ListOptions, ResourceVersion, WatchEventKind, WatchOptions, mutant};

use crate::delta::{Delta, QuarantineOrigin};
use crate::object::Object;
use crate::time::Instant;
use crate::wire::unreadable::Unreadable;

use super::input::{Ending, Event, Failure};
use super::list::quarantined;
use super::recover::Next;
use super::report::{Problem, ProblemKind, ReflectorEvent, RelistReason, State};
use super::silence::Silence;
use super::verdict::{Ask, of_event, problem_of_event};
use super::{Reflector, Request, Step};

/// A watch that ends so soon without an event is a failure.
pub(super) const VERY_SHORT: Duration = Duration::from_secs(1);
/// A watch that ends so soon may be opened again at once only a few times in a row.
const SHORT: Duration = Duration::from_secs(5);
/// BOUND: short watches in a row that are opened again at once.
const MAX_SHORT: u8 = 3;

/// The record of recent watches.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamHabits {
    /// Events of the stream under way.
    pub(super) events: u64,
    /// Events of it that were skipped.
    skipped: u64,
    /// Short watches in a row.
    short: u8,
    /// Opening failed so often in a row, though the server answers.
    pub(super) failed_opens: u8,
    /// Learn the server's version before the next watch.
    pub(super) verify: bool,
    /// The next watch goes on where an earlier one stopped.
    is_resumption: bool,
}

impl StreamHabits {
    /// A new list: what is known about the old version is void.
    pub(super) fn forget_version(&mut self) {
        self.verify = false;
        self.is_resumption = false;
    }
}

impl Reflector {
    /// Opens a watch at our version; from nowhere, if the server has no versions.
    pub(super) fn ask_watch(&mut self, now: Instant) {
        if !self.may_watch_again() {
            return self.give_up_rejoin(RelistReason::NotCaughtUp, now);
        }
        let resource_version = self.position.version().cloned();
        let options = WatchOptions {
            resource_version,
            send_initial_events: mutant!("B17").then_some(true),
            ..self.watch_options()
        };
        self.ask(Ask::Watch, now, |deadline| Request::Watch {
            options,
            deadline,
        });
    }

    /// Watch options that every watch has.
    pub(super) fn watch_options(&mut self) -> WatchOptions {
        let timeout = self.config.watch_timeout(self.dice.throw());
        WatchOptions {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            shard_selector: self.config.shard_selector.clone(),
            allow_bookmarks: true,
            timeout: Some(self.short_watch().unwrap_or(timeout)),
            ..WatchOptions::default()
        }
    }

    /// Goes on after a watch that ended, or could not be opened.
    pub(super) fn reopen(&mut self, now: Instant) {
        if self.is_rejoining() {
            return self.ask_rejoin(now);
        }
        self.habits.is_resumption = true;
        if self.habits.verify && self.position.is_comparable() {
            // Not at version 0: caches ignore the limit there.
            let options = ListOptions {
                limit: Some(1),
                ..self.selected()
            };
            self.ask(Ask::Probe, now, |deadline| Request::Probe {
                options,
                deadline,
            });
        } else {
            self.ask_watch(now);
        }
    }

    pub(super) fn on_probe_answered(&mut self, version: &ResourceVersion, now: Instant) {
        self.habits.verify = false;
        if self.position.is_after_version(version) {
            self.position.ask_consistent = true;
            self.relist_soon(RelistReason::ServerWentBack, None, now);
        } else {
            self.judge_last_watch();
            let is_ahead = self.position.is_before(version.parsed());
            // Watches of a few seconds say nothing of the next ones.
            let is_usual = self.rejoin.is_none() && !mutant!("K29");
            if is_usual && self.silence.leads_to_list(is_ahead) {
                self.position.ask_consistent = true;
                return self.relist_soon(RelistReason::SilentWatch, None, now);
            }
            self.ask_watch(now);
        }
    }

    pub(super) fn on_watch_opened(&mut self, now: Instant) {
        self.judge_last_watch();
        self.habits.skipped = 0;
        self.backoff.healthy(now);
        if std::mem::replace(&mut self.habits.is_resumption, true) {
            self.stats.reopens += 1;
            let version = self.position.version_or_unset();
            self.report(ReflectorEvent::Reopened { version });
        }
        self.check_caught_up();
        if self.has_synced && !matches!(self.state, State::Synced { .. }) {
            self.enter(State::Synced {
                version: self.position.version_or_unset(),
            });
        }
    }

    pub(super) fn on_live_event(&mut self, event: Event, now: Instant) {
        match event {
            Event::Added(object) => self.on_change(object, Delta::Added, now),
            Event::Modified(object) => self.on_change(object, Delta::Updated, now),
            Event::Deleted(object) => self.on_deleted(object),
            Event::Outside(outside) => self.on_event_outside(outside, now),
            Event::Bookmark { version, .. } => self.on_bookmark(version, now),
            Event::Unreadable {
                kind: WatchEventKind::Bookmark,
                ..
            } => {
                self.on_foreign("unreadable bookmark".to_owned());
            }
            Event::Unreadable { kind, object } => self.on_unreadable(kind, object, now),
            Event::Foreign { what } => self.on_foreign(what),
            Event::Error(status) => {
                self.steps.push_back(Step::CloseRequest);
                let problem = problem_of_event(status.as_ref(), Ask::Watch.verb());
                let wait = status.and_then(|s| s.retry_after());
                self.act(
                    of_event(Ask::Watch, problem.kind),
                    Ask::Watch,
                    problem,
                    wait,
                    now,
                );
            }
        }
    }

    fn on_change(&mut self, object: Object, delta: fn(Object) -> Delta, now: Instant) {
        let revision = object.revision();
        if self.lists_after_disorder(revision, now) {
            return;
        }
        self.position.advance(object.resource_version(), revision);
        self.hand_on_event(delta(object));
        self.check_caught_up();
    }

    /// Has everything listed again after an event from the past, unless that is this server's way.
    /// Returns whether it did.
    pub(super) fn lists_after_disorder(&mut self, revision: Option<u64>, now: Instant) -> bool {
        if !self.position.is_after(revision) {
            return false;
        }
        self.stats.disorders += 1;
        if self.position.count_disorder(now) {
            return false;
        }
        self.steps.push_back(Step::CloseRequest);
        self.relist_soon(RelistReason::OutOfOrder, None, now);
        true
    }

    fn on_deleted(&mut self, object: Object) {
        let revision = object.revision();
        if !self.position.is_after(revision) {
            self.position.advance(object.resource_version(), revision);
        }
        self.hand_on_event(Delta::Deleted(object));
        self.check_caught_up();
    }

    fn on_bookmark(&mut self, version: ResourceVersion, now: Instant) {
        self.habits.events += 1;
        self.silence = Silence::default();
        if version.is_unset() || version.is_zero() || self.position.version().is_none() {
            return;
        }
        if self.position.is_after_version(&version) {
            // A lagging replica, or a server that went back: the probe tells.
            self.steps.push_back(Step::CloseRequest);
            self.habits.verify = true;
            let message = format!("bookmark at {version}, older than what was said before");
            let kind = ProblemKind::OutOfOrder;
            let problem = Problem {
                verb: Ask::Watch.verb(),
                kind,
                code: None,
                message,
            };
            return self.wait(Next::Reopen, problem, None, now);
        }
        if self.position.version() != Some(&version) {
            self.position.advance(version.as_str(), version.parsed());
            self.stats.bookmarks += 1;
            self.hand_on(Delta::Bookmark {
                version: version.into(),
            });
            self.check_caught_up();
        }
    }

    fn on_unreadable(&mut self, kind: WatchEventKind, object: Unreadable, now: Instant) {
        let is_deletion = kind == WatchEventKind::Deleted;
        let version = object.resource_version.as_deref().unwrap_or_default();
        let revision = ResourceVersion::from(version).parsed();
        if !is_deletion && self.lists_after_disorder(revision, now) {
            return;
        }
        if !self.position.is_after(revision) {
            self.position.advance(version, revision);
        }
        let origin = if is_deletion {
            QuarantineOrigin::Deletion
        } else {
            QuarantineOrigin::Watch
        };
        self.stats.quarantined += 1;
        if mutant!("B10") {
            return;
        }
        // It may be of any object: a list tells what it hides.
        let problem = object.key.is_none().then(|| {
            let message = format!("an event that cannot be read: {object}");
            Problem::garbled(Ask::Watch.verb(), message)
        });
        self.hand_on_event(quarantined(object, origin));
        self.check_caught_up();
        if let Some(problem) = problem {
            self.steps.push_back(Step::CloseRequest);
            self.relist_later(RelistReason::Garbled, problem, None, now);
        }
    }

    /// Not ours to read: the version stays, and the next event that is ours moves it.
    fn on_foreign(&mut self, what: String) {
        self.habits.events += 1;
        self.habits.skipped += 1;
        self.stats.skipped += 1;
        if self.habits.skipped == 1 {
            self.report(ReflectorEvent::Skipped { what });
        }
    }

    pub(super) fn hand_on_event(&mut self, delta: Delta) {
        self.habits.events += 1;
        self.stats.events += 1;
        self.hand_on(delta);
    }

    /// No complete event for longer than bookmarks allow.
    pub(super) fn on_silence(&mut self, now: Instant) {
        self.stats.silences += 1;
        let quiet = now.since(self.clock.heard_at);
        self.report(ReflectorEvent::Silent { quiet });
        self.steps.push_back(Step::CloseRequest);
        self.habits.verify = true;
        if self.habits.events == 0 {
            self.silence.was_silent();
        }
        self.go_on_after_watch(now);
    }

    pub(super) fn on_watch_ended(&mut self, ending: Ending, now: Instant) {
        if mutant!("D5") {
            return self.go_on_after_watch(now);
        }
        let lived = now.since(self.clock.opened_at);
        let problem = |kind, message: &str| {
            let message = message.to_owned();
            Problem {
                verb: Ask::Watch.verb(),
                kind,
                code: None,
                message,
            }
        };
        match &ending {
            Ending::Garbled { message } => {
                self.steps.push_back(Step::CloseRequest);
                let problem = problem(ProblemKind::Garbled, message);
                return self.relist_later(RelistReason::Garbled, problem, None, now);
            }
            // client-go: TestReflectorHandleWatchResultChanClosedBefore
            Ending::Clean if lived < VERY_SHORT && self.habits.events == 0 => {
                let problem = problem(
                    ProblemKind::VeryShortWatch,
                    "ended at once without an event",
                );
                return self.relist_later(RelistReason::VeryShortWatch, problem, None, now);
            }
            Ending::Cut { message } if lived < VERY_SHORT && self.habits.events == 0 => {
                let failure = Failure::Transport {
                    message: message.clone(),
                };
                return self.on_failed_ask(Ask::Watch, failure, now);
            }
            Ending::Cut { .. } => {
                self.habits.verify = true;
                if self.habits.events == 0 && lived >= SHORT {
                    self.silence.was_silent();
                }
            }
            Ending::Clean => {}
        }
        // It lived for a second, or said something.
        self.habits.failed_opens = 0;
        self.habits.short = if lived < SHORT {
            self.habits.short.saturating_add(1)
        } else {
            0
        };
        if self.habits.short > MAX_SHORT {
            let problem = problem(ProblemKind::Transport, "watches end soon, again and again");
            let next = if self.is_resumable() {
                Next::Reopen
            } else {
                Next::Cycle
            };
            if self.habits.events == 0 {
                return self.wait(next, problem, None, now);
            }
            // Streams that say something get on: a pause against a busy loop is enough.
            let pause = self.backoff.pause(self.dice.throw());
            return self.wait_for(next, problem, pause, now);
        }
        self.go_on_after_watch(now);
    }

    fn go_on_after_watch(&mut self, now: Instant) {
        if self.is_resumable() {
            self.reopen(now);
        } else {
            self.relist_soon(RelistReason::Versionless, None, now);
        }
    }

    fn is_resumable(&self) -> bool {
        self.position.version().is_some()
    }
}
