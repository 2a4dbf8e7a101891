//! Servers and proxies that do not stream lists as they should.
//!
//! ```text
//! scripts → machine → steps
//! ```
//!
//! Upstream has no counterpart: client-go believes an empty stream, and waits for its end for ever.

use super::*;

/// A machine that has synced with one object, and is to list again.
fn relisting() -> Bench {
    let mut bench = Bench::new(ReflectorConfig::default());
    bench.run(
        "start          -> stream rv=
         ok
         add a@3        -> begin, item a@3
         end-mark 9     -> end 9
         +60
         error 410      -> close, relist expired, stream rv=9
         ok",
    );
    bench
}

#[test]
fn k14_an_empty_stream_is_not_believed_where_a_list_has_an_object() {
    check(
        "start          -> stream rv=
         ok
         end-mark 900   -> probe
         ?              -> listing
         ok
         item a@10      -> close, fallback empty unlike a list remembered, list rv=0 limit=500
         item b@10
         page 900
         ok
         item a@10      -> begin, item a@10
         page 900       -> end 900, watch rv=900
         ok
         +60
         error 410      -> close, relist expired, list rv=900",
    );
}

#[test]
fn k14_an_empty_stream_deletes_nothing_in_a_relist() {
    relisting().run(
        "end-mark 900   -> probe
         ok
         bad-item 10    -> close, fallback empty unlike a list remembered, list rv=9",
    );
    // Only deletes: the list that they began is none.
    relisting().run(
        "del a@10       -> begin, deleted a@10
         end-mark 900   -> abort, probe
         ok
         item a@3       -> close, fallback empty unlike a list remembered, list rv=9",
    );
    // Items may hide on a later page, and a replica that lags proves nothing.
    for page in ["page 900 more", "page 899"] {
        relisting().run(&format!(
            "end-mark 900   -> probe
             ok
             {page}         -> close, fallback empty unlike a list remembered, list rv=9"
        ));
    }
}

#[test]
fn an_empty_stream_that_a_list_confirms_is_a_list_and_the_watch() {
    for page in ["901", "900", "\"\"", "0"] {
        relisting().run(&format!(
            "end-mark 900   -> probe
             ok
             page {page}    -> begin, end 900, resume
             ?              -> synced
             mod b@901      -> updated b@901
             +6
             ended          -> watch rv=901"
        ));
    }
}

#[test]
fn what_follows_an_empty_stream_at_once_is_asked_for_again() {
    for more in ["add b@901", "mark 901", "garbled"] {
        for (page, version) in [("901", "901"), ("\"\"", "900")] {
            relisting().run(&format!(
                "end-mark 900   -> probe
                 {more}         -> close, probe
                 ended
                 ok
                 page {page}    -> begin, end {version}, watch rv={version}
                 ok
                 mod b@950      -> updated b@950"
            ));
        }
    }
}

#[test]
fn a_confirmation_that_is_put_off_is_tried_again_and_one_that_is_forbidden_is_not_needed() {
    let failures = [
        ("refused", "connection refused"),
        ("http 429", "too many requests"),
        ("http 404", "not found"),
        ("ok\n cut", "connection failed"),
        ("ok\n garbled", "reply makes no sense"),
        ("ok\n +120", "connection failed"),
    ];
    for (failure, kind) in failures {
        relisting().run(&format!(
            "end-mark 900   -> probe
             {failure}      -> close, retry {kind}
             wait           -> stream rv=9
             ok
             add a@3        -> begin, item a@3
             end-mark 900   -> end 900"
        ));
    }
    // The same stream would ask the same again: a selector may be slow to answer each time.
    for failure in ["http 500", "http 504", "+120"] {
        relisting().run(&format!(
            "end-mark 900   -> probe
             {failure}      -> close, fallback failed, list rv=9"
        ));
    }
    // client-go needs no right to list here, either.
    for refusal in ["http 403", "http 405"] {
        relisting().run(&format!(
            "end-mark 900   -> probe
             {refusal}      -> begin, end 900, resume"
        ));
    }
    relisting().run("end-mark 900 -> probe\n ok\n relist\n stop -> close\n ? -> stopped");
}

#[test]
fn an_ordinary_bookmark_in_a_streaming_list_tells_an_ordinary_watch() {
    let fallback = "fallback ordinary watch remembered";
    check(&format!(
        "start          -> stream rv=
         ok
         mark 5         -> close, {fallback}, list rv=0 limit=500
         ok
         item a@3       -> begin, item a@3
         page 5         -> end 5, watch rv=5"
    ));
    relisting().run(&format!(
        "mod b@11       -> begin, updated b@11
         mark 12        -> close, abort, {fallback}, list rv=9"
    ));
}

#[test]
fn a_reply_that_a_proxy_holds_back_is_given_up_after_three_seconds() {
    let fallback = "close, fallback no progress remembered, list rv=0 limit=500";
    check(&format!("start -> stream rv=\n +3 -> {fallback}"));
    check(&format!("start -> stream rv=\n +2\n ok\n +1 -> {fallback}"));
    // Once it has begun, it has the time that a large object may take.
    check(&format!(
        "start -> stream rv=\n ok\n +2\n bytes\n +28 -> {fallback}"
    ));
    let slow = ReflectorConfig {
        first_byte_limit: Duration::from_secs(20),
        ..ReflectorConfig::default()
    };
    Bench::new(slow).run(&format!(
        "start -> stream rv=\n ok\n +19\n +1 -> {fallback}"
    ));
}

#[test]
fn k15_bytes_without_an_event_are_silence() {
    let mut bench = Bench::new(ReflectorConfig::default());
    bench.run("start -> stream rv=\n ok\n add a@3 -> begin, item a@3\n end-mark 9 -> end 9");
    let heard = bench.machine.heard_at();
    for _ in 0..8 {
        bench.run("+10\n bytes");
    }
    assert_eq!(bench.machine.heard_at(), heard);
    bench.run("+10 -> silent, close, probe\n ok\n page 9 -> watch rv=9\n ok -> reopened 9");
    // The time that the shell works on a chunk is not the server's silence.
    bench.run("+80\n bytes\n +5\n unblocked 5\n +9\n +1 -> silent, close, probe");

    check(
        "start          -> stream rv=
         bytes
         ok
         bytes
         +20
         bytes
         +10            -> close, fallback no progress remembered, list rv=0 limit=500
         ok
         +60
         bytes
         +59
         +1             -> close, retry connection failed",
    );
}
