//! The news that a server went back in time, from the cache that found it to the others of that server.
//!
//! ```text
//! list with a lower version ─▶ Heard::pass_on ─▶ the other pipelines: Input::WentBackElsewhere
//! ```
//!
//! A cache that was cut off while a server was restored asks to go on from its version. Once the new
//! history has reached that version the server does, and nothing tells that it is another history. The
//! caches that came back earlier know.
//! A cache of a program's own client or source neither tells nor hears: that may be another server. A
//! server behind the API server, with versions of its own, may go back alone. Then a cache lists again, at
//! most once in ten minutes, if its watch is younger than two. Not covered: a cache that notices the end
//! of its old watch after the news.
//!
//! Upstream counterpart: none.

use kinform_api::mutant;
use kinform_core::reflector::report::{ReflectorEvent, RelistReason};
use kinform_core::time::Instant;
use tokio::sync::watch;

/// The line between the caches of one server.
#[derive(Clone, Debug)]
pub(crate) struct Rewinds(watch::Sender<Instant>);

impl Default for Rewinds {
    fn default() -> Self {
        Self(watch::Sender::new(Instant::from_millis(0)))
    }
}

impl Rewinds {
    /// The news from now on.
    pub(super) fn listen(&self) -> Heard {
        Heard {
            news: self.0.subscribe(),
            relisting: None,
        }
    }
}

/// The news as one cache hears it.
#[derive(Debug)]
pub(super) struct Heard {
    news: watch::Receiver<Instant>,
    /// Why this cache lists again.
    relisting: Option<RelistReason>,
}

impl Heard {
    /// Waits until another cache finds that the server went back; returns when it did.
    ///
    /// Cancel safety: nothing is lost.
    pub(super) async fn next(&mut self) -> Instant {
        if self.news.changed().await.is_err() {
            // Nobody is left to tell.
            return std::future::pending().await;
        }
        // What a list under way finds is known.
        self.relisting = self.relisting.map(|_| RelistReason::WentBackElsewhere);
        *self.news.borrow_and_update()
    }

    /// Tells the other caches that the server went back if this event of the own cache says so, and none
    /// of them has told it.
    pub(super) fn pass_on(&mut self, event: &ReflectorEvent, (to, now): (&Rewinds, Instant)) {
        if self.is_news(event) && !mutant!("K26") {
            to.0.send_replace(now);
            self.news.mark_unchanged();
        }
    }

    fn is_news(&mut self, event: &ReflectorEvent) -> bool {
        match event {
            ReflectorEvent::Relisting { reason } => {
                let before = self.relisting.replace(*reason);
                // A list that fails is asked for again for the same reason.
                *reason == RelistReason::ServerWentBack && before != Some(*reason)
            }
            ReflectorEvent::EpochChanged { .. } => {
                let known = [
                    RelistReason::ServerWentBack,
                    RelistReason::WentBackElsewhere,
                ];
                !self.relisting.is_some_and(|reason| known.contains(&reason))
            }
            ReflectorEvent::Listed { .. } => {
                self.relisting = None;
                false
            }
            _ => false,
        }
    }
}
