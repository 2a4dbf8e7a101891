//! F8 to F14, F21 and F31: what a server replies in place of a list or a watch.
//!
//! ```text
//! 410, 429, 5xx, 401, 403, 404, no end of the initial events ──▶ wait, relist, or list in another way
//! ```

use std::time::Duration;

use kinform::{FirstList, InformerState, ReportEvent, Status};
use kinform_testkit::Fault;
use kinform_testkit::checks::stage::StageError;

use super::{BACKOFF, Cell, Check, SECOND, Setup, Stand, check, each};

fn expired() -> Status {
    Status::expired("The resourceVersion for the provided watch is too old.")
}

#[test]
fn f8_history_that_expires_in_the_stream_is_one_list_with_all_deletes() {
    let line = "F8 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        let mut stand = Stand::start(cell).await?;
        stand.meets(Fault::ErrorEvent(expired()), "watch", 1);
        stand.outage();
        for _ in 0..5 {
            stand.writer.recreate().await?;
        }
        stand.change(40).await?;
        stand.network().set(kinform_testkit::ProxyMode::Pass);
        stand.recovers(BACKOFF).await?;
        stand.relisted("expired")?;
        stand.end().await
    });
}

#[test]
fn f9_history_that_expired_before_the_watch_is_one_list_too() {
    let line = "F9 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        let mut stand = Stand::start(cell).await?;
        stand.meets(Fault::Reply(expired()), "watch", 1);
        stand.outage();
        for _ in 0..5 {
            stand.writer.recreate().await?;
        }
        stand.change(40).await?;
        stand.network().set(kinform_testkit::ProxyMode::Pass);
        stand.recovers(BACKOFF).await?;
        let gone = stand.requests();
        let gone = gone.iter().filter(|record| record.code == 410).count();
        check(gone == 1, || format!("{:?}", stand.requests()))?;
        stand.relisted("expired")?;
        stand.end().await
    });
}

// no fault: F10 json,protobuf x stream x in-order,coalescing: a streaming list has no pages
#[test]
fn f10_a_page_that_expired_makes_it_one_list_in_one_piece() {
    let line = "F10 json,protobuf x list x in-order,coalescing";
    each(line, async |cell| {
        let paged = Setup::of(cell).options(|options| {
            options
                .with_page_size(5)
                .with_first_list(FirstList::MostRecent)
        });
        let mut stand = paged.prepare().await?;
        let rule = kinform_apiserver::FaultRule::new(Fault::Reply(expired()));
        let rule = rule.on_verb("list").on_resource("configmaps").from_nth(2);
        stand.server().faults().inject(rule);
        stand.factory.start()?;
        // The writer lists, too.
        tokio::time::sleep(SECOND).await;
        stand.agrees(SECOND).await?;
        let queries: Vec<String> = stand.requests().into_iter().map(|r| r.query).collect();
        let is_page = |query: &&String| query.contains("limit=5");
        let pages = queries.iter().filter(is_page).count();
        check(pages == 2 && stand.stats().lists == 1, || {
            format!("{queries:?}")
        })?;
        stand.recovers(SECOND).await?;
        stand.end().await
    });
}

/// The pause before the request that follows the first refused one.
async fn pause_after_429(
    cell: Cell,
    seconds: u32,
    limit: Duration,
) -> Result<Duration, StageError> {
    let mut stand = Stand::start(cell).await?;
    stand.outage();
    stand.change(5).await?;
    stand.heal();
    let busy = Fault::Foreign {
        code: 429,
        media: "text/plain",
        body: "Too many requests, please try again later.",
        retry_after: Some(seconds),
    };
    stand.meets(busy, "watch", 1);
    stand.recovers(limit).await?;
    stand.only_resumed()?;
    let requests = stand.requests();
    let at = requests.iter().position(|record| record.code == 429);
    let at = at.ok_or("there was no 429")?;
    let pause = requests[at + 1].started - requests[at].started;
    let failures = stand.failures();
    check(failures.contains(&"TooManyRequests".to_owned()), || {
        format!("{failures:?}")
    })?;
    stand.end().await?;
    Ok(pause)
}

#[test]
fn f11_a_server_that_asks_to_wait_is_given_the_time_up_to_five_minutes() {
    let line = "F11 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        let pause = pause_after_429(cell, 17, 60 * SECOND).await?;
        check(pause >= 17 * SECOND && pause < 20 * SECOND, || {
            format!("{pause:?}")
        })?;
        let minutes = 60 * SECOND;
        let pause = pause_after_429(cell, u32::MAX, 10 * minutes).await?;
        // Stretched, so that clients do not come back together.
        check(pause >= 5 * minutes && pause <= 6 * minutes, || {
            format!("{pause:?}")
        })
    });
}

#[test]
fn f12_a_server_that_fails_is_asked_slowly_while_the_cache_is_served_with_its_age() {
    let line = "F12 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        for code in [500, 502, 503, 504] {
            let mut stand = Stand::start(cell).await?;
            let reply = Fault::Reply(Status::failure(code, "", "chaos"));
            stand.meets(reply.clone(), "watch", usize::MAX);
            stand.meets(reply, "list", usize::MAX);
            stand.server().cut_watches();
            stand.change(5).await?;
            let before = stand.stats().requests;
            tokio::time::sleep(60 * SECOND).await;
            let state = stand.informer.state();
            check(matches!(state, InformerState::Stale { .. }), || {
                format!("{code}: {state}")
            })?;
            check(!stand.informer.list().is_empty(), || "empty".to_owned())?;
            let asked = stand.stats().requests - before;
            check((3..20).contains(&asked), || {
                format!("{code}: {asked} requests in a minute")
            })?;
            stand.heal();
            stand.recovers(BACKOFF).await?;
            stand.end().await?;
        }
        Ok(())
    });
}

#[test]
fn f13_a_version_that_is_too_large_is_asked_for_once_then_the_most_recent_state() {
    let line = "F13 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        let mut stand = Stand::start(cell).await?;
        let large = || Fault::Reply(Status::too_large_resource_version(4_000, 30));
        stand.outage();
        stand.change(5).await?;
        stand.heal();
        stand.meets(large(), "watch", 1);
        stand.recovers(BACKOFF).await?;
        stand.relisted("too large version")?;
        let requests = stand.requests();
        let refused = requests.iter().position(|record| record.code == 504);
        let next = &requests[refused.ok_or("nothing was too large")? + 1];
        // The ladder: no version at all is the most recent state.
        check(!next.query.contains("resourceVersion="), || {
            next.query.clone()
        })?;
        stand.end().await
    });
}

async fn refused(cell: Cell, code: u16, reason: &str) -> Check {
    let mut stand = Stand::start(cell).await?;
    let reply = Fault::Reply(Status::failure(code, reason, "no"));
    stand.meets(reply.clone(), "watch", usize::MAX);
    stand.meets(reply, "list", usize::MAX);
    stand.server().cut_watches();
    stand.change(5).await?;
    let before = stand.stats().requests;
    tokio::time::sleep(120 * SECOND).await;
    let state = stand.informer.state();
    check(matches!(state, InformerState::Forbidden(_)), || {
        format!("{code}: {state}")
    })?;
    let asked = stand.stats().requests - before;
    check((3..20).contains(&asked), || {
        format!("{code}: {asked} requests in two minutes")
    })?;
    stand.heal();
    stand.recovers(BACKOFF).await?;
    stand.end().await
}

#[test]
fn f14_refused_credentials_are_a_state_with_few_requests_and_heal() {
    let line = "F14 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        refused(cell, 401, "Unauthorized").await?;
        refused(cell, 403, "Forbidden").await
    });
}

// no fault: F21 json,protobuf x list x in-order,coalescing: pages have no end bookmark
#[test]
fn f21_a_streaming_list_without_an_end_becomes_pages_which_is_remembered() {
    let line = "F21 json,protobuf x stream x in-order,coalescing";
    each(line, async |cell| {
        let mut stand = Setup::of(cell).prepare().await?;
        stand.server().faults().without_initial_events_end();
        stand.factory.start()?;
        // All events are there, and then nothing for 30 s.
        stand.agrees(31 * SECOND).await?;
        let fell_back = |event: &ReportEvent| matches!(event, ReportEvent::FellBack { .. });
        check(stand.reports(fell_back) == 1, || {
            format!("{:?}", stand.reported)
        })?;
        tokio::time::sleep(10 * SECOND).await;
        // The next list asks for no stream: that is known of this server now.
        stand.informer.relist();
        stand.recovers(BACKOFF).await?;
        check(stand.reports(fell_back) == 1, || {
            format!("{:?}", stand.reported)
        })?;
        stand.end().await
    });
}

#[test]
fn f31_a_kind_or_a_namespace_that_goes_and_comes_back_is_followed() {
    let line = "F31 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        let mut stand = Stand::start(cell).await?;
        let gone = Fault::Reply(Status::no_such_resource());
        stand.meets(gone.clone(), "watch", usize::MAX);
        stand.meets(gone, "list", usize::MAX);
        stand.server().cut_watches();
        stand.change(5).await?;
        let before = stand.stats().requests;
        tokio::time::sleep(120 * SECOND).await;
        let state = stand.informer.state();
        check(matches!(state, InformerState::NoSuchKind(_)), || {
            format!("{state}")
        })?;
        let asked = stand.stats().requests - before;
        check((3..20).contains(&asked), || format!("{asked} requests"))?;
        stand.heal();
        stand.recovers(BACKOFF).await?;

        stand.delete("/api/v1/namespaces/apple").await?;
        stand.server().settled().await.map_err(|why| why.message)?;
        stand.agrees(SECOND).await?;
        let left = stand.informer.list().keys();
        let is_left = left.iter().any(|key| key.namespace() == Some("apple"));
        check(!is_left, || format!("{left:?}"))?;
        stand.writer.namespaces().await?;
        stand.recovers(SECOND).await?;
        stand.end().await
    });
}
