//! Troubles, drawn from a shuffled deck so that each kind comes as often as any other.
//!
//! ```text
//! seed ─▶ Deck ─draw─▶ Trouble ─make─▶ World { proxy, server, credentials }
//! ```
//!
//! A trouble ends by itself: after it, the network passes and the server answers.

use std::fmt;
use std::time::Duration;

use http::Method;
use kinform_testkit::ProxyMode;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};

use super::world::{Forgets, World};
use crate::Failure;

/// The kinds of trouble.
const KINDS: [Kind; 10] = [
    Kind::Cut,
    Kind::CutInFrame,
    Kind::Stall,
    Kind::Refuse,
    Kind::Restart,
    Kind::RestartWithoutHistory,
    Kind::Expire,
    Kind::Token,
    Kind::Certificate,
    Kind::Faults,
];

/// Faults of the server, injected together.
const FAULTS: &str = "verb=watch,times=2,error=410,reason=Expired\n\
    verb=watch,nth=3,times=2,truncate=5000\n\
    verb=watch,nth=5,times=2,empty\n\
    verb=list,times=2,status=429,retry-after=1\n\
    verb=list,nth=3,times=1,status=500\n\
    verb=patch,resource=secrets,times=5,lose-reply\n\
    verb=patch,resource=secrets,nth=6,times=5,status=503\n\
    verb=update,resource=leases,times=2,status=503";
/// BOUND: bytes before a cut in the middle of a frame.
const FRAME: u64 = 200_000;
/// The shortest stall, or time without a listener.
const OUTAGE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Cut,
    CutInFrame,
    Stall,
    Refuse,
    Restart,
    RestartWithoutHistory,
    Expire,
    Token,
    Certificate,
    Faults,
}

/// A trouble to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    kind: Kind,
    /// The length of an outage.
    outage: Duration,
    /// Bytes before a cut.
    bytes: u64,
}

/// The troubles of a seed.
#[derive(Debug)]
pub(super) struct Deck {
    random: SmallRng,
    left: Vec<Kind>,
    longest: Duration,
}

impl Deck {
    /// The deck of a seed, for troubles `between` apart; an outage is at most half as long.
    pub(super) fn new(seed: u64, between: Duration) -> Self {
        Self {
            random: SmallRng::seed_from_u64(seed),
            left: Vec::new(),
            longest: (between / 2).max(OUTAGE),
        }
    }

    /// The next trouble.
    pub(super) fn draw(&mut self) -> Trouble {
        if self.left.is_empty() {
            self.left = KINDS.into();
            self.left.shuffle(&mut self.random);
        }
        Trouble {
            // The deck was filled.
            kind: self.left.pop().unwrap_or(Kind::Cut),
            outage: self.random.random_range(OUTAGE..=self.longest),
            bytes: self.random.random_range(1..FRAME),
        }
    }
}

impl Trouble {
    /// Makes the trouble; returns when it is over.
    pub(super) async fn make(self, world: &World) -> Result<(), Failure> {
        match self.kind {
            Kind::Cut => world.proxy.cut(),
            Kind::CutInFrame => world.proxy.cut_after(self.bytes),
            Kind::Stall => {
                world.proxy.set(ProxyMode::Stall);
                tokio::time::sleep(self.outage).await;
                world.proxy.set(ProxyMode::Pass);
            }
            Kind::Refuse => {
                world.proxy.set(ProxyMode::Refuse);
                world.proxy.cut();
                tokio::time::sleep(self.outage).await;
                world.proxy.set(ProxyMode::Pass);
            }
            Kind::Restart => world.restart(Forgets::Nothing).await?,
            Kind::RestartWithoutHistory => world.restart(Forgets::History).await?,
            Kind::Expire => {
                world.admin(Method::POST, "expire", "").await?;
                world.proxy.cut();
            }
            Kind::Token => world.rotate_token().await?,
            Kind::Certificate => world.rotate_certificate()?,
            Kind::Faults => {
                world.admin(Method::POST, "faults", FAULTS).await?;
                world.proxy.cut();
            }
        }
        Ok(())
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.outage.as_secs_f64();
        match self.kind {
            Kind::Cut => f.write_str("all connections cut"),
            Kind::CutInFrame => write!(f, "all connections cut after {} bytes", self.bytes),
            Kind::Stall => write!(f, "no byte passes for {seconds:.1} s"),
            Kind::Refuse => write!(f, "connections refused for {seconds:.1} s"),
            Kind::Restart => f.write_str("server killed and started again"),
            Kind::RestartWithoutHistory => {
                f.write_str("server killed and started again without its history")
            }
            Kind::Expire => f.write_str("history expired, all connections cut"),
            Kind::Token => f.write_str("token replaced, server restarted"),
            Kind::Certificate => f.write_str("certificate and authority of the metrics replaced"),
            Kind::Faults => f.write_str("errors of the server, replies lost"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(seed: u64, count: usize) -> Vec<Trouble> {
        let mut deck = Deck::new(seed, Duration::from_secs(20));
        (0..count).map(|_| deck.draw()).collect()
    }

    #[test]
    fn each_kind_comes_once_before_any_comes_twice() {
        for seed in 0..20 {
            let drawn = draws(seed, 2 * KINDS.len());
            for round in drawn.chunks(KINDS.len()) {
                for kind in KINDS {
                    let times = round.iter().filter(|drawn| drawn.kind == kind).count();
                    assert_eq!(times, 1, "seed {seed}: {kind:?}");
                }
            }
            let limits = OUTAGE..=Duration::from_secs(10);
            assert!(drawn.iter().all(|drawn| limits.contains(&drawn.outage)));
        }
    }

    #[test]
    fn a_seed_draws_the_same_troubles_again() {
        assert_eq!(draws(7, 15), draws(7, 15));
        assert_ne!(draws(7, 15), draws(8, 15));
    }
}
