//! Acts 1 and 2: every watch is cut; the history expires.
//!
//! ```text
//! cut ─▶ watches reopened, no list      expire + cut ─▶ 410 for idle watches ─▶ list again
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use super::Scene;
use crate::exit::Failure;

/// The least age of a watch that is cut. An informer takes a watch that ends without an event in its
/// first second for a sign of a broken server and lists again, which is not the effect of this act.
const OLD: Duration = Duration::from_millis(1_200);
/// BOUND: the time until watches are that old; the screen waits meanwhile. On a slow machine they open
/// again within seconds, unless more changes come than it can take.
const OLD_WITHIN: Duration = Duration::from_secs(10);
/// The time from one look at them to the next.
const PAUSE: Duration = Duration::from_millis(20);

/// The counters of all types.
type AllMarks = BTreeMap<&'static str, Marks>;

/// The counters before each of the two acts.
#[derive(Debug, Default)]
pub(super) struct History {
    before_cut: Option<AllMarks>,
    /// The counters after the cut, if the history expired since: later lists are not its effect.
    after_cut: Option<AllMarks>,
    before_expired: Option<AllMarks>,
}

/// The counters of one type.
#[derive(Debug, Clone, Copy, Default)]
struct Marks {
    /// Watches that went on where the one before had stopped.
    reopens: u64,
    /// Lists after the first.
    relists: u64,
    /// Those of them because the version had expired.
    expired: u64,
    /// The watch is open.
    is_watching: bool,
}

impl History {
    /// Cuts every watch.
    pub(super) async fn cut(&mut self, scene: Scene<'_>) -> String {
        self.ready(scene).await;
        (self.before_cut, self.after_cut) = (Some(marks(scene)), None);
        scene.stage.cut();
        "every watch was cut: informers go on from the version they had reached".to_owned()
    }

    /// The effect of the cut, once every informer has gone on, or the history has expired: on a machine
    /// that is too slow for its changes, an informer reads what was sent before the cut for many seconds.
    pub(super) fn resumed(&self, scene: Scene<'_>) -> Option<String> {
        let before = self.before_cut.as_ref()?;
        match &self.after_cut {
            Some(after) => Some(resumed(before, after)),
            None => {
                let after = marks(scene);
                have_gone_on(before, &after).then(|| resumed(before, &after))
            }
        }
    }

    /// Expires the history.
    pub(super) async fn expire(&mut self, scene: Scene<'_>) -> Result<String, Failure> {
        self.ready(scene).await;
        let before = marks(scene);
        scene.stage.expire().await?;
        self.after_cut.get_or_insert_with(|| before.clone());
        self.before_expired = Some(before);
        Ok(
            "history expired and every watch was cut: informers whose version is gone list again"
                .to_owned(),
        )
    }

    /// The effect of the expired history, once every informer has gone on: the types that were listed
    /// again because of it.
    pub(super) fn relisted(&self, scene: Scene<'_>) -> Option<String> {
        let (before, after) = (self.before_expired.as_ref()?, marks(scene));
        if !have_gone_on(before, &after) {
            return None;
        }
        let is_expired = |title: &&str| {
            let before = before.get(title).copied().unwrap_or_default();
            after
                .get(title)
                .is_some_and(|marks| marks.expired > before.expired)
        };
        let (again, others): (Vec<_>, Vec<_>) = after.keys().copied().partition(is_expired);
        let went_on = match others.is_empty() {
            true => String::new(),
            false => format!(
                "; {} had seen a newer version, and went on",
                others.join(", ")
            ),
        };
        (!again.is_empty()).then(|| {
            format!(
                "{} were listed again, because their version had expired{went_on}",
                again.join(", ")
            )
        })
    }

    /// Waits until every watch is `OLD`, for `OLD_WITHIN` at most. Watches that an act of these two has
    /// cut are not old before they were opened again.
    async fn ready(&self, scene: Scene<'_>) {
        let is_ready = || {
            let stats = scene.pipeline.stats();
            let mut ages = stats.iter().map(|(_, stats)| stats.watch_age);
            let is_old = ages.all(|age| age.is_some_and(|age| age >= OLD));
            let mut before = [&self.before_cut, &self.before_expired]
                .into_iter()
                .flatten();
            is_old && before.all(|before| have_gone_on(before, &marks(scene)))
        };
        let waited = tokio::time::timeout(OLD_WITHIN, async {
            while !is_ready() {
                tokio::time::sleep(PAUSE).await;
            }
        });
        // Younger ones are cut as well.
        let _ = waited.await;
    }
}

/// The line about a cut, from the counters before and after it.
fn resumed(before: &AllMarks, after: &AllMarks) -> String {
    let since = |of: fn(&Marks) -> u64| -> u64 {
        let sum = |marks: &AllMarks| -> u64 { marks.values().map(of).sum() };
        sum(after).saturating_sub(sum(before))
    };
    let still = match after.len() - gone_on(before, after) {
        0 => String::new(),
        still => format!("; not open again when the history expired: {still}"),
    };
    format!(
        "{} watches went on where the one before had stopped{still}; {} lists were made",
        since(|marks| marks.reopens),
        since(|marks| marks.relists)
    )
}

/// Returns whether every informer watches again.
fn have_gone_on(before: &AllMarks, after: &AllMarks) -> bool {
    gone_on(before, after) == after.len()
}

/// The number of informers that watch again.
fn gone_on(before: &AllMarks, after: &AllMarks) -> usize {
    let has_gone_on = |(title, after): &(&&'static str, &Marks)| {
        let before = before.get(**title).copied().unwrap_or_default();
        after.is_watching && after.reopens + after.relists > before.reopens + before.relists
    };
    after.iter().filter(has_gone_on).count()
}

fn marks(scene: Scene<'_>) -> AllMarks {
    let stats = scene.pipeline.stats().into_iter();
    stats
        .map(|(title, stats)| {
            let marks = Marks {
                reopens: stats.reopens,
                relists: stats.relists,
                expired: stats.relist_reasons.get("expired").copied().unwrap_or(0),
                is_watching: stats.watch_age.is_some(),
            };
            (title, marks)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(reopens: u64, relists: u64) -> Marks {
        Marks {
            reopens,
            relists,
            expired: 0,
            is_watching: true,
        }
    }

    #[test]
    fn a_watch_that_has_not_gone_on_is_told_once_the_history_has_expired() {
        let before = AllMarks::from([("nodes", marks(1, 0)), ("pods", marks(4, 2))]);
        let closed = Marks {
            is_watching: false,
            ..marks(5, 2)
        };
        let table = [
            (
                marks(5, 2),
                true,
                "2 watches went on where the one before had stopped; 0 lists were made",
            ),
            (
                marks(4, 3),
                true,
                "1 watches went on where the one before had stopped; 1 lists were made",
            ),
            (
                marks(4, 2),
                false,
                "1 watches went on where the one before had stopped; not open again when the history expired: 1; 0 lists were made",
            ),
            (
                closed,
                false,
                "2 watches went on where the one before had stopped; not open again when the history expired: 1; 0 lists were made",
            ),
        ];
        for (pods, have_all, line) in table {
            let after = AllMarks::from([("nodes", marks(2, 0)), ("pods", pods)]);
            assert_eq!(have_gone_on(&before, &after), have_all, "{pods:?}");
            assert_eq!(resumed(&before, &after), line);
        }
    }
}
