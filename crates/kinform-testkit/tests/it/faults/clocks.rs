//! F28 and F32: clocks that differ or stand still, processes that are paused.
//!
//! ```text
//! advance(60 s | 1 h) in one step │ a server whose minutes are another's ──▶ resume, or one list
//! ```
//!
//! An informer reads one clock, which only goes forward; the time of day is in its reports and in
//! `Retry-After` dates alone (`cargo xtask tidy` checks this), so a step of it moves no timer. Terms
//! of leaders have a clock that goes on in a suspended machine: see the tests of the election.

use std::time::Duration;

use kinform::ReportEvent;

use super::{BACKOFF, Cell, Check, SECOND, SILENCE, Setup, Stand, check, each};

/// The process stands still for so long, while the server writes and, if asked, forgets.
async fn paused(cell: Cell, time: Duration, forgets: bool) -> Check {
    let mut stand = Stand::start(cell).await?;
    stand.change(30).await?;
    if forgets {
        stand.server().cut_watches();
        stand.server().expire_history();
    }
    // No task runs meanwhile; then every timer is due at once.
    tokio::time::advance(time).await;
    stand.recovers(30 * SECOND).await?;
    let stats = stand.stats();
    check(stats.relists <= u64::from(forgets), || format!("{stats:?}"))?;
    stand.end().await
}

#[test]
fn f32_a_process_that_was_paused_for_a_minute_is_up_to_date_within_30_seconds() {
    let line = "F32 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        paused(cell, 60 * SECOND, false).await?;
        paused(cell, 60 * SECOND, true).await
    });
}

#[test]
fn f28_a_machine_that_slept_for_an_hour_is_up_to_date_within_30_seconds() {
    let line = "F28 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        paused(cell, 3600 * SECOND, false).await?;
        paused(cell, 3600 * SECOND, true).await
    });
}

#[test]
fn f28_a_server_whose_clock_runs_twice_or_half_as_fast_is_followed_without_a_list() {
    let line = "F28 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        // Bookmarks each 30 s or 2 min of ours, in place of each minute.
        let fast = Setup::of(cell).server(|builder| builder.bookmark_period(30 * SECOND));
        let slow = Setup::of(cell).server(|builder| builder.bookmark_period(120 * SECOND));
        for (setup, is_slow) in [(fast, false), (slow, true)] {
            let mut stand = setup.start().await?;
            tokio::time::sleep(20 * SILENCE).await;
            let silent = stand.reports(|event| matches!(event, ReportEvent::Silent { .. }));
            check((silent > 0) == is_slow, || format!("{silent} silences"))?;
            stand.recovers(BACKOFF).await?;
            check(stand.stats().relists == 0, || {
                format!("{:?}", stand.stats())
            })?;
            stand.end().await?;
        }
        Ok(())
    });
}
