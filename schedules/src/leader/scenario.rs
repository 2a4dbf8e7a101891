//! Requests while terms are won, renewed, lost and run out.
//!
//! ```text
//! driver: begin, extend, end │ time passes, timers late ──▶ Guarded ──▶ sends, or NotLeading
//! ```

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use http::{Request, Response};
use kinform_core::election::{EndReason, Term};
use kinform_core::time::Instant;
use shuttle::future;
use tower::{Service, service_fn};

use super::Guarded;
use super::clock::Clock;
use super::not_leading::is_not_leading;
use super::shared::{Ended, Shared};
use crate::scenarios::draw;
use crate::time;

/// Terms of the election.
const TERMS: u64 = 3;
/// The length of a term, in milliseconds.
const LENGTH: u64 = 100;
/// The steps of a request that never ends.
const ENDLESS: usize = usize::MAX;

/// The state of the world: the number of the term that runs, as its driver and the clock have it.
#[derive(Clone, Default)]
struct Truth(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    number: u64,
    /// The end of the running term; `None` if none runs.
    ends_at: Option<Instant>,
}

impl Truth {
    fn set(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.0.lock().expect("no holder panics"));
    }

    /// The term that runs, by the driver and the clock.
    fn running(&self) -> Option<u64> {
        let known = self.0.lock().expect("no holder panics");
        let ends_at = known.ends_at?;
        (time::now() < ends_at).then_some(known.number)
    }
}

/// Requests, a task that follows the terms, and a driver; no time passes, so that nothing but its
/// messages ends a term.
///
/// # Panics
/// A request made progress though its term was over before, or was left waiting after it.
pub fn requests_by_messages() {
    run(false);
}

/// The same while time passes: terms run out before their driver says so, and timers are late.
///
/// # Panics
/// As [`requests_by_messages`].
pub fn requests_by_the_clock() {
    run(true);
}

fn run(with_time: bool) {
    time::reset();
    future::block_on(async move {
        let shared = Arc::new(Shared::new("n/lease".into(), "me".into(), Clock));
        let truth = Truth::default();
        let requests = (0..3).map(|number| {
            let (shared, truth) = (Arc::clone(&shared), truth.clone());
            future::spawn(async move {
                // One of them has no end of its own: only the loss of its term ends it.
                let steps = if number == 0 { ENDLESS } else { 1 + number };
                for _ in 0..2 {
                    if shared.won().await.is_err() {
                        break;
                    }
                    request(&shared, &truth, steps).await;
                    future::yield_now().await;
                }
            })
        });
        let mut tasks: Vec<_> = requests.collect();
        tasks.push(future::spawn(follow(Arc::clone(&shared))));
        if with_time {
            tasks.push(future::spawn(pass()));
        }
        drive(&shared, &truth).await;
        for task in tasks {
            task.await.expect("the task ended well");
        }
    });
}

/// Time passes, and timers are late; not for ever: the driver ends what is left.
async fn pass() {
    for _ in 0..2 * TERMS {
        time::pass(time::now() + Duration::from_millis(LENGTH * 2 / 3));
        for _ in 0..draw(4) {
            future::yield_now().await;
        }
        time::fire();
        future::yield_now().await;
    }
}

fn term(number: u64, ends_at: Instant) -> Term {
    Term {
        uid: "u".to_owned(),
        transitions: i32::try_from(number).expect("there are few terms"),
        version: number.into(),
        ends_at,
    }
}

/// The role of the election's thread.
async fn drive(shared: &Shared, truth: &Truth) {
    for number in 1..=TERMS {
        let now = time::now();
        let ends_at = now + Duration::from_millis(LENGTH);
        truth.set(|known| {
            known.number = number;
            known.ends_at = Some(ends_at);
        });
        shared.begin(term(number, ends_at));
        future::yield_now().await;
        if draw(2) == 0 {
            // An answer that comes in time: later, the term may have run out already.
            let later = ends_at + Duration::from_millis(LENGTH / 2);
            let is_in_time = truth.running().is_some();
            if is_in_time {
                truth.set(|known| known.ends_at = Some(later));
                shared.extend(later);
            }
            future::yield_now().await;
        }
        // The message first, then the loss counts: a request may pass until its message is out.
        // The last term may end with the election, by one message.
        if number == TERMS && draw(2) == 0 {
            shared.finish(Ended::Stopped);
        } else {
            shared.end(term(number, ends_at), EndReason::Expired);
        }
        truth.set(|known| known.ends_at = None);
        future::yield_now().await;
    }
    shared.finish(Ended::Stopped);
}

/// Follows the terms to their ends.
async fn follow(shared: Arc<Shared>) {
    let mut last = 0;
    loop {
        match shared.won().await {
            Ok(term) => {
                assert!(last <= term.transitions, "an older term was won");
                last = term.transitions;
                shared.lost(&term).await;
            }
            Err(ended) => {
                assert_eq!(ended, Ended::Stopped);
                break;
            }
        }
    }
    shared.ended().await;
}

/// Sends a request that takes some steps, each of which is a send.
async fn request(shared: &Arc<Shared>, truth: &Truth, steps: usize) {
    // The term that ran at the beginning of the poll under way.
    let at_poll = Arc::new(Mutex::new(None));
    let sends = Arc::clone(&at_poll);
    let inner = service_fn(move |_: Request<()>| {
        let sends = Arc::clone(&sends);
        async move {
            let mut first = None;
            for _ in 0..steps.min(4) {
                let running = *sends.lock().expect("no holder panics");
                let running: u64 = running.expect("sent though its term was over before");
                let first = *first.get_or_insert(running);
                assert_eq!(running, first, "sent in a later term");
                future::yield_now().await;
            }
            if steps == ENDLESS {
                std::future::pending::<()>().await;
            }
            Ok::<_, Infallible>(Response::new(()))
        }
    });
    let timeout = Duration::from_secs(5);
    let mut guarded = Guarded::new(inner, Arc::clone(shared), timeout);
    let request = Request::get("/a").body(()).expect("a request");
    let mut reply = pin!(guarded.call(request));
    let reply = poll_fn(|context| {
        *at_poll.lock().expect("no holder panics") = truth.running();
        reply.as_mut().poll(context)
    });
    match reply.await {
        Ok(_) => assert!(steps < ENDLESS, "it has no end of its own"),
        Err(error) => assert!(is_not_leading(&*error), "{error}"),
    }
}
