//! F16 to F20: servers that go back in time, lag, repeat, reorder or lose events.
//!
//! ```text
//! a restored server │ a replayed list │ Tamper { twice, swapped, lost } ──▶ no step back, one list at most
//! ```

use futures::stream::{self, StreamExt};
use kinform::source::{Body, Wire};
use kinform::{Encoding, ReportEvent};
use kinform_testkit::Loss;

use super::{BACKOFF, Frames, SECOND, SILENCE, Setup, Stand, Way, check, each};

#[test]
fn f16_a_server_that_was_restored_is_believed_and_what_it_lost_is_deleted() {
    let line = "F16 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        let mut stand = Stand::start(cell).await?;
        stand.outage();
        stand.restart(Loss::Everything).await?;
        stand.change(2).await?;
        tokio::time::sleep(5 * SECOND).await;
        stand.heal();
        // The server takes a watch of a version still to come; a silent one is asked about.
        stand.recovers(SILENCE + 2 * BACKOFF).await?;
        let back = stand.reports(|event| matches!(event, ReportEvent::ServerWentBack { .. }));
        check(back == 1, || format!("{:?}", stand.reported))?;
        check(stand.stats().relists <= 2, || {
            format!("{:?}", stand.stats())
        })?;
        stand.end().await
    });
}

#[test]
fn f17_a_replica_that_lags_never_takes_the_cache_back() {
    let line = "F17 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        let mut stand = Setup::of(cell).prepare().await?;
        stand.tamper.record();
        stand.factory.start()?;
        stand.agrees(5 * SECOND).await?;
        let past = stand.tamper.recorded();
        stand.change(30).await?;
        stand.agrees(SECOND).await?;
        tokio::time::sleep(10 * SECOND).await;
        // The list that is asked for comes from a replica that has not seen these writes.
        let encoding = match cell.wire {
            Wire::Json => Encoding::Json,
            _ => Encoding::Protobuf,
        };
        stand.tamper.reply(move || {
            let pieces = stream::iter(past).map(Ok);
            Ok(match cell.way {
                Way::List => Body::new(encoding, pieces),
                Way::Stream => Body::new(encoding, pieces.chain(stream::pending())),
            })
        });
        stand.informer.relist();
        stand.recovers(SECOND).await?;
        // Asked again for the most recent state, at once.
        check(stand.stats().relists == 1, || {
            format!("{:?}", stand.stats())
        })?;
        let last = stand
            .requests()
            .into_iter()
            .rfind(|r| r.verb == cell.list_verb());
        let query = last.map(|record| record.query).unwrap_or_default();
        let is_recent = !query.contains("resourceVersion=");
        check(cell.way == Way::Stream || is_recent, || query)?;
        stand.end().await
    });
}

#[test]
fn f18_events_that_come_twice_are_heard_once() {
    let line = "F18 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        let mut stand = Stand::start(cell).await?;
        stand.tamper.set(Frames::Duplicate);
        stand.change(30).await?;
        stand.recovers(SECOND).await?;
        check(stand.stats().relists == 0, || {
            format!("{:?}", stand.stats())
        })?;
        stand.end().await
    });
}

#[test]
fn f19_events_in_another_order_are_noticed_and_listed_again() {
    let line = "F19 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        let mut stand = Stand::start(cell).await?;
        stand.tamper.set(Frames::Swap);
        stand.put("one", 1).await?;
        stand.put("two", 1).await?;
        stand.recovers(BACKOFF).await?;
        stand.relisted("out of order")?;
        stand.end().await
    });
}

#[test]
fn f20_an_event_that_the_server_lost_is_found_by_the_next_comparison() {
    let line = "F20 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        let period = 60 * SECOND;
        let setup = Setup::of(cell).options(|options| options.with_audit_period(period));
        let mut stand = setup.start().await?;
        stand.tamper.set(Frames::Drop);
        stand.put("one", 1).await?;
        tokio::time::sleep(SECOND).await;
        check(stand.agrees(SECOND / 2).await.is_err(), || {
            "nothing was lost".to_owned()
        })?;
        stand.recovers(period + BACKOFF).await?;
        let is_found = |event: &ReportEvent| match event {
            ReportEvent::Compared { divergence, .. } => divergence.is_some(),
            _ => false,
        };
        check(stand.reports(is_found) == 1, || {
            format!("{:?}", stand.reported)
        })?;
        stand.relisted("diverged")?;
        stand.end().await
    });
}
