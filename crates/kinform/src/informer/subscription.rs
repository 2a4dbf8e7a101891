//! The positions of one listener: a cursor in the stream of each watch of its informer.
//!
//! ```text
//! members of the informer ─follow─▶ cursors ─next─▶ Piece::Changes | Piece::Synced
//! ```
//!
//! Handlers and streams of changes fetch their next notification here. A namespace that is added
//! gets a cursor of its own: its objects are initial adds. One that is removed is drained: each of
//! its objects that was reported is reported as deleted, before anything else comes, so that a
//! namespace that comes back begins anew. `Synced` comes once, when every present cursor has
//! reported its initial objects.
//!
//! Upstream counterpart: `client-go:tools/cache/shared_informer.go` (`processorListener`,
//! `handlerRegistration`).

use std::sync::Arc;
use std::time::Duration;

use futures::future::select_all;
use kinform_api::mutant;
use kinform_core::informer::delivery::{Changes, Next};

use super::cursor::Stopwatch;
use super::registration::{ListenerState, Place};
use super::{Command, Core, Cores, Cursor};
use crate::sync::watch;

pub(crate) struct Subscription {
    cores: Cores,
    state: Arc<ListenerState>,
    resync: Option<Duration>,
    cursors: Vec<NamespaceCursor>,
    // Members up to this one have, or had, a cursor.
    seen: u64,
    changed: watch::Receiver<u64>,
    // The cursor whose turn it is, so that no namespace starves another.
    turn: usize,
    is_synced: bool,
}

struct NamespaceCursor {
    member: u64,
    cursor: Cursor,
    place: Arc<Place>,
    stopwatch: Stopwatch,
    is_leaving: bool,
}

/// The next notification of a listener.
pub(crate) enum Piece {
    Changes(Arc<Core>, Changes),
    /// All initial objects were reported. Once.
    Synced,
}

impl Subscription {
    /// A cursor in each watch of the informer, now and later.
    pub(crate) fn new(cores: &Cores, state: Arc<ListenerState>, resync: Option<Duration>) -> Self {
        let mut subscription = Self {
            cores: cores.clone(),
            state,
            resync,
            cursors: Vec::new(),
            seen: 0,
            changed: cores.changed(),
            turn: 0,
            is_synced: false,
        };
        subscription.follow();
        subscription
    }

    /// Marks everything published until now as known: a later publication wakes
    /// [`wait`](Self::wait). Returns whether no more will be published.
    pub(crate) fn look(&mut self) -> bool {
        if self.changed.has_changed().unwrap_or(false) {
            self.changed.borrow_and_update();
            self.follow();
        }
        let mut is_over = true;
        let mut stays = false;
        for position in &mut self.cursors {
            let ended = position.cursor.progress.borrow_and_update().ended;
            if !position.is_leaving {
                stays = true;
                is_over &= ended;
            }
        }
        if stays {
            is_over
        } else {
            self.cores.stop_token().is_cancelled()
        }
    }

    /// The next piece. The call acknowledges all earlier pieces.
    pub(crate) fn next(&mut self) -> Option<Piece> {
        self.measure();
        let piece = self.take();
        for position in &self.cursors {
            position.place.reach(position.cursor.delivery.position());
        }
        piece
    }

    /// Measures the time that the pieces handed out before took, from their publication on. Those of
    /// a first list are left out.
    fn measure(&mut self) {
        for position in &mut self.cursors {
            let last = position.cursor.progress.borrow().stamp;
            if !position.cursor.delivery.has_synced() {
                position.stopwatch = Stopwatch::after(last);
                continue;
            }
            let handled = position.place.position();
            if let Some(published) = position.stopwatch.handled(handled, last) {
                let now = position.cursor.core.env.now();
                self.state.took(now.since(published));
            }
        }
    }

    fn take(&mut self) -> Option<Piece> {
        while let Some(at) = self.cursors.iter().position(|position| position.is_leaving) {
            match self.cursors[at].cursor.delivery.next() {
                Next::Changes(changes) => {
                    return Some(Piece::Changes(self.core(at), changes));
                }
                Next::Synced => {}
                Next::Idle => {
                    let left = self.cursors.remove(at);
                    left.cursor.core.remove_listener(&self.state);
                    self.state.remove_place(&left.place);
                }
            }
        }
        for _ in 0..self.cursors.len() {
            let at = self.turn % self.cursors.len();
            self.turn = at + 1;
            loop {
                match self.cursors[at].cursor.delivery.next() {
                    Next::Changes(changes) => return Some(Piece::Changes(self.core(at), changes)),
                    Next::Synced if self.becomes_synced() => return Some(Piece::Synced),
                    // A publication in the meantime wakes no waiter any more: ask again.
                    Next::Synced => {}
                    Next::Idle => break,
                }
            }
        }
        // The awaited namespace may have left.
        self.becomes_synced().then_some(Piece::Synced)
    }

    fn becomes_synced(&mut self) -> bool {
        let mut cursors = self.cursors.iter();
        let becomes =
            !self.is_synced && cursors.all(|position| position.cursor.delivery.has_synced());
        self.is_synced |= becomes;
        becomes
    }

    /// The number of times the listener fell behind.
    pub(crate) fn times_behind(&self) -> u64 {
        let cursors = self.cursors.iter();
        cursors
            .map(|position| position.cursor.delivery.times_behind())
            .sum()
    }

    /// Waits until there is news since the last look.
    ///
    /// Cancel safety: nothing is lost.
    pub(crate) async fn wait(&mut self) {
        if mutant!("D1") && self.is_synced {
            std::future::pending::<()>().await;
        }
        let Self {
            cursors,
            changed,
            cores,
            ..
        } = self;
        let is_empty = cursors.is_empty();
        let news = cursors.iter_mut();
        let news: Vec<_> = news
            .map(|position| Box::pin(position.cursor.progress.changed()))
            .collect();
        let news = async {
            if news.is_empty() {
                std::future::pending::<()>().await;
            }
            drop(select_all(news).await);
        };
        tokio::select! {
            biased;
            () = cores.stop_token().cancelled(), if is_empty => {}
            // The sender lives as long as the group that is held here.
            _ = changed.changed() => {
                changed.mark_changed();
            }
            () = news => {}
        }
    }

    /// A core that can report; `None` if all namespaces were removed.
    pub(crate) fn any_core(&self) -> Option<&Core> {
        self.cursors.first().map(|position| &*position.cursor.core)
    }

    fn follow(&mut self) {
        let members = self.cores.members();
        for position in &mut self.cursors {
            let stays = members.iter().any(|member| member.id == position.member);
            if !stays && !position.is_leaving && !mutant!("K7") {
                position.is_leaving = true;
                position.cursor.delivery.leave();
            }
        }
        for member in members.iter().filter(|member| member.id > self.seen) {
            let cursor = member.core.cursor();
            member.core.add_listener(&self.state);
            if let Some(period) = self.resync {
                let command = Command::Resync(cursor.delivery.id(), period);
                // A loop that is gone has no resyncs.
                let _ = member.core.commands.send(command);
            }
            let (reader, position) = (member.core.reader.clone(), cursor.delivery.position());
            self.cursors.push(NamespaceCursor {
                member: member.id,
                cursor,
                stopwatch: Stopwatch::default(),
                place: self.state.add_place(reader, position),
                is_leaving: false,
            });
        }
        self.seen = members.iter().map(|m| m.id).fold(self.seen, u64::max);
    }

    fn core(&self, at: usize) -> Arc<Core> {
        Arc::clone(&self.cursors[at].cursor.core)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.state.remove_places();
    }
}
