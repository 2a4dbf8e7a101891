//! The requests: for the place that is shown, one at a time.
//!
//! ```text
//! place, time ─▶ Poll ─▶ request under way ─▶ Arrived: the place, and its reply, a sign of life or a trouble
//! ```
//!
//! A view that is read once is followed by requests for a sign of life: the end of the program is
//! noticed there as in the others.
//!
//! INVARIANT: at most one request is under way; a place that was left has none.
//! BOUND: two requests a second for a place, ten where the place changes.
//!
//! Upstream counterpart: none.

use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kinform_operator::inspect::{Head, Manager};

use super::place::{Form, Place};
use super::reply::Reply;
use crate::attach::{Attach, Trouble};

/// The least time between two requests.
const LEAST: Duration = Duration::from_millis(100);
/// The time after which the screen says that a reply takes long.
const LONG: Duration = Duration::from_secs(2);
/// The time after which a request that failed is made again.
const AGAIN: Duration = Duration::from_millis(500);
/// The time between two requests while a view is shown that is read once.
const SIGN: Duration = Duration::from_secs(1);

/// The result of a request, and the place that was shown.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) place: Place,
    /// `Ok(None)` is a sign of life: the program answered, and the view was not read.
    pub(super) result: Result<Option<Reply>, Trouble>,
}

/// The object of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    View,
    /// The program answers.
    Sign,
}

/// A request that was not answered yet.
struct UnderWay<'a> {
    place: Place,
    aim: Aim,
    reply: BoxFuture<'a, Result<Option<Reply>, Trouble>>,
}

/// The last place that was asked for, and the next request for it.
struct Asked {
    place: Place,
    due: Instant,
    next: Aim,
}

/// The requests.
pub(super) struct Poll<'a> {
    attach: &'a Attach,
    under_way: Option<UnderWay<'a>>,
    started: Option<Instant>,
    asked: Option<Asked>,
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
        // The view does not wait for a sign of life.
        self.under_way.take_if(|request| request.aim == Aim::Sign);
    }

    /// Begins a request if one is due.
    pub(super) fn begin(&mut self, place: &Place, known: Option<Vec<Manager>>, now: Instant) {
        let is_other = |request: &UnderWay<'_>| !has_same_reply(&request.place, place);
        if self.under_way.as_ref().is_some_and(is_other) {
            (self.under_way, self.asked) = (None, None);
        }
        let aim = match &self.asked {
            Some(asked) if has_same_reply(&asked.place, place) => {
                (now >= asked.due).then_some(asked.next)
            }
            _ => Some(Aim::View),
        };
        let is_soon = self
            .started
            .is_some_and(|at| now.duration_since(at) < LEAST);
        let Some(aim) = aim.filter(|_| self.under_way.is_none() && !is_soon) else {
            return;
        };
        let (attach, of) = (self.attach, place.clone());
        let reply = match aim {
            Aim::View => async move { Reply::ask(attach, &of, known).await.map(Some) }.boxed(),
            // The view that every program has, and that takes no walk.
            Aim::Sign => {
                async move { attach.ask::<Head>("pipeline", &[]).await.map(|_| None) }.boxed()
            }
        };
        let (period, next) = match place.period() {
            Some(period) => (period, Aim::View),
            None => (SIGN, Aim::Sign),
        };
        self.started = Some(now);
        self.asked = Some(Asked {
            place: place.clone(),
            due: now + period,
            next,
        });
        self.under_way = Some(UnderWay {
            place: place.clone(),
            aim,
            reply,
        });
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
        let Some(UnderWay { place, aim, reply }) = &mut self.under_way else {
            return std::future::pending().await;
        };
        let result = reply.await;
        let (place, next) = (place.clone(), *aim);
        self.under_way = None;
        if result.is_err() {
            self.asked = Some(Asked {
                place: place.clone(),
                due: Instant::now() + AGAIN,
                next,
            });
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
            matches!(arrived.result, Ok(Some(Reply::Pipeline(_)))),
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
        serving.abort();
    }

    #[tokio::test]
    async fn a_view_that_is_read_once_is_followed_by_signs_of_life() {
        let (attach, serving) = served().await;
        let (mut poll, start) = (Poll::new(&attach), Instant::now());
        let after = |ms: u64| start + Duration::from_millis(ms);
        let aim = |poll: &Poll<'_>| poll.under_way.as_ref().map(|request| request.aim);
        for place in [Place::objects(None), Place::Memory { cache: None }] {
            poll.again();
            poll.begin(&place, None, start);
            assert_eq!(aim(&poll), Some(Aim::View));
            assert!(poll.arrived().await.result.unwrap().is_some());
            poll.begin(&place, None, after(900));
            assert_eq!(aim(&poll), None);
            for ms in [1_000, 2_000, 60_000] {
                poll.begin(&place, None, after(ms));
                assert_eq!(aim(&poll), Some(Aim::Sign), "the walk is made once");
                assert_eq!(poll.arrived().await.result, Ok(None));
            }
            // The key for a new walk does not wait for a sign.
            poll.begin(&place, None, after(70_000));
            poll.again();
            poll.begin(&place, None, after(70_100));
            assert_eq!(aim(&poll), Some(Aim::View));
            assert!(poll.arrived().await.result.unwrap().is_some());
            poll.started = None;
        }
        // A program that is gone is asked for a sign again soon, not for another walk.
        let place = Place::objects(None);
        poll.begin(&place, None, start);
        assert!(poll.arrived().await.result.is_ok());
        serving.abort();
        assert!(serving.await.unwrap_err().is_cancelled());
        poll.begin(&place, None, after(1_000));
        let arrived = poll.arrived().await;
        assert!(
            matches!(arrived.result, Err(Trouble::Gone(_))),
            "{arrived:?}"
        );
        poll.begin(&place, None, after(60_000));
        assert_eq!(aim(&poll), Some(Aim::Sign));
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
        let reply = arrived.result.unwrap().unwrap();
        assert_eq!(reply.managers(), Some(Vec::new()));
        serving.abort();
    }
}
