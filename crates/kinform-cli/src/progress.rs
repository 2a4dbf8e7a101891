//! Progress of a long sync on stderr: objects, bytes, and an estimate of the rest.
//!
//! ```text
//! counters of informers, number of objects of the server ──every 2 s──▶ a line for each type that is not synced
//! ```
//!
//! A short sync prints nothing. The server is asked once how many objects it has; with selectors it
//! does not say, and the line has no estimate.

use std::time::Duration;

use kinform::Informer;
use kinform::source::{ResourceInfo, fetch};
use kube_client::Client;
use kube_core::DynamicObject;
use serde::Deserialize;
use tokio::time::Instant;

/// The time between two lines.
const PERIOD: Duration = Duration::from_secs(2);
/// BOUND: bytes of the list with one object.
const MAX_PAGE: usize = 16 << 20;

/// An informer whose sync is reported.
#[derive(Debug)]
struct Syncing {
    title: String,
    informer: Informer<DynamicObject>,
    /// The number of objects, once the server was asked; `None` if it does not say.
    total: Option<Option<u64>>,
}

/// Tells of syncs until all are done. To be dropped when nobody waits for them any more.
///
/// # Cancel safety
/// Nothing is lost.
pub(crate) async fn tell(client: Client, informers: Vec<(String, Informer<DynamicObject>)>) {
    let started = Instant::now();
    let mut syncing: Vec<Syncing> = informers
        .into_iter()
        .map(|(title, informer)| Syncing {
            title,
            informer,
            total: None,
        })
        .collect();
    loop {
        tokio::time::sleep(PERIOD).await;
        syncing.retain(|one| !one.informer.has_synced());
        if syncing.is_empty() {
            return;
        }
        for one in &mut syncing {
            let stats = one.informer.stats();
            let read = stats.items + stats.events;
            // A server that does not answer has no progress to tell of.
            if stats.wire_bytes == 0 {
                continue;
            }
            let total = match one.total {
                Some(total) => total,
                None => *one
                    .total
                    .insert(count(&client, one.informer.resource()).await),
            };
            crate::progress!(
                "{}: {}",
                one.title,
                line(read, stats.wire_bytes, total, started.elapsed())
            );
        }
    }
}

/// The number of objects that a list would have.
async fn count(client: &Client, info: &ResourceInfo) -> Option<u64> {
    #[derive(Deserialize)]
    struct List {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        remaining_item_count: Option<u64>,
    }
    if info.label_selector.is_some() || info.field_selector.is_some() {
        return None;
    }
    let path = format!("{}?limit=1", info.resource.path(info.namespace.as_deref()));
    let body = fetch(client, &path, MAX_PAGE).await.ok()?;
    let list: List = serde_json::from_slice(&body).ok()?;
    list.metadata.remaining_item_count.map(|rest| rest + 1)
}

/// `12,345 of 48,210 objects, 34 MB, about 12 s left`.
fn line(read: u64, bytes: u64, total: Option<u64>, elapsed: Duration) -> String {
    let mega = bytes as f64 / 1e6;
    let Some(total) = total.filter(|total| *total >= read) else {
        return format!("{} objects, {mega:.1} MB", grouped(read));
    };
    let left = match read {
        0 => String::new(),
        read => {
            let seconds = elapsed.as_secs_f64() * (total - read) as f64 / read as f64;
            format!(", about {seconds:.0} s left")
        }
    };
    format!(
        "{} of {} objects, {mega:.1} MB{left}",
        grouped(read),
        grouped(total)
    )
}

/// Digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_objects_bytes_and_an_estimate_where_there_is_one() {
        for (read, total, expected) in [
            (
                12_345,
                Some(49_380),
                "12,345 of 49,380 objects, 34.0 MB, about 6 s left",
            ),
            (12_345, None, "12,345 objects, 34.0 MB"),
            (12_345, Some(10), "12,345 objects, 34.0 MB"),
            (0, Some(10), "0 of 10 objects, 34.0 MB"),
            (
                1_234_567,
                Some(1_234_567),
                "1,234,567 of 1,234,567 objects, 34.0 MB, about 0 s left",
            ),
        ] {
            assert_eq!(
                line(read, 34_000_000, total, Duration::from_secs(2)),
                expected
            );
        }
    }
}
