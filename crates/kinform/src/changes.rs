//! Changes as a stream: replay, then live.
//!
//! ```text
//! ring → Delivery → Changes<K>: Added (initial)… Synced, Added | Updated | Deleted …
//! ```
//!
//! The same contract as a handler's, pulled instead of pushed: a stream has no task, and an
//! unpolled stream costs only its position. A stream that falls behind receives a diff from its
//! last state. It ends when the informer has ended and every change was received.
//!
//! Upstream counterpart: none; `client-go:tools/watch/informerwatcher.go` comes near.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use futures::stream::{self, BoxStream, StreamExt};

use crate::error::Error;
use crate::handler::Notification;
use crate::informer::{Cores, Informer, ListenerState, Piece, Subscription};
use crate::object::Lens;

/// The changes of one informer. Dropping the stream ends it.
pub struct Changes<K>(BoxStream<'static, Notification<K>>);

struct Cursor<K> {
    subscription: Subscription,
    // BOUND: one piece of a delivery.
    ready: VecDeque<Notification<K>>,
    lens: Arc<Lens>,
    state: Arc<ListenerState>,
}

impl<K> Changes<K> {
    fn new(cores: &Cores, lens: &Arc<Lens>) -> Self
    where
        K: 'static,
    {
        let state = ListenerState::new("stream".to_owned());
        let cursor = Cursor {
            subscription: Subscription::new(cores, Arc::clone(&state), None),
            ready: VecDeque::new(),
            lens: Arc::clone(lens),
            state,
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

impl<K: 'static> Informer<K> {
    /// Changes as a stream: first everything stored, then every change, with no gap and no repeat.
    /// A stream that falls behind receives a diff instead of the changes that it missed. Dropping
    /// it ends it.
    ///
    /// # Errors
    /// The informer is stopped.
    pub fn changes(&self) -> Result<Changes<K>, Error> {
        self.cores().running()?;
        Ok(Changes::new(self.cores(), self.lens()))
    }
}

impl<K> Cursor<K> {
    async fn next(&mut self) -> Option<Notification<K>> {
        loop {
            if let Some(notification) = self.ready.pop_front() {
                return Some(notification);
            }
            // Before the next look: a publication from here on wakes this task.
            let is_over = self.subscription.look();
            match self.subscription.next() {
                Some(Piece::Changes(core, changes)) => {
                    core.reporter.telemetry.notified(changes.len() as u64);
                    let told = changes
                        .iter()
                        .map(|change| Notification::of(change, &self.lens));
                    self.ready.extend(told);
                }
                Some(Piece::Synced) => self.ready.push_back(Notification::Synced),
                None if is_over => return None,
                None => self.subscription.wait().await,
            }
            self.state.measure(self.subscription.times_behind());
        }
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
