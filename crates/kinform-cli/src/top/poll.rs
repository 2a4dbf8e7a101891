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
/// The time after which the screen says that a reply takes long.
const LONG: Duration = Duration::from_secs(2);
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
        let is_other = |(asked, _): &(Place, _)| !has_same_reply(asked, place);
        if self.under_way.as_ref().is_some_and(is_other) {
            (self.under_way, self.asked) = (None, None);
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

    /// Words for the head line about a reply that takes long.
    pub(super) fn words(&self, now: Instant) -> Option<String> {
        self.under_way.as_ref()?;
        let since = now.duration_since(self.started?);
        (since >= LONG).then(|| format!("no reply for {} s", since.as_secs()))
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// An address whose every reply is an empty view.
    async fn served() -> (Attach, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let attach = Attach::parse(&listener.local_addr().unwrap().to_string()).unwrap();
        let serving = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = [0; 4096];
                let _ = stream.read(&mut head).await;
                let reply = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"version\":\"v1\"}";
                let _ = stream.write_all(reply.as_bytes()).await;
            }
        });
        (attach, serving)
    }

    #[tokio::test]
    async fn one_request_is_under_way_and_the_next_one_waits_for_its_time() {
        let (attach, serving) = served().await;
        let (mut poll, start) = (Poll::new(&attach), Instant::now());
        let after = |ms: u64| start + Duration::from_millis(ms);
        let is_under_way = |poll: &Poll<'_>| poll.under_way.is_some();
        poll.begin(&Place::Pipeline, None, start);
        poll.begin(&Place::Pipeline, None, after(9_000));
        assert_eq!(poll.started, Some(start), "the first one goes on");
        assert_eq!(poll.words(after(1_000)), None);
        assert_eq!(poll.words(after(3_000)).unwrap(), "no reply for 3 s");
        let arrived = poll.arrived().await;
        assert!(
            matches!(arrived.result, Ok(Reply::Pipeline(_))),
            "{arrived:?}"
        );
        assert_eq!(poll.words(after(3_000)), None);
        poll.begin(&Place::Pipeline, None, after(400));
        assert!(!is_under_way(&poll));
        poll.begin(&Place::Pipeline, None, after(500));
        assert!(is_under_way(&poll));

        // Another place does not wait for the reply, but it is not asked for at every key.
        let objects = Place::objects(None);
        poll.begin(&objects, None, after(520));
        assert!(!is_under_way(&poll), "the old request is given up");
        poll.begin(&objects, None, after(600));
        assert!(is_under_way(&poll));
        assert_eq!(poll.arrived().await.place, objects);
        poll.begin(&objects, None, after(60_000));
        assert!(!is_under_way(&poll), "a walk is made once");
        poll.again();
        poll.begin(&objects, None, after(60_000));
        assert!(is_under_way(&poll));
        serving.abort();
    }

    #[tokio::test]
    async fn the_forms_of_an_object_share_a_reply_but_for_its_managers() {
        let (attach, serving) = served().await;
        let mut poll = Poll::new(&attach);
        let start = Instant::now();
        let of = |form| match Place::object("pods", None, "a") {
            Place::Object { object, .. } => Place::Object { object, form },
            other => other,
        };
        poll.begin(&of(Form::Facts), None, start);
        let _ = poll.arrived().await;
        poll.begin(&of(Form::Facts), None, start + Duration::from_secs(2));
        let soon = start + Duration::from_secs(3);
        poll.begin(&of(Form::Yaml), None, soon);
        assert!(poll.under_way.is_some(), "the request goes on");
        let _ = poll.arrived().await;
        poll.begin(&of(Form::Yaml), None, soon);
        assert!(poll.under_way.is_none());
        poll.begin(&of(Form::Managers), None, soon);
        let arrived = poll.arrived().await;
        // They could not be read, which is not tried again and again.
        assert_eq!(arrived.result.unwrap().managers(), Some(Vec::new()));
        serving.abort();
    }
}
