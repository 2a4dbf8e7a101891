//! Act 8: the replica that leads is killed; the other one takes over.
//!
//! ```text
//! leader's line cut, its work dropped ─▶ the lease expires (4 s) ─▶ the standby leads ─▶ line mended
//! ```
//!
//! The act checks that the work of the two does not overlap: an overlap is a failure.

use std::sync::Arc;
use std::time::Instant;

use kinform::ObjectKey;

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

    /// The effect, once the other one leads and has reconciled a key; a failure if both worked at
    /// once.
    pub(super) fn succeeded(&self, scene: Scene<'_>) -> Option<Result<String, Failure>> {
        let (dead, killed) = self.0.as_ref()?;
        let leader = scene.pipeline.replicas.leader()?;
        let succession = Succession {
            dead: dead.name,
            leader: leader.name,
            killed: *killed,
            began: leader.began()?,
            ended: dead.ended(),
            twice: leader.overlap(dead),
        };
        Some(succession.told())
    }

    /// Lets the dead one come back.
    pub(super) fn end(&mut self) -> String {
        match self.0.take() {
            Some((dead, _)) => {
                dead.revive();
                format!("{} is back, as the standby", dead.name)
            }
            None => String::new(),
        }
    }
}

/// The facts of a succession.
#[derive(Debug)]
struct Succession {
    dead: &'static str,
    leader: &'static str,
    killed: Instant,
    /// The start of the leader's work.
    began: Instant,
    /// The end of the work of the dead one; `None` if it still works.
    ended: Option<Instant>,
    /// A key that both reconciled at the same time.
    twice: Option<ObjectKey>,
}

impl Succession {
    fn told(&self) -> Result<String, Failure> {
        let Self { dead, leader, .. } = self;
        let gap = self
            .ended
            .and_then(|ended| self.began.checked_duration_since(ended));
        let Some(gap) = gap else {
            return Err(Failure::new(format!(
                "two leaders at once: {leader} began to work before the work of {dead} had ended"
            )));
        };
        if let Some(key) = &self.twice {
            return Err(Failure::new(format!(
                "two leaders at once: {leader} and {dead} reconciled {key} at the same time"
            )));
        }
        let killed = self.began.saturating_duration_since(self.killed);
        Ok(format!(
            "{leader} leads, and the controller works again {:.1} s after the kill, {:.1} s after \
             the last work of {dead}; no key was reconciled by both at once",
            killed.as_secs_f64(),
            gap.as_secs_f64(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn work_of_both_at_once_is_a_failure_and_work_in_turn_is_told_with_its_times() {
        let killed = Instant::now();
        let after = |millis| killed + Duration::from_millis(millis);
        let key = ObjectKey::new(Some("default"), "foo-1");
        let told = |began, ended, twice| {
            let succession = Succession {
                dead: "replica-a",
                leader: "replica-b",
                killed,
                began,
                ended,
                twice,
            };
            let told = succession.told();
            told.map_err(|failure| failure.parts().0.to_owned())
        };
        assert_eq!(
            told(after(4_200), Some(after(100)), None).unwrap(),
            "replica-b leads, and the controller works again 4.2 s after the kill, 4.1 s after the \
             last work of replica-a; no key was reconciled by both at once"
        );
        for ended in [None, Some(after(4_201))] {
            let violation = told(after(4_200), ended, None).unwrap_err();
            assert!(violation.contains("before the work of replica-a had ended"));
        }
        let violation = told(after(4_200), Some(after(100)), Some(key)).unwrap_err();
        assert!(
            violation.contains("reconciled default/foo-1 at the same time"),
            "{violation}"
        );
    }
}
