//! The faults of a run: at a process, at its network, at the server.
//!
//! ```text
//! Mishap ─▶ Run { processes, server, agenda } ─▶ ended, cut, stale, restarted; later mended
//! ```
//!
//! INVARIANT: what ends by itself is on the agenda before this returns.

use std::time::Duration;

use jiff::SignedDuration;

use super::finding::Finding;
use super::plan::{History, Mishap};
use super::process::{Process, Standing};
use super::run::{Due, Run};
use super::stranger::{self, TakenBack};
use super::trace::Who;
use super::wire::Wire;
use crate::control::{Network, ProxyMode};
use crate::link::Link;

/// The time after which a process that has ended starts again.
const RESTART: Duration = Duration::from_secs(2);

impl Run<'_> {
    /// A fault begins at a process, or at the server.
    pub(super) async fn meet(&mut self, number: usize, mishap: Mishap) -> Result<(), Finding> {
        match mishap {
            Mishap::CrashBefore | Mishap::CrashAfter | Mishap::Crash => self.kill(number),
            Mishap::Skip(lasts) => self.plan(lasts, Due::PassExpired(number)),
            Mishap::StaleRestart(lasts) => self.restart_at(number, self.hub.seen(), lasts),
            Mishap::PastRestart(lasts) => self.restart_at(number, self.before_step, lasts),
            Mishap::Cut => self.with(number, |process| process.wire.link().cut()),
            Mishap::Refused(lasts) => {
                self.with(number, |process| {
                    process.wire.link().set(ProxyMode::Refuse);
                    process.wire.link().cut();
                });
                self.plan(lasts, Due::Pass(number));
            }
            Mishap::Silence(lasts) => {
                self.with(number, |process| process.wire.link().set(ProxyMode::Stall));
                self.plan(lasts, Due::Pass(number));
            }
            Mishap::Pause(lasts) => {
                self.with(number, |process| {
                    process.stand(Standing::Still);
                    process.wire.link().set(ProxyMode::Stall);
                });
                self.plan(lasts, Due::Move(number));
            }
            Mishap::Lag(lasts) => {
                if let Some(server) = &self.server {
                    server.lag();
                }
                self.plan(lasts, Due::CatchUp);
            }
            Mishap::Restart(history) => self.restart(history).await?,
            Mishap::Clock(minutes) => {
                self.jump += minutes;
                self.restart(History::Kept).await?;
            }
            Mishap::Expire => self.expire()?,
            // These happen at the wire.
            Mishap::LoseReply | Mishap::Refuse(_) | Mishap::Overtake | Mishap::Late(_) => {}
            // This happens before a step.
            Mishap::Hold(_) => {}
        }
        Ok(())
    }

    /// A process restarts, and the server's caches show this revision for a time.
    fn restart_at(&mut self, number: usize, revision: u64, lasts: Duration) {
        if let Some(server) = &self.server {
            let store = server.store();
            server.lag_at(revision.clamp(store.floor(), store.revision()));
        }
        self.plan(lasts, Due::CatchUp);
        self.kill(number);
    }

    /// Another client takes back what it has left; what is the operator's by now counts as such.
    pub(super) async fn take_back(&mut self, number: usize) -> Result<(), Finding> {
        if let TakenBack::Adopted(shelf, object) = stranger::take_back(&self.hub, number).await {
            self.look()?;
            self.census.adopt(&shelf, &object);
        }
        Ok(())
    }

    pub(super) fn expire(&mut self) -> Result<(), Finding> {
        self.look()?;
        if let Some(server) = &self.server {
            server.expire_history();
        }
        Ok(())
    }

    /// Restarts the server; the clock of the new one has jumped by what was planned.
    async fn restart(&mut self, history: History) -> Result<(), Finding> {
        self.look()?;
        for process in self.processes.iter().flatten() {
            process.wire.link().disconnect();
        }
        self.hub.serve(None);
        self.direct.disconnect();
        self.end_controllers().await;
        let Some(server) = self.server.take() else {
            return Ok(());
        };
        let state = server.stop().await;
        let state = match history {
            History::Kept => state,
            History::Lost => state.without_history(),
        };
        let passed = clock_span(self.start.elapsed(), self.jump);
        let now = self.epoch.checked_add(passed).unwrap_or(self.epoch);
        let server = self.scenario.server(Some(state), now);
        self.hub
            .serve(Some((server.service(), server.store().clone())));
        self.direct.connect(server.service());
        for process in self.processes.iter().flatten() {
            process.wire.link().connect(server.service());
        }
        self.server = Some(server);
        self.begin_controllers().await
    }

    pub(super) fn kill(&mut self, number: usize) {
        if let Some(place) = self.processes.get_mut(number)
            && let Some(process) = place.take()
        {
            process.kill();
            self.plan(RESTART, Due::Start(number));
        }
    }

    pub(super) fn spawn(&mut self, number: usize) {
        let Some(server) = &self.server else {
            return;
        };
        self.starts += 1;
        if self.starts > self.scenario.replicas as u64 {
            self.hub.note(Who::Operator(number), "starts again");
        }
        let link = Link::new(server.service(), self.hub.below(u64::MAX));
        let wire = Wire::new(&self.hub, link, number);
        let ends = self.ends.0.clone();
        let start = self.starts;
        let process = Process::spawn(&self.scenario.program, wire, (number, start), ends);
        if let Some(place) = self.processes.get_mut(number) {
            *place = Some(process);
        }
    }

    #[cfg(feature = "controllers")]
    pub(super) async fn begin_controllers(&mut self) -> Result<(), Finding> {
        if let (Some(selection), Some(server)) = (&self.scenario.controllers, &self.server) {
            let started = crate::server::start_controllers(server, selection).await;
            let failed = |error: crate::TestError| Finding::Step {
                step: "the start of the built-in controllers".to_owned(),
                why: error.to_string(),
            };
            self.controllers = Some(started.map_err(failed)?);
        }
        Ok(())
    }

    #[cfg(not(feature = "controllers"))]
    pub(super) async fn begin_controllers(&mut self) -> Result<(), Finding> {
        Ok(())
    }

    #[cfg(feature = "controllers")]
    pub(super) async fn end_controllers(&mut self) {
        if let Some(running) = self.controllers.take() {
            // They were asked to end: how is no matter of the simulation's.
            drop(running.stop().await);
        }
    }

    #[cfg(not(feature = "controllers"))]
    pub(super) async fn end_controllers(&mut self) {}
}

/// The time that has passed for a clock that has jumped by minutes.
fn clock_span(passed: Duration, minutes: i64) -> SignedDuration {
    let passed = SignedDuration::try_from(passed).unwrap_or_default();
    passed.saturating_add(SignedDuration::from_mins(minutes))
}
