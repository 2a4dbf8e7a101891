//! The requests: for the place that is shown, one at a time.
//!
//! ```text
//! place, time ─▶ Poll ─▶ request under way ─▶ Arrived: the place, and its reply or a trouble
//! ```
//!
//! INVARIANT: at most one request is under way; a place that was left has none.
//! BOUND: two requests a second for a place, ten where the place changes.
//!
//! Upstream counterpart: none.

use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kinform_operator::inspect::Manager;

use super::place::{Form, Place};
use super::reply::Reply;
use crate::attach::{Attach, Trouble};

/// The least time between two requests.
const LEAST: Duration = Duration::from_millis(100);
/// The time after which a request that failed is made again.
const AGAIN: Duration = Duration::from_millis(500);

/// A reply or a trouble, and the place that it is for.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) place: Place,
    pub(super) result: Result<Reply, Trouble>,
}

/// The requests.
pub(super) struct Poll<'a> {
    attach: &'a Attach,
    under_way: Option<(Place, BoxFuture<'a, Result<Reply, Trouble>>)>,
    started: Option<Instant>,
    /// The last place that was asked for, and when the next request for it is due.
    asked: Option<(Place, Option<Instant>)>,
}

impl<'a> Poll<'a> {
    pub(super) fn new(attach: &'a Attach) -> Self {
        Self {
            attach,
            under_way: None,
            started: None,
            asked: None,
        }
    }

    /// Asks again for a place, even if its reply is not due.
    pub(super) fn again(&mut self) {
        self.asked = None;
    }

    /// Begins a request if one is due.
    pub(super) fn begin(&mut self, place: &Place, known: Option<Vec<Manager>>, now: Instant) {
        if self
            .under_way
            .as_ref()
            .is_some_and(|(asked, _)| asked != place)
        {
            self.under_way = None;
        }
        let is_due = match &self.asked {
            Some((asked, due)) if has_same_reply(asked, place) => due.is_some_and(|due| now >= due),
            _ => true,
        };
        let is_soon = self
            .started
            .is_some_and(|at| now.duration_since(at) < LEAST);
        if self.under_way.is_some() || !is_due || is_soon {
            return;
        }
        let (attach, asked) = (self.attach, place.clone());
        let request = async move { Reply::ask(attach, &asked, known).await };
        self.started = Some(now);
        self.asked = Some((place.clone(), place.period().map(|period| now + period)));
        self.under_way = Some((place.clone(), request.boxed()));
    }

    /// Waits for the reply; forever if no request is under way.
    ///
    /// # Cancel safety
    /// The request goes on.
    pub(super) async fn arrived(&mut self) -> Arrived {
        let Some((place, request)) = &mut self.under_way else {
            return std::future::pending().await;
        };
        let result = request.await;
        let place = place.clone();
        self.under_way = None;
        if result.is_err() {
            let again = Some(Instant::now() + AGAIN);
            self.asked = Some((place.clone(), again));
        }
        Arrived { place, result }
    }
}

/// Returns whether what was asked for one place is all that the other one needs.
fn has_same_reply(asked: &Place, place: &Place) -> bool {
    let is_for_managers = |place: &Place| {
        matches!(
            place,
            Place::Object {
                form: Form::Managers,
                ..
            }
        )
    };
    asked.has_reply_of(place) && (is_for_managers(asked) || !is_for_managers(place))
}
