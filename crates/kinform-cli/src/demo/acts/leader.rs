//! Act 8: the replica that leads is killed; the other one takes over.
//!
//! ```text
//! leader's line cut, its work dropped ─▶ the lease expires (4 s) ─▶ the standby leads ─▶ line mended
//! ```

use std::sync::Arc;
use std::time::Instant;

use super::Scene;
use crate::demo::replicas::Replica;
use crate::exit::Failure;

/// The replica that was killed, and when.
#[derive(Debug, Default)]
pub(super) struct KilledLeader(Option<(Arc<Replica>, Instant)>);

impl KilledLeader {
    /// Kills the replica that leads.
    pub(super) fn play(&mut self, scene: Scene<'_>) -> Result<String, Failure> {
        let leader = scene.pipeline.replicas.leader();
        let leader = leader.ok_or_else(|| Failure::new("no replica leads; try again"))?;
        leader.kill();
        let text = format!(
            "{} led and was killed: it released nothing, so its lease has to expire",
            leader.name
        );
        self.0 = Some((Arc::clone(leader), Instant::now()));
        Ok(text)
    }

    /// The effect: the other one leads and works, after the end of all work of the dead one.
    pub(super) fn succeeded(&self, scene: Scene<'_>) -> Option<String> {
        let (dead, killed) = self.0.as_ref()?;
        let leader = scene.pipeline.replicas.leader()?;
        let gap = leader.began_after(dead)?;
        let twice = match leader.overlap(dead) {
            None => "no key was in both hands".to_owned(),
            Some(key) => format!("BUT BOTH RECONCILED {key} AT ONCE"),
        };
        Some(format!(
            "{} leads {:.1} s after the kill; it began {:.1} s after the last work of {}: {twice}",
            leader.name,
            killed.elapsed().as_secs_f64(),
            gap.as_secs_f64(),
            dead.name
        ))
    }

    /// Lets the dead one come back.
    pub(super) fn end(&mut self, _: Scene<'_>) -> String {
        match self.0.take() {
            Some((dead, _)) => {
                dead.revive();
                format!("{} is back, as the standby", dead.name)
            }
            None => String::new(),
        }
    }
}
