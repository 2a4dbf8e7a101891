//! One round of faults: a seed becomes a sequence of faults, after which the informers must
//! converge.
//!
//! ```text
//! seed → FaultPlan { acts } → Round::perform: trouble begins, writes, history expires, it ends
//!                      → Round::settle: peace, the truth, every witness agrees; again after more writes
//! ```
//!
//! An act is a fault with the writes during and after it. Under paused time an act lasts as long
//! as it says; over sockets it lasts until clients have noticed, without waiting for a clock.
//! The same seed gives the same plan and the same writes.
//! Never: decides what is right. The event checkers do, and the server's own list.

use std::fmt;
use std::time::Duration;

use kinform_api::Status;
use kinform_apiserver::{Fault, FaultRule, Server};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::checks::event_checker::EventChecker;
use crate::checks::stage::{HISTORY, Stage, StageError};
use crate::checks::writer::Writer;
use crate::control::ProxyMode;
use crate::server::Loss;

/// The fault of an act.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// None.
    None,
    /// Every connection breaks.
    Cut,
    /// Every connection breaks once this number of bytes more has arrived.
    CutAfter(u64),
    /// Every connection breaks and no new one can be made.
    Refuse,
    /// Connections stay open but transfer nothing.
    Stall,
    /// The server is restarted during an outage.
    Restart(Loss),
    /// The server ends every watch cleanly.
    CutWatches,
    /// The server's watches send nothing for a while.
    StallWatches,
    /// Reads that may be stale are stale.
    Lag,
    /// Watches receive no bookmarks.
    NoBookmarks,
    /// Streaming lists never end.
    NoInitialEventsEnd,
    /// The next requests of a verb, after the connection broke, meet a fault.
    Fault(&'static str, Box<Fault>, usize),
}

/// A fault and the writes around it.
#[derive(Clone, Debug)]
pub struct Act {
    /// The fault.
    pub trouble: Trouble,
    /// The number of writes during the fault.
    pub writes: usize,
    /// The number of objects deleted and created again under their names during the fault.
    pub recreated: usize,
    /// The server's history during the fault: kept or forgotten.
    pub expires: Expires,
    /// The duration of the fault under paused time.
    pub lasts: Duration,
    /// The number of writes afterwards.
    pub writes_after: usize,
}

/// The server's history during an act: kept or forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expires {
    /// Kept, as far as its bound allows.
    No,
    /// Forgotten completely.
    All,
}

/// The set of faults that a stage supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All faults.
    Everything,
    /// Those of a network, and those of an embedded server's replies.
    Sockets,
    /// Those of a network only.
    Network,
}

/// The plan of a round, a function of its seed.
#[derive(Clone, Debug)]
pub struct FaultPlan {
    /// The seed of everything.
    pub seed: u64,
    /// The acts, in order.
    pub acts: Vec<Act>,
}

impl FaultPlan {
    /// The plan of a seed.
    pub fn new(seed: u64, reach: Reach) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let count = random.random_range(4..9);
        let acts = (0..count).map(|_| act(&mut random, reach)).collect();
        Self { seed, acts }
    }
}

fn act(random: &mut SmallRng, reach: Reach) -> Act {
    let trouble = trouble(random, reach);
    let many = random.random_ratio(1, 6);
    let mut act = Act {
        // Sometimes more than the server remembers.
        writes: random.random_range(0..if many { HISTORY * 2 } else { 30 }),
        recreated: random.random_range(0..4),
        expires: match random.random_ratio(1, 3) {
            true => Expires::All,
            false => Expires::No,
        },
        lasts: Duration::from_millis(random.random_range(0..90_000)),
        writes_after: random.random_range(0..10),
        trouble,
    };
    if matches!(act.trouble, Trouble::Restart(Loss::Everything)) {
        // A server that counted past the versions a client has seen looks like one that went on:
        // few writes, and time to notice.
        act.writes = act.writes.min(2);
        act.recreated = 0;
        act.writes_after = 0;
        act.lasts = Duration::from_secs(300);
    }
    act
}

fn trouble(random: &mut SmallRng, reach: Reach) -> Trouble {
    let most = match reach {
        Reach::Everything => 17,
        Reach::Sockets => 15,
        Reach::Network => 5,
    };
    match random.random_range(0..most) {
        0 => Trouble::None,
        1 => Trouble::Cut,
        2 => Trouble::CutAfter(random.random_range(0..6000)),
        3 => Trouble::Refuse,
        4 => Trouble::Stall,
        5 => Trouble::CutWatches,
        6 => Trouble::StallWatches,
        7 => Trouble::NoBookmarks,
        8 | 9 => fault(random, "watch"),
        10 | 11 => fault(random, "list"),
        12 => Trouble::Lag,
        13 => Trouble::Restart(Loss::Nothing),
        14 => Trouble::Restart(Loss::History),
        15 => Trouble::NoInitialEventsEnd,
        _ => Trouble::Restart(Loss::Everything),
    }
}

fn fault(random: &mut SmallRng, verb: &'static str) -> Trouble {
    let status = |code, reason, text| Fault::Reply(Status::failure(code, reason, text));
    let expired = || Status::failure(410, "Expired", "too old resource version");
    let fault = match random.random_range(0..11) {
        0 => Fault::Reply(expired()),
        1 => status(
            429,
            "TooManyRequests",
            "too many requests, please try again later",
        ),
        2 => status(500, "InternalError", "Internal error occurred: chaos"),
        3 => status(504, "Timeout", "Timeout: request did not complete"),
        4 => status(503, "ServiceUnavailable", "the server is currently unable"),
        5 => Fault::Foreign {
            code: 502,
            media: "text/html",
            body: "<html><body>Bad Gateway</body></html>",
            retry_after: None,
        },
        6 => Fault::TruncateAfter(random.random_range(0..4000)),
        7 => Fault::StallAfter(random.random_range(0..2000)),
        8 => Fault::LoseReply,
        9 if verb == "watch" => Fault::ErrorEvent(expired()),
        10 if verb == "watch" => Fault::EmptyStream,
        _ => Fault::Delay(Duration::from_millis(random.random_range(0..3000))),
    };
    Trouble::Fault(verb, Box::new(fault), random.random_range(1..4))
}

/// The pace of acts: paused time, or until clients notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// An act lasts as long as it says.
    Paused,
    /// An act lasts until clients have noticed, but not longer than this.
    Live(Duration),
}

/// A round on its stage.
#[derive(Debug)]
pub struct Round<S> {
    /// The stage on which the round takes place.
    pub stage: S,
    /// The source of writes.
    pub writer: Writer,
    pace: Pace,
}

impl<S: Stage> Round<S> {
    /// Begins a round: creates the namespaces and some objects.
    ///
    /// # Errors
    /// The server cannot be written to.
    ///
    /// Cancel safety: some objects may exist.
    pub async fn begin(stage: S, seed: u64, pace: Pace) -> Result<Self, StageError> {
        let mut writer = Writer::new(stage.direct()?, seed);
        writer.namespaces().await?;
        writer.write(25).await?;
        Ok(Self {
            stage,
            writer,
            pace,
        })
    }

    /// Performs acts, one after the other.
    ///
    /// # Errors
    /// The server cannot be written to, or does not come back.
    ///
    /// Cancel safety: the fault under way continues.
    pub async fn perform(&mut self, acts: &[Act]) -> Result<(), StageError> {
        for act in acts {
            self.act(act).await?;
        }
        Ok(())
    }

    async fn act(&mut self, act: &Act) -> Result<(), StageError> {
        let mut connections = self.stage.network().connections();
        connections.borrow_and_update();
        self.trouble_begins(&act.trouble);
        self.writer.write(act.writes / 2).await?;
        if let Trouble::Restart(loss) = act.trouble {
            self.stage.restart(loss).await?;
            self.writer.through(self.stage.direct()?);
            if loss == Loss::Everything {
                self.writer.namespaces().await?;
                self.stage.network().set(ProxyMode::Pass);
            }
        }
        for _ in 0..act.recreated {
            self.writer.recreate().await?;
        }
        if act.expires == Expires::All {
            self.expire().await?;
        }
        self.writer.write(act.writes - act.writes / 2).await?;
        match self.pace {
            Pace::Paused => tokio::time::sleep(act.lasts).await,
            Pace::Live(limit) if act.trouble.is_noticed() => {
                // A client that backs off may take longer, which is fine.
                let _ = tokio::time::timeout(limit, connections.changed()).await;
            }
            Pace::Live(_) => {}
        }
        self.trouble_ends();
        self.writer.write(act.writes_after).await?;
        Ok(())
    }

    /// Expires the history by command, or by writes.
    async fn expire(&mut self) -> Result<(), StageError> {
        if let Some(server) = self.stage.embedded() {
            server.expire_history();
        }
        let Some(history) = self.stage.history() else {
            return Ok(());
        };
        let enough = self.writer.writes() + history as u64 + 1;
        while self.writer.writes() < enough {
            self.writer.write(10).await?;
        }
        Ok(())
    }

    fn trouble_begins(&self, trouble: &Trouble) {
        let network = self.stage.network();
        match trouble {
            Trouble::None => {}
            Trouble::Cut => network.cut(),
            Trouble::CutAfter(bytes) => network.cut_after(*bytes),
            Trouble::Refuse | Trouble::Restart(_) => {
                network.set(ProxyMode::Refuse);
                network.cut();
            }
            Trouble::Stall => network.set(ProxyMode::Stall),
            other => {
                if let Some(server) = self.stage.embedded() {
                    server_begins(server, other);
                }
                if matches!(other, Trouble::Fault(..) | Trouble::NoInitialEventsEnd) {
                    network.cut();
                }
            }
        }
    }

    fn trouble_ends(&self) {
        self.stage.network().set(ProxyMode::Pass);
        if let Some(server) = self.stage.embedded() {
            server.catch_up();
            server.faults().clear();
        }
    }

    /// Ends the fault, and waits until every checker's model equals the server's list; then once
    /// more after further writes, because the first wait does not notice a dead watch.
    ///
    /// # Errors
    /// A checker objects or does not converge within the limit, or the server fails.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn settle(
        &mut self,
        witnesses: &[&EventChecker],
        limit: Duration,
    ) -> Result<(), StageError> {
        self.trouble_ends();
        for writes in [0, 10] {
            self.writer.write(writes).await?;
            let truth = self.writer.truth().await?;
            for witness in witnesses {
                witness.converged(&truth, limit).await?;
            }
        }
        Ok(())
    }
}

impl Trouble {
    /// Returns whether clients reconnect because of the fault while it lasts.
    fn is_noticed(&self) -> bool {
        match self {
            Self::Cut | Self::Stall | Self::StallWatches | Self::CutWatches | Self::Fault(..) => {
                true
            }
            Self::None
            | Self::CutAfter(_)
            | Self::Refuse
            | Self::Restart(_)
            | Self::Lag
            | Self::NoBookmarks
            | Self::NoInitialEventsEnd => false,
        }
    }
}

fn server_begins(server: &Server, trouble: &Trouble) {
    let faults = server.faults();
    match trouble {
        Trouble::CutWatches => server.cut_watches(),
        Trouble::StallWatches => faults.stall_watches(),
        Trouble::Lag => server.lag(),
        Trouble::NoBookmarks => faults.without_bookmarks(),
        Trouble::NoInitialEventsEnd => faults.without_initial_events_end(),
        Trouble::Fault(verb, fault, times) => {
            let rule = FaultRule::new((**fault).clone()).on_verb(verb);
            faults.inject(rule.on_resource("configmaps").times(*times));
        }
        _ => {}
    }
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}", self.seed)?;
        for act in &self.acts {
            write!(f, "\n  {act:?}")?;
        }
        Ok(())
    }
}
