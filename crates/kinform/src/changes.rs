//! Changes as a stream: replay, then live.
//!
//! ```text
//! ring → Delivery → Changes<K>: Added (initial)… Synced, Added | Updated | Deleted …
//! ```
//!
//! The same contract as a handler's, pulled instead of pushed: a stream has no task, and what is not
//! polled costs nothing but its place. One that falls behind gets the difference from what it heard.
//! It ends when the informer has ended and everything was heard.
//!
//! Upstream counterpart: none; `client-go:tools/watch/informerwatcher.go` comes near.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use futures::future::select_all;
use futures::stream::{self, BoxStream, StreamExt};
use kinform_core::informer::delivery::Next;

use crate::handler::Notification;
use crate::informer::{Core, Cores, ListenerShared, Seat};
use crate::object::Lens;

/// The changes of one informer. Dropping it ends it.
pub struct Changes<K>(BoxStream<'static, Notification<K>>);

struct Cursor<K> {
    seats: Vec<Seat>,
    // BOUND: what one piece of a delivery holds.
    ready: VecDeque<Notification<K>>,
    lens: Arc<Lens>,
    shared: Arc<ListenerShared>,
}

impl<K> Changes<K> {
    pub(crate) fn new(cores: &Cores, lens: &Arc<Lens>) -> Self
    where
        K: 'static,
    {
        let shared = ListenerShared::new("stream".to_owned());
        cores.iter().for_each(|core| core.add_listener(&shared));
        let cursor = Cursor {
            seats: cores.iter().map(Core::seat).collect(),
            ready: VecDeque::new(),
            lens: Arc::clone(lens),
            shared,
        };
        Self(
            stream::unfold(cursor, |mut cursor| async move {
                let notification = cursor.next().await?;
                Some((notification, cursor))
            })
            .boxed(),
        )
    }
}

impl<K> Cursor<K> {
    async fn next(&mut self) -> Option<Notification<K>> {
        loop {
            if let Some(notification) = self.ready.pop_front() {
                return Some(notification);
            }
            // Before looking: what is published from here on wakes us.
            let news = self
                .seats
                .iter_mut()
                .map(|seat| seat.progress.borrow_and_update().ended);
            let ended = news.fold(true, |all, ended| all & ended);
            if self.refill() {
                continue;
            }
            if ended {
                return None;
            }
            let news = self
                .seats
                .iter_mut()
                .map(|seat| Box::pin(seat.progress.changed()));
            // The senders live as long as the cores that the cursor holds.
            let _ = select_all(news).await;
        }
    }

    /// Takes one piece from each seat; whether there was something.
    fn refill(&mut self) -> bool {
        for at in 0..self.seats.len() {
            match self.seats[at].delivery.next() {
                Next::Changes(changes) => {
                    self.seats[at].core.telemetry.notified(changes.len() as u64);
                    let told = changes
                        .iter()
                        .map(|change| Notification::of(change, &self.lens));
                    self.ready.extend(told);
                }
                Next::Synced => {
                    if self.seats.iter().all(|seat| seat.delivery.has_synced()) {
                        self.ready.push_back(Notification::Synced);
                    }
                }
                Next::Idle => {}
            }
        }
        let waiting = self.seats.iter().map(|seat| seat.delivery.waiting());
        self.shared.set_lag(waiting.sum());
        !self.ready.is_empty()
    }
}

impl<K> Stream for Changes<K> {
    type Item = Notification<K>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}

impl<K> fmt::Debug for Changes<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Changes")
    }
}
