//! Things to try on the demo: each act causes a trouble, shows its effect, and undoes it.
//!
//! ```text
//! Act → play → Notice (the cause)     each tick → tell → Notices (the effect, the end)
//! ```
//!
//! Acts know no screen: they return lines. `act.rs` has their list, `plan.rs` those that play without a
//! key; the others have an act or two each. The effect of an act is a fact of the pipeline, which the inspector shows,
//! too; its notice comes once the fact is there.
//! BOUND: an act is on once at a time; a second call ends it.
//!
//! Upstream counterpart: none.

mod act;
mod history;
mod leader;
mod mistake;
mod plan;
mod poison;
mod slow_handler;
mod webhook;

use std::fmt;
use std::time::Instant;

use super::pipeline::Pipeline;
use super::stage::Stage;
use crate::exit::Failure;

pub(crate) use self::act::Act;
use self::history::History;
use self::leader::KilledLeader;
use self::mistake::Mistaken;
pub(crate) use self::plan::Plan;
use self::poison::Poison;
use self::slow_handler::SlowHandler;
use self::webhook::KilledWebhook;

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
    /// The act.
    pub(crate) act: Act,
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

impl State {
    /// The act is undone.
    fn end(&mut self) {
        (self.is_on, self.is_awaited, self.ends_at) = (false, false, None);
    }
}

/// The acts of a running demo.
#[derive(Debug)]
pub(crate) struct Acts<'a> {
    scene: Scene<'a>,
    states: [State; Act::ALL.len()],
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

    /// Returns whether the next call plays the act: one that is on is ended instead.
    pub(crate) fn begins(&self, act: Act) -> bool {
        !self.states[act.index()].is_on
    }

    /// Plays an act; one that is on is ended.
    ///
    /// # Errors
    /// The act could not be played, so it has no effect; or it could not be undone.
    ///
    /// # Cancel safety
    /// An act that was half played is undone with the others, or leaves an object of its own.
    pub(crate) async fn play(&mut self, act: Act) -> Result<Notice, Failure> {
        if !self.begins(act) {
            return self.end(act).await;
        }
        let text = self.begin(act).await?;
        self.states[act.index()] = State {
            is_shown: false,
            is_awaited: true,
            is_on: act.is_lasting(),
            ends_at: act.script().lasts.map(|lasts| Instant::now() + lasts),
        };
        Ok(Notice { act, text })
    }

    /// Tells the effects that are there since the last call, and ends acts whose time has passed.
    ///
    /// # Errors
    /// An effect breaks a promise: two replicas led at once.
    pub(crate) async fn tell(&mut self) -> Result<Vec<Notice>, Failure> {
        let mut told = Vec::new();
        for &act in Act::ALL {
            if self.states[act.index()].is_awaited
                && let Some(effect) = self.effect(act)
            {
                let state = &mut self.states[act.index()];
                (state.is_shown, state.is_awaited) = (true, false);
                // It has nothing more to show.
                if act == Act::Leader {
                    state.ends_at = Some(Instant::now());
                }
                told.push(Notice { act, text: effect? });
            }
            let state = self.states[act.index()];
            if state.is_on && state.ends_at.is_some_and(|at| Instant::now() >= at) {
                let ended = self.end(act).await;
                told.push(ended.unwrap_or_else(|failure| Notice {
                    act,
                    text: failure.to_string(),
                }));
            }
        }
        Ok(told)
    }

    /// Returns whether the effect of the act was told since it was played last.
    pub(crate) fn is_shown(&self, act: Act) -> bool {
        self.states[act.index()].is_shown
    }

    /// Undoes everything.
    pub(crate) async fn undo(&mut self) {
        for &act in Act::ALL {
            // The webhook would be served again, only to be removed.
            if self.begins(act) || act == Act::Webhook {
                continue;
            }
            if let Err(failure) = self.end(act).await {
                tracing::debug!("{}: {failure}", act.script().title);
            }
        }
        self.webhook.remove(self.scene).await;
        self.states[Act::Webhook.index()].end();
    }

    async fn end(&mut self, act: Act) -> Result<Notice, Failure> {
        let ended = match act {
            Act::Cut | Act::Expire => Ok(String::new()),
            Act::SlowHandler => Ok(self.slow.end().await),
            Act::Poison => self.poison.end(self.scene),
            Act::HotLoop => self.hot_loop.end(self.scene).await,
            Act::Fight => self.fight.end(self.scene).await,
            Act::Webhook => self.webhook.end(self.scene).await,
            Act::Leader => Ok(self.leader.end()),
        };
        self.states[act.index()].end();
        ended.map(|text| Notice { act, text })
    }

    async fn begin(&mut self, act: Act) -> Result<String, Failure> {
        let scene = self.scene;
        match act {
            Act::Cut => Ok(self.history.cut(scene).await),
            Act::Expire => self.history.expire(scene).await,
            Act::SlowHandler => self.slow.play(scene),
            Act::Poison => self.poison.play(scene).await,
            Act::HotLoop => self.hot_loop.play(scene).await,
            Act::Fight => self.fight.play(scene).await,
            Act::Webhook => self.webhook.play(scene).await,
            Act::Leader => self.leader.play(scene),
        }
    }

    /// The effect of an act in a line, with its figures, once it is there; a failure if it breaks a
    /// promise.
    fn effect(&self, act: Act) -> Option<Result<String, Failure>> {
        let scene = self.scene;
        match act {
            Act::Cut => self.history.resumed(scene).map(Ok),
            Act::Expire => self.history.relisted(scene).map(Ok),
            Act::SlowHandler => self.slow.lagged(scene).map(Ok),
            Act::Poison => self.poison.quarantined(scene).map(Ok),
            Act::HotLoop => self.hot_loop.found(scene).map(Ok),
            Act::Fight => self.fight.found(scene).map(Ok),
            Act::Webhook => self.webhook.refused(scene).map(Ok),
            Act::Leader => self.leader.succeeded(scene),
        }
    }
}
