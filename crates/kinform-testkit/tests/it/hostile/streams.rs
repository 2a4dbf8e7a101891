//! L1, L3 and L5: watches that flood, or send a frame without an end.

use std::time::{Duration, Instant};

use super::server::{Call, Hostile, map};
use super::{SECOND, Victim, alone, options};

fn frame(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

#[test]
fn l1_a_frame_that_does_not_end_is_given_up_after_256_mib() {
    alone(
        "streams::l1_a_frame_that_does_not_end_is_given_up_after_256_mib",
        async {
            let server = Hostile::start(|mut call: Call| async move {
                if !call.is_watch() {
                    return call.nothing().await;
                }
                call.ok("").await;
                call.write(br#"{"type":"ADDED","object":{"kind":"ConfigMap","data":{"a":""#)
                    .await;
                call.write_for_ever(&vec![b'a'; 1 << 20]).await;
            })
            .await;
            let victim = Victim::of(&server, options());
            // Too large for an object, and silent.
            victim
                .until(|stats| stats.silences + stats.retries > 0)
                .await;
            let read = victim.informer.stats().wire_bytes;
            assert!(read > 60 << 20, "only {read} bytes were read");
            victim.end().await;
        },
    );
}

#[test]
fn l1_a_first_list_as_a_stream_without_an_end_is_given_up() {
    alone(
        "streams::l1_a_first_list_as_a_stream_without_an_end_is_given_up",
        async {
            let server = Hostile::start(|mut call: Call| async move {
                if !call.is_watch() {
                    return call.nothing().await;
                }
                call.ok("").await;
                for number in 0.. {
                    let event = frame("ADDED", &map(&format!("m{number}"), 4, ""));
                    if !call.write(event.as_bytes()).await {
                        return;
                    }
                }
            })
            .await;
            let streaming = options().with_streaming_list(kinform::StreamingList::Preferred);
            let victim = Victim::of(&server, streaming);
            victim.fails("OverLimit").await;
            assert_eq!(victim.informer.stats().objects, 0);
            victim.end().await;
        },
    );
}

#[test]
fn l3_a_flood_of_keys_is_stopped_at_the_limit_of_objects() {
    alone(
        "streams::l3_a_flood_of_keys_is_stopped_at_the_limit_of_objects",
        async {
            let server = Hostile::start(|mut call: Call| async move {
                if !call.is_watch() {
                    return call.nothing().await;
                }
                call.ok("").await;
                for number in 10_u64.. {
                    let event = frame("ADDED", &map(&format!("m{number}"), number, ""));
                    if !call.write(event.as_bytes()).await {
                        return;
                    }
                }
            })
            .await;
            let victim = Victim::of(&server, options());
            victim
                .until(|stats| stats.relist_reasons.contains_key("over the limit"))
                .await;
            let begin = Instant::now();
            while begin.elapsed() < 3 * SECOND {
                // A batch of events is applied before it is counted.
                let objects = victim.informer.stats().objects;
                assert!(objects <= 60_000, "{objects} objects");
                tokio::time::sleep(SECOND / 20).await;
            }
            victim.end().await;
        },
    );
}

#[test]
fn l5_a_flood_of_events_of_one_key_keeps_two_states_of_it() {
    alone(
        "streams::l5_a_flood_of_events_of_one_key_keeps_two_states_of_it",
        async {
            let server = Hostile::start(|mut call: Call| async move {
                if !call.is_watch() {
                    return call.nothing().await;
                }
                call.ok("").await;
                let filling = format!(r#","data":{{"a":"{}"}}"#, "x".repeat(2_000));
                for version in 10_u64.. {
                    let event = frame("MODIFIED", &map("one", version, &filling));
                    if !call.write(event.as_bytes()).await {
                        return;
                    }
                }
            })
            .await;
            let victim = Victim::of(&server, options());
            let never = kinform_testkit::checks::event_checker::EventChecker::new("a slow handler");
            let slow = never.slow_handlers(Duration::from_secs(3600));
            let slow = victim.informer.add_handler(slow).unwrap();
            victim.until(|stats| stats.events > 200_000).await;
            assert_eq!(victim.informer.stats().objects, 1);
            assert!(slow.lag() > 0);
            victim.end().await;
        },
    );
}
