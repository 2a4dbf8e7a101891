//! The writes of replicas, in the order in which they took effect, and whether terms interleave.
//!
//! ```text
//! ConfigMap (annotations name, uid, term) ──watch──▶ Beats ──▶ blocks of one term each; late writes
//! ```
//!
//! A term is named by the lease's uid and the version that took it. A write is late if another term wrote
//! after the first write of its own term: no order of terms is needed, so a server that lost its
//! versions is no exception.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kinform_testkit::checks::stage::StageError;
use kube::api::{Api, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};

use crate::process::PATIENCE;

/// The pause before another watch, and between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// A write that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The replica.
    pub name: String,
    /// Uid and version of the lease that it had.
    pub term: (String, String),
}

/// All writes to one object so far. Clones are of the same.
#[derive(Clone, Debug, Default)]
pub struct Beats(Arc<Mutex<Vec<Beat>>>);

impl Beats {
    /// The writes so far.
    pub fn all(&self) -> Vec<Beat> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until `is_it` holds of a write after the first `seen` ones; returns it.
    ///
    /// # Errors
    /// It does not, in time.
    pub async fn until(
        &self,
        seen: usize,
        is_it: impl Fn(&Beat) -> bool,
    ) -> Result<Beat, StageError> {
        let began = Instant::now();
        loop {
            let all = self.all();
            if let Some(beat) = all.iter().skip(seen).find(|beat| is_it(beat)) {
                return Ok(beat.clone());
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("no such write after {:?}", all.last()).into());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn push(&self, map: &ConfigMap) {
        let told = |key: &str| map.annotations().get(key).cloned().unwrap_or_default();
        let beat = Beat {
            name: told("name"),
            term: (told("uid"), told("term")),
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(beat);
    }

    /// Follows the object from a version on, each of its versions in order, until it is dropped.
    /// Watches that end are opened again where they ended. A server that has forgotten the versions
    /// since then, as one that was started again, shows the last of them.
    pub async fn follow(self, client: Client, object: String, mut from: String) {
        let maps: Api<ConfigMap> = Api::namespaced(client, "default");
        let params = WatchParams::default()
            .fields(&format!("metadata.name={object}"))
            .timeout(290);
        loop {
            if let Ok(watch) = maps.watch(&params, &from).await {
                let mut watch = std::pin::pin!(watch);
                while let Some(Ok(event)) = watch.next().await {
                    let map = match event {
                        WatchEvent::Modified(map) => map,
                        WatchEvent::Error(_) => match maps.get(&object).await {
                            Ok(map) => map,
                            Err(_) => break,
                        },
                        _ => continue,
                    };
                    self.push(&map);
                    from = map.resource_version().unwrap_or(from);
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The number of terms, and the writes of a term that came after another had begun.
pub fn late(beats: &[Beat]) -> (usize, Vec<Beat>) {
    let (mut over, mut late, mut now) = (HashSet::new(), Vec::new(), None);
    for beat in beats {
        if now == Some(&beat.term) {
            continue;
        }
        if over.contains(&beat.term) {
            late.push(beat.clone());
            continue;
        }
        over.extend(now);
        now = Some(&beat.term);
    }
    (over.len() + usize::from(now.is_some()), late)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_late_if_another_term_wrote_since_its_own_began() {
        let beats = |terms: &str| -> Vec<Beat> {
            let beat = |term: char| Beat {
                name: "a".to_owned(),
                term: ("uid".to_owned(), term.to_string()),
            };
            terms.chars().map(beat).collect()
        };
        for (terms, number, late_ones) in [
            ("", 0, ""),
            ("111", 1, ""),
            ("1122", 2, ""),
            ("11212", 2, "1"),
            ("112113", 3, "11"),
            ("213", 3, ""),
        ] {
            assert_eq!(late(&beats(terms)), (number, beats(late_ones)), "{terms}");
        }
    }
}
