//! F1 to F6 and F15: connections that break, end, or stay open without a word.
//!
//! ```text
//! Link { cut, refuse, stall } │ server { stalls its watches } │ Tamper { trickles } ──▶ resume, no list
//! ```
//!
//! HTTP/2 and real sockets are in `peers.rs`.

use std::time::Duration;

use kinform::{InformerState, ReportEvent};
use kinform_testkit::{Loss, ProxyMode};

use super::{BACKOFF, Frames, SECOND, SILENCE, Setup, Stand, check, each};

#[test]
fn f1_a_connection_that_breaks_in_a_frame_is_resumed_without_a_list() {
    let line = "F1 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        let mut stand = Stand::start(cell).await?;
        // In the middle of the first of these events; and nobody listens any more.
        stand.network().set(ProxyMode::Refuse);
        stand.network().cut_after(90);
        stand.change(5).await?;
        tokio::time::sleep(20 * SECOND).await;
        let requests = stand.stats().requests;
        stand.heal();
        stand.recovers(BACKOFF).await?;
        stand.only_resumed()?;
        let failures = stand.failures();
        check(failures.contains(&"ConnectionRefused".to_owned()), || {
            format!("{failures:?}")
        })?;
        // 0.8 s, doubled each time: five waits in 20 s at most, after the request that broke.
        check(requests <= 9, || format!("{requests} requests"))?;
        stand.end().await
    });
}

#[test]
fn f2_a_watch_that_ends_cleanly_is_resumed_at_once_and_is_no_failure() {
    let line = "F2 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        let mut stand = Stand::start(cell).await?;
        stand.server().cut_watches();
        stand.change(5).await?;
        stand.recovers(SECOND).await?;
        stand.only_resumed()?;
        check(stand.failures().is_empty(), || {
            format!("{:?}", stand.failures())
        })?;
        stand.end().await
    });
}

#[test]
fn f3_a_connection_that_is_dead_both_ways_is_given_up_and_the_informer_says_stale() {
    let line = "F3 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        let mut stand = Stand::start(cell).await?;
        stand.network().set(ProxyMode::Stall);
        stand.change(5).await?;
        let is_stale = |state: &InformerState| matches!(state, InformerState::Stale { .. });
        let stale = stand.informer.state_when(is_stale);
        let noticed = tokio::time::timeout(SILENCE + BACKOFF, stale).await;
        check(noticed.is_ok(), || format!("{}", stand.informer.state()))?;
        check(stand.stats().silences > 0, || {
            format!("{:?}", stand.stats())
        })?;
        // What is cached is served meanwhile.
        check(!stand.informer.list().is_empty(), || "empty".to_owned())?;
        stand.heal();
        stand.recovers(SILENCE).await?;
        check(stand.stats().relists == 0, || {
            format!("{:?}", stand.stats())
        })?;
        stand.end().await
    });
}

#[test]
fn f4_a_proxy_that_acknowledges_and_forwards_nothing_is_noticed_by_silence() {
    let line = "F4 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        let mut stand = Stand::start(cell).await?;
        stand.server().faults().stall_watches();
        stand.change(5).await?;
        tokio::time::sleep(SILENCE + SECOND).await;
        check(stand.stats().silences == 1, || {
            format!("{:?}", stand.stats())
        })?;
        stand.heal();
        stand.recovers(SILENCE).await?;
        check(stand.stats().relists == 0, || {
            format!("{:?}", stand.stats())
        })?;
        stand.end().await
    });
}

#[test]
fn f4_a_proxy_that_holds_watches_back_for_ever_and_lets_lists_pass_is_found_out() {
    let line = "F4 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        let mut stand = Stand::start(cell).await?;
        stand.server().faults().stall_watches();
        for lists in 1..5 {
            stand.change(5).await?;
            stand.agrees(4 * SILENCE).await?;
            let stats = stand.stats();
            let made = stats.relist_reasons.get("silent watch").copied();
            check(made == Some(lists), || format!("{stats:?}"))?;
        }
        // Nothing changes here, and much elsewhere: five lists more in two hours.
        for number in 0..120 {
            tokio::time::sleep(60 * SECOND).await;
            stand.elsewhere(number).await?;
        }
        let stats = stand.stats();
        let made = stats.relist_reasons.get("silent watch").copied();
        check(made == Some(9), || format!("{stats:?}"))?;
        stand.heal();
        stand.recovers(SILENCE).await?;
        stand.end().await
    });
}

#[test]
fn f5_a_middlebox_that_forgets_idle_connections_costs_90_seconds_at_most() {
    let line = "F5 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        for idle in [60, 240, 350] {
            let mut stand = Stand::start(cell).await?;
            stand.server().faults().without_bookmarks();
            tokio::time::sleep(Duration::from_secs(idle)).await;
            // Forgotten: bytes of this connection go nowhere, those of a new one do.
            stand.server().faults().stall_watches();
            stand.change(5).await?;
            tokio::time::sleep(SECOND).await;
            let begin = tokio::time::Instant::now();
            while stand.stats().silences == 0 || stand.informer.state().trouble().is_some() {
                tokio::time::sleep(SECOND).await;
                check(begin.elapsed() < SILENCE + SECOND, || {
                    format!("after {idle} s: {:?}", stand.stats())
                })?;
            }
            stand.heal();
            stand.recovers(SILENCE + BACKOFF).await?;
            check(stand.stats().relists == 0, || {
                format!("{:?}", stand.stats())
            })?;
            stand.end().await?;
        }
        Ok(())
    });
}

#[test]
fn f6_a_peer_that_trickles_is_given_up() {
    let line = "F6 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        // A first list of which a byte comes each second: pages have 2 min, a stream 30 s an event.
        let mut stand = Setup::of(cell).prepare().await?;
        stand.tamper.set(Frames::Trickle);
        stand.factory.start()?;
        tokio::time::sleep(125 * SECOND).await;
        let fell_back = stand.reports(|report| matches!(report, ReportEvent::FellBack { .. }));
        let is_given_up = fell_back + stand.failures().len();
        check(is_given_up > 0, || format!("{:?}", stand.reported))?;
        stand.tamper.set(Frames::Pass);
        stand.agrees(120 * SECOND + BACKOFF).await?;
        tokio::time::sleep(10 * SECOND).await;

        // A watch that has bytes all the time, and never an event.
        stand.tamper.set(Frames::Trickle);
        stand.change(5).await?;
        tokio::time::sleep(SILENCE + 2 * SECOND).await;
        let silent = stand.reports(|report| matches!(report, ReportEvent::Silent { .. }));
        check(silent == 1, || format!("{:?}", stand.reported))?;
        stand.tamper.set(Frames::Pass);
        stand.recovers(SILENCE + BACKOFF).await?;
        check(stand.stats().relists == 0, || {
            format!("{:?}", stand.stats())
        })?;
        stand.end().await
    });
}

#[test]
fn f15_a_server_that_restarts_with_its_history_is_resumed() {
    let line = "F15 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        let mut stand = Stand::start(cell).await?;
        stand.outage();
        stand.change(5).await?;
        stand.restart(Loss::Nothing).await?;
        stand.change(5).await?;
        tokio::time::sleep(5 * SECOND).await;
        stand.heal();
        stand.recovers(BACKOFF).await?;
        stand.only_resumed()?;
        stand.end().await
    });
}
