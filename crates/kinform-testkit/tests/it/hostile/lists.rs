//! L1 to L4: lists that do not end, unpack to too much, or nest too deep.

use std::io::Write;

use flate2::write::GzEncoder;
use flate2::{Compression, FlushCompress};
use kinform::source::Compression as Wanted;

use super::server::{Call, Hostile, map, page};
use super::{Victim, alone, options};

/// The start of a list whose first item does not end.
fn endless_item() -> String {
    let whole = page("", &map("bomb", 5, r#","data":{"a":"#));
    whole.split_once(r#""a":"#).unwrap().0.to_owned() + r#""a":""#
}

/// A megabyte of letters, packed so that the same bytes may follow themselves for ever.
fn packed_piece() -> Vec<u8> {
    let mut packer = flate2::Compress::new(Compression::best(), false);
    let letters = vec![b'a'; 1 << 20];
    let mut packed = Vec::with_capacity(1 << 16);
    let flush = FlushCompress::Full;
    packer.compress_vec(&letters, &mut packed, flush).unwrap();
    assert_eq!(packer.total_in(), 1 << 20);
    packed
}

#[test]
fn l1_a_gzip_bomb_is_given_up_in_bounded_memory() {
    alone(
        "lists::l1_a_gzip_bomb_is_given_up_in_bounded_memory",
        async {
            let server = Hostile::start(|mut call: Call| async move {
                call.ok("content-encoding: gzip\r\n").await;
                // A header of gzip, stored bytes, then blocks of a thousandth of their size.
                let mut head = GzEncoder::new(Vec::new(), Compression::none());
                head.write_all(endless_item().as_bytes()).unwrap();
                head.flush().unwrap();
                let head = head.get_ref().clone();
                call.write(&head).await;
                call.write_for_ever(&packed_piece()).await;
            })
            .await;
            let victim = Victim::with(&server, options(), Wanted::Gzip);
            victim.fails("Garbled").await;
            let unpacked = victim.informer.stats().wire_bytes;
            assert!(unpacked > 256 << 20, "only {unpacked} bytes were unpacked");
            victim.end().await;
        },
    );
}

#[test]
fn l1_an_object_that_does_not_end_is_given_up_after_256_mib() {
    alone(
        "lists::l1_an_object_that_does_not_end_is_given_up_after_256_mib",
        async {
            let server = Hostile::start(|mut call: Call| async move {
                call.ok("").await;
                call.write(endless_item().as_bytes()).await;
                call.write_for_ever(&vec![b'a'; 1 << 20]).await;
            })
            .await;
            let victim = Victim::of(&server, options());
            victim.fails("Garbled").await;
            let read = victim.informer.stats().wire_bytes;
            assert!(read > 256 << 20, "only {read} bytes were read");
            victim.end().await;
        },
    );
}

#[test]
fn l1_a_refusal_that_does_not_end_is_cut() {
    alone("lists::l1_a_refusal_that_does_not_end_is_cut", async {
        let server = Hostile::start(|mut call: Call| async move {
            let head = "HTTP/1.1 500 Oh\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n";
            call.write(head.as_bytes()).await;
            call.write_for_ever(&vec![b'a'; 1 << 20]).await;
        })
        .await;
        let victim = Victim::of(&server, options());
        victim.fails("InternalError").await;
        let message = victim.informer.state().to_string();
        assert!(message.len() < 5_000, "{} bytes", message.len());
        victim.end().await;
    });
}

#[test]
fn l2_an_object_a_million_levels_deep_is_quarantined() {
    alone(
        "lists::l2_an_object_a_million_levels_deep_is_quarantined",
        async {
            let server = Hostile::start(|mut call: Call| async move {
                if call.is_watch() {
                    return call.nothing().await;
                }
                call.ok("").await;
                let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
                let deep = map("deep", 4, &format!(r#","data":{{"a":{deep}}}"#));
                let items = format!("{deep},{}", map("flat", 4, ""));
                call.write(page("", &items).as_bytes()).await;
            })
            .await;
            let victim = Victim::of(&server, options());
            victim.until(|stats| stats.lists == 1).await;
            let stats = victim.informer.stats();
            assert_eq!((stats.quarantined_now, stats.objects), (1, 1), "{stats:?}");
            victim.end().await;
        },
    );
}

/// A page of many small objects whose names begin with `prefix`.
fn many(prefix: &str, count: usize) -> String {
    let items: Vec<_> = (0..count)
        .map(|number| map(&format!("{prefix}-{number}"), 4, r#","data":{"a":"b"}"#))
        .collect();
    items.join(",")
}

#[test]
fn l3_pages_that_do_not_end_are_given_up_at_the_limit_of_objects() {
    alone(
        "lists::l3_pages_that_do_not_end_are_given_up_at_the_limit_of_objects",
        async {
            let server = Hostile::start(|mut call: Call| async move {
                call.ok("").await;
                let number = call.number;
                let items = many(&format!("page{number}"), 500);
                call.write(page(&format!("t{number}"), &items).as_bytes())
                    .await;
            })
            .await;
            let victim = Victim::of(&server, options());
            victim.fails("OverLimit").await;
            assert_eq!(victim.informer.stats().objects, 0);
            assert!(server.calls() >= 100, "{} pages", server.calls());
            victim.end().await;
        },
    );
}

#[test]
fn l3_a_list_that_does_not_end_is_given_up_at_the_limit_of_bytes() {
    alone(
        "lists::l3_a_list_that_does_not_end_is_given_up_at_the_limit_of_bytes",
        async {
            let server = Hostile::start(|mut call: Call| async move {
                call.ok("").await;
                let (begin, _) = page("", "")
                    .rsplit_once(']')
                    .map(|(a, b)| (a.to_owned(), b.to_owned()))
                    .unwrap();
                call.write(begin.as_bytes()).await;
                let filling = "x".repeat(100_000);
                for number in 0.. {
                    let rest = format!(r#","data":{{"a":"{filling}"}}"#);
                    let item = map(&format!("m{number}"), 4, &rest) + ",";
                    if !call.write(item.as_bytes()).await {
                        return;
                    }
                }
            })
            .await;
            let victim = Victim::of(&server, options());
            victim.fails("OverLimit").await;
            assert_eq!(victim.informer.stats().objects, 0);
            victim.end().await;
        },
    );
}

#[test]
fn l3_a_token_that_repeats_is_noticed_within_a_few_pages() {
    alone(
        "lists::l3_a_token_that_repeats_is_noticed_within_a_few_pages",
        async {
            let server = Hostile::start(|mut call: Call| async move {
                call.ok("").await;
                let items = many("same", 10);
                call.write(page("same", &items).as_bytes()).await;
            })
            .await;
            let victim = Victim::of(&server, options());
            victim.fails("Garbled").await;
            assert!(server.calls() <= 4, "{} pages", server.calls());
            victim.end().await;
        },
    );
}

#[test]
fn l4_many_labels_and_long_ones_cost_their_own_size() {
    alone(
        "lists::l4_many_labels_and_long_ones_cost_their_own_size",
        async {
            let server = Hostile::start(|mut call: Call| async move {
                if call.is_watch() {
                    return call.nothing().await;
                }
                call.ok("").await;
                let labels: Vec<_> = (0..200_000).map(|n| format!(r#""l{n}":"v{n}""#)).collect();
                let long = format!(r#""app":"{}""#, "x".repeat(8 << 20));
                let item = |name: &str, labels: &str| {
                    let uid = format!(r#""uid":"{name}""#);
                    map(name, 4, "").replace(&uid, &format!(r#"{uid},"labels":{{{labels}}}"#))
                };
                let items = [item("many", &labels.join(",")), item("long", &long)].join(",");
                call.write(page("", &items).as_bytes()).await;
            })
            .await;
            let victim = Victim::of(&server, options());
            let index = kinform::Index::label("app");
            let index = victim.informer.add_index(index).unwrap();
            victim.until(|stats| stats.lists == 1).await;
            // A value that long is in no index; the objects are stored.
            assert_eq!(victim.informer.stats().objects, 2);
            assert_eq!(index.get("x").len(), 0);
            victim.end().await;
        },
    );
}
