//! The part of a resource that is asked for, while it changes.
//!
//! ```text
//! scripts: what is wanted, in each phase → one list with the new selector
//! ```

use super::*;

/// Scripts that lead to each phase, and what an extension closes and voids there.
#[test]
fn an_extension_leads_to_one_list_with_the_new_selector_from_each_phase() {
    let synced = "start -> list rv=0 limit=500\n ok\n page 10 -> begin, end 10, watch rv=10\n";
    let watching = format!("{synced} ok\n +6\n");
    let table = [
        (
            "opening a list",
            "start -> list rv=0 limit=500".to_owned(),
            "close, list rv= limit=500 of s",
        ),
        (
            "reading a page",
            "start -> list rv=0 limit=500\n ok\n item a@7 -> begin, item a@7".to_owned(),
            "close, abort, list rv= limit=500 of s",
        ),
        (
            "between pages",
            "start -> list rv=0 limit=500\n ok\n item a@7 -> begin, item a@7
             page 10 t -> list rv= limit=500 token=t"
                .to_owned(),
            "close, abort, list rv= limit=500 of s",
        ),
        (
            "opening a watch",
            synced.to_owned(),
            "close, relist extended, list rv= limit=500 of s",
        ),
        (
            "watching",
            watching.clone(),
            "close, relist extended, list rv= limit=500 of s",
        ),
        (
            "probing",
            format!("{watching} cut -> probe\n ok"),
            "close, relist extended, list rv= limit=500 of s",
        ),
    ];
    for (phase, script, expected) in table {
        let config = ReflectorConfig {
            streaming_list: StreamingList::Never,
            ..ReflectorConfig::default()
        };
        let mut bench = Bench::new(config);
        bench.run(&script);
        bench.run(&format!("extend s -> {expected}"));
        bench.run(
            "ok
             item a@11 -> begin, item a@11
             page 12   -> end 12, watch rv=12 of s",
        );
        assert_eq!(bench.machine.state().as_str(), "synced", "{phase}");
    }
}

#[test]
fn an_idle_machine_starts_with_an_extension() {
    check(
        "extend s      -> stream rv= of s
         ok
         start
         add a@11      -> begin, item a@11
         end-mark 12   -> end 12",
    );
}

#[test]
fn a_streaming_list_that_runs_is_void_after_an_extension() {
    check(
        "start         -> stream rv=
         ok
         add a@11      -> begin, item a@11
         extend s      -> close, abort, stream rv= of s
         ok
         add a@11      -> begin, item a@11
         end-mark 12   -> end 12
         # The probe beside an empty stream is closed with it.
         extend t      -> close, relist extended, stream rv= of t
         ok
         end-mark 13   -> probe of t
         extend u      -> close, relist extended, stream rv= of u",
    );
}

#[test]
fn a_server_that_asked_to_wait_is_not_asked_sooner_by_an_extension() {
    check_paged(
        "start         -> list rv=0 limit=500
         http 429 3    -> retry too many requests
         extend s
         +1
         wait          -> list rv= limit=500 of s
         ok
         page 10       -> begin, end 10, watch rv=10 of s
         http 503      -> retry server unavailable
         extend t
         wait          -> relist extended, list rv= limit=500 of t
         ok
         page 11       -> begin, end 11, watch rv=11 of t",
    );
}

#[test]
fn the_reason_of_a_list_that_an_extension_voids_is_not_lost() {
    check_paged(
        "start         -> list rv=0 limit=500
         ok
         page 10       -> begin, end 10, watch rv=10
         ok
         +40
         diverged      -> close, relist diverged, list rv= limit=500
         ok
         item a@11     -> begin, item a@11
         extend s      -> close, abort, relist diverged, list rv= limit=500 of s",
    );
}

#[test]
fn what_is_wanted_less_changes_the_next_request_and_no_page_of_the_list_under_way() {
    check_paged(
        "extend s      -> list rv= limit=500 of s
         ok
         item a@7      -> begin, item a@7
         narrow t
         page 10 x     -> list rv= limit=500 token=x of s
         ok
         item b@8      -> item b@8
         page 10       -> end 10, watch rv=10 of t
         ok
         narrow u
         add c@11      -> added c@11
         +6
         ended         -> watch rv=11 of u",
    );
}

#[test]
fn nothing_is_asked_for_while_nothing_is_wanted() {
    check(
        "rest
         ?             -> synced
         extend s      -> stream rv= of s
         ok
         add a@11      -> begin, item a@11
         rest          -> close, abort
         timer
         relist
         ended
         ?             -> synced
         extend s      -> stream rv= of s
         ok
         add a@11      -> begin, item a@11
         end-mark 12   -> end 12
         add b@13      -> added b@13
         rest          -> close
         extend s      -> relist extended, stream rv= of s
         http 429 3    -> retry too many requests
         rest
         extend t      -> relist extended, stream rv= of t
         stop          -> close
         extend u
         rest",
    );
}

#[test]
fn an_event_outside_moves_the_position_and_no_more() {
    let mut bench = Bench::new(ReflectorConfig {
        streaming_list: StreamingList::Never,
        ..ReflectorConfig::default()
    });
    bench.run("start -> list rv=0 limit=500\n ok\n outside item\n outside item");
    assert_eq!(bench.machine.stats().outside, 2);
    bench.run("page 10 -> begin, end 10, watch rv=10\n ok\n outside add 11 -> mark 11");
    assert_eq!(bench.machine.stats().outside, 3);
    check_paged(
        "start         -> list rv=0 limit=500
         ok
         outside item
         item a@7      -> begin, item a@7
         page 10       -> end 10, watch rv=10
         ok
         outside add 11     -> mark 11
         outside mod 12     -> mark 12
         outside del 12     -> mark 12
         outside del 5
         outside del
         outside left a@14  -> deleted a@14
         +6
         ended              -> watch rv=14
         ok                 -> reopened 14
         outside mod 9      -> close, retry events out of order",
    );
}

#[test]
fn a_streaming_list_of_objects_outside_is_whole_and_empty() {
    check(
        "start                -> stream rv=
         ok
         outside add 7
         outside left a@8     -> begin, deleted a@8
         outside mod 9
         end-mark 12          -> end 12
         add b@13             -> added b@13",
    );
    check(
        "start                -> stream rv=
         ok
         outside add 7
         end-mark 12          -> begin, end 12",
    );
}

#[test]
fn a_list_of_objects_outside_confirms_an_empty_stream() {
    check(
        "extend s             -> stream rv= of s
         ok
         end-mark 12          -> probe of s
         ok
         outside item
         page 12              -> begin, end 12, resume",
    );
}
