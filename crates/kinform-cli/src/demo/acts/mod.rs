//! Things to try on the demo: each act causes a trouble, shows its effect, and undoes it.
//!
//! ```text
//! number → play → Notice (the cause)     each tick → tell → Notices (the effect, the end)
//! ```
//!
//! Acts know no screen: they return lines. `plan.rs` has the acts that play without a key; the others
//! have an act or two each. The effect of an act is a fact of the pipeline, which the inspector shows,
//! too; its notice comes once the fact is there.
//! BOUND: an act is on once at a time; a second call ends it.
//!
//! Upstream counterpart: none.

mod history;
mod leader;
mod mistake;
mod plan;
mod poison;
mod slow_handler;
mod webhook;

use std::fmt;
use std::time::{Duration, Instant};

use super::pipeline::Pipeline;
use super::stage::Stage;
use crate::exit::Failure;

use self::history::History;
use self::leader::KilledLeader;
use self::mistake::Mistaken;
pub(crate) use self::plan::Plan;
use self::poison::Poison;
use self::slow_handler::SlowHandler;
use self::webhook::KilledWebhook;

/// The number of the act that cuts every watch.
pub(crate) const CUT: u8 = 1;
/// The number of the act that expires the history.
pub(crate) const EXPIRE: u8 = 2;
/// The number of the act of the slow handler.
pub(crate) const SLOW_HANDLER: u8 = 3;
const POISON: u8 = 4;
const HOT_LOOP: u8 = 5;
const FIGHT: u8 = 6;
const WEBHOOK: u8 = 7;
/// The number of the act that kills the leader.
pub(crate) const LEADER: u8 = 8;

/// One act.
#[derive(Debug)]
pub(crate) struct Act {
    /// The number, which is its key.
    pub(crate) number: u8,
    /// The title, a few words.
    pub(crate) title: &'static str,
    /// The trouble and its end, in a sentence.
    pub(crate) happens: &'static str,
    /// The view of the page that shows it, in a sentence.
    pub(crate) look: &'static str,
    /// The time after which it ends by itself.
    lasts: Option<Duration>,
}

/// The acts, in the order of their numbers.
static ACTS: [Act; 8] = [
    Act {
        number: CUT,
        title: "cut every watch",
        happens: "Every watch ends in the middle; informers go on from the version they had.",
        look: "Caches: watches that were reopened count up, and no list is made.",
        lasts: None,
    },
    Act {
        number: EXPIRE,
        title: "expire history",
        happens: "The server forgets its history, so informers whose version is gone list again.",
        look: "Caches: relists count up, with their reason.",
        lasts: None,
    },
    Act {
        number: SLOW_HANDLER,
        title: "slow handler",
        happens: "A handler of pods takes 50 ms for each change; it is removed after 20 s.",
        look: "Caches: the lag of act-slow-handler grows, and that of demo-pods does not.",
        lasts: Some(Duration::from_secs(20)),
    },
    Act {
        number: POISON,
        title: "poisoned object",
        happens: "A Foo in the server's storage gets a number as its uid; it is mended after 30 s.",
        look: "Problems: the object is quarantined, with the path of its fault.",
        lasts: Some(Duration::from_secs(30)),
    },
    Act {
        number: HOT_LOOP,
        title: "hot loop",
        happens: "A reconcile writes the time into its own object's status, which starts the next.",
        look: "Problems: a loop, with the field and its manager.",
        lasts: None,
    },
    Act {
        number: FIGHT,
        title: "fight over a field",
        happens: "A controller and an autoscaler set the replicas of one Deployment in turns.",
        look: "Problems: a fight, with the field and both managers.",
        lasts: None,
    },
    Act {
        number: WEBHOOK,
        title: "kill the webhook",
        happens: "The server of a validating webhook stops, so that writes of Deployments fail.",
        look: "Queues: failures and retries of the leader; Problems: keys that fail.",
        lasts: None,
    },
    Act {
        number: LEADER,
        title: "kill the leader",
        happens: "The replica that leads is cut off; the other one leads once the lease expires.",
        look: "Queues: the runs of the other replica count up.",
        lasts: None,
    },
];

/// The parts of the demo that acts have to do with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene<'a> {
    /// The server.
    pub(crate) stage: &'a Stage,
    /// The informers and controllers.
    pub(crate) pipeline: &'a Pipeline,
}

/// A line about an act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    /// The number of the act.
    pub(crate) number: u8,
    /// The line.
    pub(crate) text: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The state of an act.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// The effect was told since the act was played last.
    is_shown: bool,
    /// The effect is still to be told.
    is_awaited: bool,
    /// There is something to undo.
    is_on: bool,
    ends_at: Option<Instant>,
}

/// The acts of a running demo.
#[derive(Debug)]
pub(crate) struct Acts<'a> {
    scene: Scene<'a>,
    states: [State; ACTS.len()],
    history: History,
    slow: SlowHandler,
    poison: Poison,
    hot_loop: Mistaken,
    fight: Mistaken,
    webhook: KilledWebhook,
    leader: KilledLeader,
}

impl<'a> Acts<'a> {
    /// The acts on these parts; none is on.
    pub(crate) fn new(scene: Scene<'a>) -> Self {
        Self {
            scene,
            states: Default::default(),
            history: History::default(),
            slow: SlowHandler::default(),
            poison: Poison::default(),
            hot_loop: Mistaken::hot_loop(),
            fight: Mistaken::fight(),
            webhook: KilledWebhook::default(),
            leader: KilledLeader::default(),
        }
    }

    /// All acts.
    pub(crate) fn list() -> &'static [Act] {
        &ACTS
    }

    /// The act of this number, unless it is on: then the next call ends it.
    pub(crate) fn next(&self, number: u8) -> Option<&'static Act> {
        let is_on = self.states[index(number)].is_on;
        find(number).filter(|_| !is_on)
    }

    /// Plays an act; one that is on is ended.
    pub(crate) async fn play(&mut self, number: u8) -> Notice {
        let Some(act) = find(number) else {
            let text = format!("there is no act {number}");
            return Notice { number, text };
        };
        if self.states[index(number)].is_on {
            return self.end(number).await;
        }
        let played = self.begin(number).await;
        let is_lasting = !matches!(number, CUT | EXPIRE);
        let text = match played {
            Ok(text) => {
                self.states[index(number)] = State {
                    is_shown: false,
                    is_awaited: true,
                    is_on: is_lasting,
                    ends_at: act.lasts.map(|lasts| Instant::now() + lasts),
                };
                text
            }
            Err(failure) => format!("{}: {failure}", act.title),
        };
        Notice { number, text }
    }

    /// Tells the effects that are there since the last call, and ends acts whose time has passed.
    pub(crate) async fn tell(&mut self) -> Vec<Notice> {
        let mut told = Vec::new();
        for act in &ACTS {
            let number = act.number;
            let state = self.states[index(number)];
            if state.is_awaited
                && let Some(text) = self.effect(number)
            {
                told.push(Notice { number, text });
                let state = &mut self.states[index(number)];
                (state.is_shown, state.is_awaited) = (true, false);
                // It has nothing more to show.
                if number == LEADER {
                    state.ends_at = Some(Instant::now());
                }
            }
            let state = self.states[index(number)];
            if state.is_on && state.ends_at.is_some_and(|at| Instant::now() >= at) {
                told.push(self.end(number).await);
            }
        }
        told
    }

    /// Returns whether the effect of the act was told since it was played last.
    pub(crate) fn is_shown(&self, number: u8) -> bool {
        self.states[index(number)].is_shown
    }

    /// Undoes everything.
    pub(crate) async fn undo(&mut self) {
        for act in &ACTS {
            if self.states[index(act.number)].is_on {
                self.end(act.number).await;
            }
        }
        self.webhook.remove(self.scene).await;
    }

    async fn end(&mut self, number: u8) -> Notice {
        let ended = match number {
            SLOW_HANDLER => Ok(self.slow.end().await),
            POISON => self.poison.end(self.scene),
            HOT_LOOP => self.hot_loop.end(self.scene).await,
            FIGHT => self.fight.end(self.scene).await,
            WEBHOOK => self.webhook.end(self.scene).await,
            LEADER => Ok(self.leader.end(self.scene)),
            _ => Ok(String::new()),
        };
        let state = &mut self.states[index(number)];
        (state.is_on, state.is_awaited, state.ends_at) = (false, false, None);
        let text = ended.unwrap_or_else(|failure| failure.to_string());
        Notice { number, text }
    }

    async fn begin(&mut self, number: u8) -> Result<String, Failure> {
        let scene = self.scene;
        match number {
            CUT => Ok(self.history.cut(scene).await),
            EXPIRE => self.history.expire(scene).await,
            SLOW_HANDLER => self.slow.play(scene),
            POISON => self.poison.play(scene).await,
            HOT_LOOP => self.hot_loop.play(scene).await,
            FIGHT => self.fight.play(scene).await,
            WEBHOOK => self.webhook.play(scene).await,
            _ => self.leader.play(scene),
        }
    }

    /// The effect of an act in a line, with its figures, once it is there.
    fn effect(&self, number: u8) -> Option<String> {
        let scene = self.scene;
        match number {
            CUT => self.history.resumed(scene),
            EXPIRE => self.history.relisted(scene),
            SLOW_HANDLER => self.slow.lagged(scene),
            POISON => self.poison.quarantined(scene),
            HOT_LOOP => self.hot_loop.found(scene),
            FIGHT => self.fight.found(scene),
            WEBHOOK => self.webhook.refused(scene),
            _ => self.leader.succeeded(scene),
        }
    }
}

fn find(number: u8) -> Option<&'static Act> {
    ACTS.iter().find(|act| act.number == number)
}

fn index(number: u8) -> usize {
    usize::from(number.clamp(1, 8) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acts_are_numbered_from_one_and_fit_a_line() {
        for (act, number) in Acts::list().iter().zip(1..) {
            assert_eq!(act.number, number);
            for sentence in [act.happens, act.look] {
                assert!(
                    sentence.len() <= 90 && sentence.ends_with('.'),
                    "{sentence}"
                );
            }
            assert!(act.title.len() <= 24, "{}", act.title);
        }
    }
}
