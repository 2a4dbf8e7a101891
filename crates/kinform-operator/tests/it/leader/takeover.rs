//! From one leader to the next.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kinform_operator::leader::{EndReason, LeaseOptions, OnStop};
use kinform_testkit::{Link, Loss, Network, ProxyMode};
use serde_json::json;

use super::{
    AT_ONCE, edit, election, leader_and_standby, lease, replica, sees_leader, server, taking,
};

#[tokio::test(start_paused = true)]
async fn one_of_two_candidates_leads_and_its_stop_hands_over_at_once() {
    let api = server().await;
    let (a, b) = leader_and_standby(&api).await;
    let term = a.leadership.term().expect("a leads");
    assert_eq!(term.transitions, 0);
    assert!(b.leadership.term().is_none());
    // Many renewals later it is the same term.
    tokio::time::sleep(Duration::from_secs(120)).await;
    let later = a.leadership.term().expect("a leads still");
    assert_eq!((&later.uid, &later.version), (&term.uid, &term.version));
    assert!(later.ends_at > term.ends_at);
    assert!(b.leadership.term().is_none());

    let (stop, ()) = taking(a.leadership.stop()).await;
    let (takeover, next) = taking(b.won()).await;
    assert!(stop + takeover < AT_ONCE, "{stop:?} and {takeover:?}");
    assert_eq!(next.transitions, 1);
    assert_eq!(a.leadership.lost(&term).await, EndReason::Released);
    let error = a.leadership.won().await.unwrap_err();
    assert!(error.is_stopped(), "{error}");
    assert_eq!(lease(&api).await["spec"]["holderIdentity"], "b");
    sees_leader(&b.leadership, "b").await;
}

#[tokio::test(start_paused = true)]
async fn a_release_leaves_no_holder_and_expire_leaves_the_lease() {
    let api = server().await;
    let a = replica(&api, "a");
    a.won().await;
    a.leadership.stop().await;
    let released = lease(&api).await;
    assert_eq!(released["spec"]["holderIdentity"], "");
    assert_eq!(released["spec"]["leaseDurationSeconds"], 1);

    let link = Link::new(api.server().service(), 1);
    let options = LeaseOptions {
        on_stop: OnStop::Expire,
        ..LeaseOptions::default()
    };
    let leadership = election("c").options(options).start_here(link.client());
    let leadership = leadership.unwrap();
    let term = leadership.won().await.unwrap();
    leadership.stop().await;
    assert_eq!(leadership.lost(&term).await, EndReason::Stopped);
    assert_eq!(lease(&api).await["spec"]["holderIdentity"], "c");
}

#[tokio::test(start_paused = true)]
async fn a_standby_leads_a_lease_duration_after_its_leader_vanished() {
    let api = server().await;
    let (a, b) = leader_and_standby(&api).await;
    // As a crash: its requests do not arrive any more, and nobody tells.
    a.link.set(ProxyMode::Stall);
    let (takeover, _) = taking(b.won()).await;
    let least = LeaseOptions::default().lease_duration - LeaseOptions::default().retry_period;
    assert!(takeover >= least, "{takeover:?}");
    assert!(takeover <= Duration::from_millis(15_500), "{takeover:?}");
    assert!(a.leadership.term().is_none());
}

#[tokio::test(start_paused = true)]
async fn all_handles_dropped_end_the_term_and_leave_the_lease_to_expire() {
    let api = server().await;
    let (a, b) = leader_and_standby(&api).await;
    let guard = a.leadership.guard();
    drop(a);
    let (takeover, _) = taking(b.won()).await;
    assert!(takeover > Duration::from_secs(12), "{takeover:?}");
    assert!(takeover <= Duration::from_millis(15_500), "{takeover:?}");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_term_outlives_a_restart_of_the_server_and_its_watch_comes_back() {
    for loss in [Loss::Nothing, Loss::History] {
        let api = server().await;
        let leadership = election("a").start_here(api.client()).unwrap();
        let term = leadership.won().await.unwrap();
        let api = api.restart(loss).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let later = leadership.term().expect("it leads still");
        assert_eq!(later.version, term.version, "{loss:?}");
        api.delete::<Lease>("default/operator").await.unwrap();
        let (after, reason) = taking(leadership.lost(&term)).await;
        assert_eq!(reason, EndReason::Deleted, "{loss:?}");
        assert!(after < AT_ONCE, "{after:?} after {loss:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lost_everything_ends_the_term_and_is_led_on_anew() {
    let api = server().await;
    let leadership = election("a").start_here(api.client()).unwrap();
    let term = leadership.won().await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let api = api.restart(Loss::Everything).await.unwrap();
    let (after, reason) = taking(leadership.lost(&term)).await;
    assert_eq!(reason, EndReason::Deleted);
    assert!(after <= Duration::from_secs(4), "{after:?}");
    leadership.idle();
    let (_, next) = taking(leadership.won()).await;
    let next = next.unwrap();
    assert_ne!(next.uid, term.uid);
    // By now the watch follows the new history.
    tokio::time::sleep(Duration::from_secs(120)).await;
    api.delete::<Lease>("default/operator").await.unwrap();
    let (after, _) = taking(leadership.lost(&next)).await;
    assert!(after < AT_ONCE, "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_goes_on_when_nobody_waits_for_it() {
    let api = server().await;
    let a = replica(&api, "a");
    a.won().await;
    let leadership = a.leadership.clone();
    let stop = tokio::time::timeout(Duration::ZERO, leadership.stop());
    assert!(stop.await.is_err());
    drop((leadership, a));
    let is_released = |lease: &Lease| {
        let spec = lease.spec.as_ref();
        spec.is_some_and(|spec| spec.holder_identity.as_deref() == Some(""))
    };
    api.until("default/operator", is_released).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn l12_what_others_put_into_the_lease_survives_take_renewal_and_release() {
    let api = server().await;
    let a = replica(&api, "a");
    a.won().await;
    a.leadership.stop().await;
    let link = Link::new(api.server().service(), 1);
    edit(&api, |lease| {
        lease["metadata"]["annotations"] = json!({ "note": "of others" });
        lease["metadata"]["labels"] = json!({ "team": "x", "app": "old" });
    })
    .await;
    let b = election("b").label("app", "new").start_here(link.client());
    let b = b.unwrap();
    let check = async |holder: &str| {
        let lease = lease(&api).await;
        assert_eq!(lease["metadata"]["annotations"]["note"], "of others");
        let labels = json!({ "team": "x", "app": "new" });
        assert_eq!(lease["metadata"]["labels"], labels);
        assert_eq!(lease["spec"]["holderIdentity"], holder);
    };
    let term = b.won().await.unwrap();
    check("b").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(b.term().is_some_and(|later| later.ends_at > term.ends_at));
    check("b").await;
    b.stop().await;
    check("").await;
}
