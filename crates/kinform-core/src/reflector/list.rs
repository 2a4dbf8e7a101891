//! Reading a whole list: as a stream of initial events, or in pages.
//!
//! ```text
//! cycle → streaming list ──end bookmark──▶ ListEnd, and the same stream is the watch
//!              │   │ without an object ──▶ list of one item ──empty──▶ ListEnd, the same stream
//!              │   │ refused, stalled, cut        │ an object
//!              ▼   ▼                              │
//!           pages ◀───────────────────────────────┘ ──last page──▶ ListEnd → watch
//! ```
//!
//! `ListBegin` is handed on with the first item, so that a refused request leaves no trace. Whatever
//! breaks a list hands on `ListAbort`: nothing of it counts.
//! A `DELETED` among the initial events is handed on inside the list: it takes its object out again.
//! An unknown type or another kind there gives the streaming list up, since what it hides
//! would be missing from the list, and so be deleted. For the same reason an empty streaming list
//! counts only once an ordinary list is empty, too: servers exist that send the end bookmark alone.
//! An ordinary bookmark before it says that the server opened an ordinary watch.
//!
//! Upstream counterpart: `client-go:tools/cache/reflector.go` (`list`, `watchList`).

use std::cmp::Ordering;
use std::time::Duration;

use kinform_api::{
    ListOptions, ResourceVersion, VersionMatch, WatchEventKind, WatchOptions, mutant,
};

use crate::delta::{Delta, Quarantine, QuarantineOrigin};
use crate::object::Object;
use crate::time::Instant;
use crate::wire::unreadable::Unreadable;

use super::config::StreamingList;
use super::input::{Ending, Event, Failure};
use super::limits::Size;
use super::pager::{PAGE_SIZE, Pager, Turn};
use super::recover::Next;
use super::report::{FallbackReason, Problem, ProblemKind, ReflectorEvent, RelistReason, State};
use super::verdict::{Ask, of_event, problem_of_event};
use super::{Phase, Reflector, Request, Step};

/// BOUND: streaming lists that end before their end bookmark, a cycle.
const MAX_EARLY_ENDS: u8 = 3;

/// State of the listing: the current cycle, and lessons from earlier ones.
#[derive(Clone, Debug)]
pub(super) struct ListCycle {
    /// When the cycle under way, or the last one, began.
    pub(super) began_at: Option<Instant>,
    /// Why it lists again.
    pub(super) reason: Option<RelistReason>,
    /// `ListBegin` was handed on, its end not yet.
    is_open: bool,
    /// The streaming list under way named an object.
    pub(super) has_objects: bool,
    /// The version of a streaming list without an object, until a list has confirmed it.
    empty_at: ResourceVersion,
    /// That streaming list is still open, beside the list that confirms it.
    pub(super) is_beside: bool,
    /// Streaming lists of this cycle that ended before their end bookmark.
    early_ends: u8,
    /// Pages until then.
    streaming: StreamingList,
    /// A list at version 0 came in pages: the server has no watch cache.
    pages_at_zero: bool,
    /// The pages of the list before did not fit: ask for it in one piece.
    unpaged_once: bool,
    /// The shard selector of the pages under way.
    shard_selector: Option<String>,
    /// The version that the streaming list under way asked for.
    asked: ResourceVersion,
    /// Of the list being read.
    pub(super) size: Size,
}

impl ListCycle {
    pub(super) fn new(streaming: StreamingList) -> Self {
        Self {
            began_at: None,
            reason: None,
            is_open: false,
            has_objects: false,
            empty_at: ResourceVersion::UNSET,
            is_beside: false,
            early_ends: 0,
            streaming,
            pages_at_zero: false,
            unpaged_once: false,
            shard_selector: None,
            asked: ResourceVersion::UNSET,
            size: Size::default(),
        }
    }

    fn may_stream(&self, now: Instant) -> bool {
        match self.streaming {
            StreamingList::Preferred => true,
            StreamingList::NotBefore(until) => until <= now,
            StreamingList::Never => false,
        }
    }
}

impl Reflector {
    /// Begins a cycle: list, then watch.
    pub(super) fn begin_cycle(&mut self, now: Instant) {
        self.rejoin = None;
        self.cycle.began_at = Some(now);
        self.cycle.early_ends = 0;
        if let Some(reason) = self.cycle.reason {
            self.report(ReflectorEvent::Relisting { reason });
        }
        self.begin_list(now);
    }

    /// Asks for the whole state, in the way that this server allows.
    pub(super) fn begin_list(&mut self, now: Instant) {
        if self.cycle.may_stream(now) {
            self.ask_streaming_list(now)
        } else {
            self.ask_pages(now)
        }
    }

    /// Asks for the first page, or for everything.
    pub(super) fn ask_pages(&mut self, now: Instant) {
        let version = self.position.for_pages(self.config.first_list);
        // client-go: TestReflectorWatchListPageSize, TestReflectorNotPaginatingNotConsistentReads,
        // TestReflectorPaginatingNonConsistentReadsIfWatchCacheDisabled
        let is_cached = !version.is_unset() && !version.is_zero();
        let in_one_piece = std::mem::take(&mut self.cycle.unpaged_once);
        let limit = match self.config.page_size {
            _ if in_one_piece => None,
            Some(size) => (size > 0).then_some(size),
            None if is_cached && !self.cycle.pages_at_zero => None,
            None => Some(PAGE_SIZE),
        };
        self.pager = Pager::new(version, limit);
        self.ask_first_page(now);
    }

    /// Asks for the list anew, in one piece.
    pub(super) fn ask_unpaged(&mut self, now: Instant) {
        self.pager.restart_unpaged();
        self.ask_first_page(now);
    }

    fn ask_first_page(&mut self, now: Instant) {
        let selector = &self.config.shard_selector;
        self.cycle.shard_selector.clone_from(selector);
        self.ask_page(now);
    }

    fn ask_page(&mut self, now: Instant) {
        let (resource_version, limit, continue_token) = self.pager.request();
        let resource_version = resource_version.filter(|_| limit.is_none() || !mutant!("D7"));
        let options = ListOptions {
            limit,
            continue_token,
            resource_version,
            shard_selector: self.cycle.shard_selector.clone(),
            ..self.selected()
        };
        let ask = if self.pager.is_continuing() {
            Ask::NextPage
        } else {
            Ask::Page
        };
        self.ask(ask, now, |deadline| Request::List { options, deadline });
    }

    fn ask_streaming_list(&mut self, now: Instant) {
        let version = self.position.for_streaming(self.config.first_list);
        self.cycle.asked = version.clone();
        self.cycle.has_objects = false;
        let options = WatchOptions {
            resource_version: (!version.is_unset()).then_some(version),
            version_match: Some(VersionMatch::NotOlderThan),
            send_initial_events: Some(true),
            ..self.watch_options()
        };
        self.ask(Ask::StreamingList, now, |deadline| Request::Watch {
            options,
            deadline,
        });
    }

    /// List options that select what this reflector is about, and nothing more.
    pub fn selected(&self) -> ListOptions {
        ListOptions {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            shard_selector: self.config.shard_selector.clone(),
            ..ListOptions::default()
        }
    }

    pub(super) fn on_item(&mut self, item: Result<Object, Unreadable>, now: Instant) {
        match self.phase {
            Phase::Reading(Ask::Page | Ask::NextPage) => self.heard(now),
            Phase::Reading(Ask::Probe) => return self.on_rejoin_item(item, now),
            Phase::Reading(Ask::Confirm) => {
                self.close();
                return self.ask_pages_instead(FallbackReason::Empty, now);
            }
            _ => return,
        }
        self.pager.count_item();
        match item {
            Ok(object) => self.hand_on_item(Delta::Replaced(object)),
            Err(_) if mutant!("D11") => self.on_page_cut(Ask::Page, Ending::Clean, now),
            Err(object) => self.hand_on_item(quarantined(object, QuarantineOrigin::List)),
        }
        self.check_size(now);
    }

    pub(super) fn on_page_end(&mut self, version: ResourceVersion, token: &str, now: Instant) {
        let Phase::Reading(ask) = self.phase else {
            return;
        };
        self.heard(now);
        match ask {
            Ask::Probe => self.on_probe_answered(&version, now),
            Ask::Confirm => self.on_confirmed(version, token, now),
            Ask::Page | Ask::NextPage => self.on_turn(version, token, now),
            Ask::StreamingList | Ask::Watch => {}
        }
    }

    fn on_turn(&mut self, version: ResourceVersion, token: &str, now: Instant) {
        if !token.is_empty() && self.pager.asked().is_zero() {
            self.cycle.pages_at_zero = true;
        }
        match self.pager.end_page(version, token) {
            Turn::Next => self.ask_page(now),
            Turn::Broken(message) => {
                self.cycle.unpaged_once = true;
                let problem = Problem::garbled(Ask::Page.verb(), message.to_owned());
                self.abort_list();
                self.wait(Next::Cycle, problem, None, now);
            }
            Turn::Whole(version)
                if self.is_too_old_for_us(&self.pager.asked().clone(), &version) =>
            {
                self.ask_consistent(Ask::Page, behind(Ask::Page), None, now);
            }
            Turn::Whole(version) => {
                self.end_list(version, now);
                self.ask_watch(now);
            }
        }
    }

    /// A server that was asked for a state not older than ours and gave an older one: a lagging
    /// replica, or one that went back in time.
    fn is_too_old_for_us(&self, asked: &ResourceVersion, version: &ResourceVersion) -> bool {
        !asked.is_unset() && self.position.is_after_version(version) && !mutant!("B14")
    }

    /// Asks at once for the most recent state; if that is what was asked already, waits.
    pub(super) fn ask_consistent(
        &mut self,
        ask: Ask,
        problem: Problem,
        retry_after: Option<Duration>,
        now: Instant,
    ) {
        self.abort_list();
        if self.position.ask_consistent {
            return self.wait(Next::Cycle, problem, retry_after, now);
        }
        self.position.ask_consistent = !mutant!("B15");
        if ask == Ask::StreamingList {
            self.begin_list(now);
        } else {
            self.ask_pages(now);
        }
    }

    /// Gives the streaming list up for pages, for this cycle or for some time.
    pub(super) fn ask_pages_instead(&mut self, reason: FallbackReason, now: Instant) {
        self.abort_list();
        if mutant!("B16") {
            return self.begin_list(now);
        }
        let until = match reason {
            FallbackReason::Refused | FallbackReason::Failed => None,
            FallbackReason::NoProgress
            | FallbackReason::NoEnd
            | FallbackReason::Ignored
            | FallbackReason::Empty
            | FallbackReason::EndedEarly => Some(now + self.config.fallback_memory),
        };
        if let Some(until) = until {
            self.cycle.streaming = StreamingList::NotBefore(until);
        }
        self.report(ReflectorEvent::FellBack { reason, until });
        self.ask_pages(now);
    }

    /// An event of a streaming list, before its end bookmark.
    pub(super) fn on_initial_event(&mut self, event: Event, now: Instant) {
        match event {
            // client-go: TestWatchList (modify and delete before the bookmark applied)
            Event::Added(object) => {
                self.cycle.has_objects = true;
                self.hand_on_item(Delta::Replaced(object));
            }
            // Of an object that the stream has named already: it is no second item of that name.
            Event::Modified(object) => {
                self.cycle.has_objects = true;
                self.hand_on_item(Delta::Updated(object));
            }
            Event::Deleted(object) => self.hand_on_item(Delta::Deleted(object)),
            Event::Outside(outside) => self.on_initial_event_outside(outside),
            Event::Unreadable {
                kind: WatchEventKind::Bookmark,
                ..
            } => {
                self.steps.push_back(Step::CloseRequest);
                self.ask_pages_instead(FallbackReason::NoEnd, now);
            }
            Event::Unreadable { object, .. } => {
                self.cycle.has_objects = true;
                self.hand_on_item(quarantined(object, QuarantineOrigin::List));
            }
            Event::Bookmark {
                initial_events_end: false,
                ..
            } => {
                self.steps.push_back(Step::CloseRequest);
                self.ask_pages_instead(FallbackReason::Ignored, now);
            }
            Event::Bookmark {
                version,
                initial_events_end: true,
            } => {
                self.on_initial_events_end(version, now);
            }
            Event::Error(status) => {
                self.steps.push_back(Step::CloseRequest);
                let problem = problem_of_event(status.as_ref(), Ask::StreamingList.verb());
                let wait = status.and_then(|s| s.retry_after());
                let verdict = of_event(Ask::StreamingList, problem.kind);
                self.act(verdict, Ask::StreamingList, problem, wait, now);
            }
            Event::Foreign { .. } => {
                self.steps.push_back(Step::CloseRequest);
                self.ask_pages_instead(FallbackReason::Failed, now);
            }
        }
    }

    fn on_initial_events_end(&mut self, version: ResourceVersion, now: Instant) {
        let is_anchor = !version.is_unset() && !version.is_zero();
        if !is_anchor {
            self.steps.push_back(Step::CloseRequest);
            return self.ask_pages_instead(FallbackReason::NoEnd, now);
        }
        if self.is_too_old_for_us(&self.cycle.asked, &version) {
            self.steps.push_back(Step::CloseRequest);
            let problem = behind(Ask::StreamingList);
            return self.ask_consistent(Ask::StreamingList, problem, None, now);
        }
        if !self.cycle.has_objects && !mutant!("K14") {
            return self.confirm_empty(version, now);
        }
        self.end_list(version, now);
        self.begin_watch(now);
    }

    /// Asks a list whether there are objects, beside the stream.
    fn confirm_empty(&mut self, version: ResourceVersion, now: Instant) {
        self.abort_list();
        self.cycle.empty_at = version;
        self.cycle.is_beside = true;
        self.ask_confirmation(now);
    }

    /// Returns whether a list confirms an empty stream that is still open.
    pub(super) fn is_confirming_beside(&self) -> bool {
        let is_confirming = matches!(
            self.phase,
            Phase::Opening(Ask::Confirm) | Phase::Reading(Ask::Confirm)
        );
        is_confirming && self.cycle.is_beside
    }

    /// The stream said more in the piece that had its end bookmark. That is not kept: the watch that
    /// follows begins at the list's version.
    pub(super) fn confirm_alone(&mut self, now: Instant) {
        self.leave_stream();
        self.ask_confirmation(now);
    }

    /// Closes the stream beside the list that confirms it, and that list.
    pub(super) fn leave_stream(&mut self) {
        if std::mem::take(&mut self.cycle.is_beside) {
            self.steps.push_back(Step::CloseRequest);
        }
    }

    fn ask_confirmation(&mut self, now: Instant) {
        // The most recent state is never older than the stream's. Caches ignore the limit at others.
        let options = ListOptions {
            limit: Some(1),
            ..self.selected()
        };
        self.ask(Ask::Confirm, now, |deadline| Request::Probe {
            options,
            deadline,
        });
    }

    /// A list without an item, as the stream was; unless there is more of it, or it is an older one.
    fn on_confirmed(&mut self, version: ResourceVersion, token: &str, now: Instant) {
        let is_older = version.compare(&self.cycle.empty_at) == Ok(Ordering::Less);
        if is_older || !token.is_empty() {
            self.leave_stream();
            return self.ask_pages_instead(FallbackReason::Empty, now);
        }
        // The stream goes on from its own version.
        let is_usable = !version.is_unset() && !version.is_zero();
        if is_usable && !self.cycle.is_beside {
            self.cycle.empty_at = version;
        }
        self.believe_empty(now);
    }

    /// There is no object. The stream, if it is still open, is the watch.
    pub(super) fn believe_empty(&mut self, now: Instant) {
        let version = std::mem::take(&mut self.cycle.empty_at);
        self.end_list(version, now);
        if std::mem::take(&mut self.cycle.is_beside) {
            self.steps.push_back(Step::Resume);
            self.begin_watch(now);
        } else {
            self.ask_watch(now);
        }
    }

    /// The streaming list goes on as the watch.
    fn begin_watch(&mut self, now: Instant) {
        self.phase = Phase::Reading(Ask::Watch);
        self.clock.opened_at = now;
        self.on_watch_opened(now);
    }

    /// A streaming list without a byte, an event or its end, for too long.
    pub(super) fn on_streaming_list_late(&mut self, now: Instant) {
        let is_stalled =
            !self.clock.has_bytes || now.since(self.clock.heard_at) >= self.config.progress_limit;
        let reason = if is_stalled {
            FallbackReason::NoProgress
        } else {
            FallbackReason::NoEnd
        };
        self.steps.push_back(Step::CloseRequest);
        self.ask_pages_instead(reason, now);
    }

    /// A streaming list that ended before its end bookmark.
    pub(super) fn on_streaming_list_ended(&mut self, ending: Ending, now: Instant) {
        let had_items = self.cycle.is_open || self.cycle.has_objects;
        let lived = now.since(self.clock.opened_at);
        self.cycle.early_ends += 1;
        let message = match ending {
            Ending::Garbled { .. } => {
                self.steps.push_back(Step::CloseRequest);
                return self.ask_pages_instead(FallbackReason::Failed, now);
            }
            _ if !had_items && lived < super::watch::VERY_SHORT => {
                return self.ask_pages_instead(FallbackReason::Failed, now);
            }
            _ if self.cycle.early_ends >= MAX_EARLY_ENDS => {
                return self.ask_pages_instead(FallbackReason::EndedEarly, now);
            }
            Ending::Clean => "ended before its end bookmark".to_owned(),
            Ending::Cut { message } => message,
        };
        self.abort_list();
        let verb = Ask::StreamingList.verb();
        let problem = Problem {
            verb,
            kind: ProblemKind::Transport,
            code: None,
            message,
        };
        self.wait(Next::List, problem, None, now);
    }

    /// A page, or a probe, whose body broke off.
    pub(super) fn on_page_cut(&mut self, ask: Ask, ending: Ending, now: Instant) {
        let problem = match ending {
            Ending::Garbled { message } => {
                self.close();
                Problem::garbled(ask.verb(), message)
            }
            Ending::Clean => Failure::Transport {
                message: "body ended early".to_owned(),
            }
            .problem(ask.verb()),
            Ending::Cut { message } => Failure::Transport { message }.problem(ask.verb()),
        };
        self.leave_stream();
        self.abort_list();
        let next = match ask {
            Ask::Probe => Next::Reopen,
            Ask::Confirm => Next::List,
            _ => Next::Cycle,
        };
        self.wait(next, problem, None, now);
    }

    pub(super) fn hand_on_item(&mut self, delta: Delta) {
        if !self.cycle.is_open {
            self.cycle.is_open = true;
            self.cycle.size = Size::default();
            self.hand_on(Delta::ListBegin);
        }
        self.compare_with_silence(&delta);
        self.cycle.size.add(&delta);
        self.stats.items += 1;
        self.stats.quarantined += u64::from(matches!(delta, Delta::Quarantined(_)));
        self.hand_on(delta);
    }

    /// The list is whole.
    fn end_list(&mut self, version: ResourceVersion, now: Instant) {
        if !self.cycle.is_open {
            self.hand_on(Delta::ListBegin);
        }
        self.cycle.is_open = false;
        let relist = self.cycle.reason.take();
        // It may have written so much since it was found out that its version is ahead again.
        let mut has_gone_back = relist == Some(RelistReason::ServerWentBack);
        if let Some(from) = self.position.anchor(&version) {
            has_gone_back = true;
            self.stats.epochs += 1;
            let to = version.clone();
            self.report(ReflectorEvent::EpochChanged { from, to });
        }
        if has_gone_back {
            self.hand_on(Delta::WentBack);
        } else if relist == Some(RelistReason::WentBackElsewhere) {
            self.hand_on(Delta::Doubted);
        }
        self.hand_on(Delta::ListEnd {
            version: version.as_str().to_owned(),
        });
        self.stats.lists += 1;
        self.stats.relists += u64::from(self.has_synced);
        self.has_synced = true;
        self.habits.forget_version();
        self.silence.forget_version();
        self.report(ReflectorEvent::Listed { version, relist });
        self.enter(State::Synced {
            version: self.position.version_or_unset(),
        });
        self.heard(now);
    }

    /// Nothing of the list under way counts.
    pub(super) fn abort_list(&mut self) {
        if std::mem::take(&mut self.cycle.is_open) {
            self.stats.aborted_lists += 1;
            self.hand_on(Delta::ListAbort);
            self.report(ReflectorEvent::Aborted);
        }
    }
}

/// An object that cannot be read, as a delta.
pub(super) fn quarantined(object: Unreadable, origin: QuarantineOrigin) -> Delta {
    Delta::Quarantined(Quarantine {
        key: object.key,
        version: object.resource_version,
        path: object.path,
        reason: object.reason,
        origin,
    })
}

fn behind(ask: Ask) -> Problem {
    let message = "the server gave an older state than asked for".to_owned();
    Problem {
        verb: ask.verb(),
        kind: ProblemKind::TooLarge,
        code: None,
        message,
    }
}
