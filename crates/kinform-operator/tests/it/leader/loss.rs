//! Terms that end before their owner wants it, and the next try.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kinform::{GroupResource, Status};
use kinform_apiserver::FaultRule;
use kinform_operator::leader::{EndReason, LeaderElection, LeaseOptions};
use kinform_testkit::{Fault, Link, Network, ProxyMode, TestServer};
use serde_json::json;
use tokio::time::Instant;

use super::{AT_ONCE, edit, election, leader_and_standby, replica, server, taking, until};

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_loses_its_term_in_time() {
    for mode in [ProxyMode::Stall, ProxyMode::Refuse] {
        let api = server().await;
        let (a, b) = leader_and_standby(&api).await;
        let term = a.leadership.term().unwrap();
        a.link.set(mode);
        if mode == ProxyMode::Refuse {
            a.link.cut();
        }
        let (after, reason) = taking(a.leadership.lost(&term)).await;
        assert_eq!(reason, EndReason::Expired, "{mode:?}");
        assert!(after <= LeaseOptions::default().term_length(), "{after:?}");
        assert!(b.leadership.term().is_none());
        b.won().await;
        // It stands again, and leaves the new leader alone.
        a.leadership.idle();
        a.link.set(ProxyMode::Pass);
        until(|| a.leadership.leader().as_deref() == Some("b")).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(a.leadership.term().is_none() && b.leadership.term().is_some());
        b.leadership.stop().await;
        a.won().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_or_edited_by_hand_ends_the_term_at_once() {
    let api = server().await;
    let a = replica(&api, "a");
    let term = a.won().await;
    api.delete::<Lease>("default/operator").await.unwrap();
    let (after, reason) = taking(a.leadership.lost(&term)).await;
    assert_eq!(reason, EndReason::Deleted);
    assert!(after < AT_ONCE, "{after:?}");
    a.leadership.idle();
    let term = a.won().await;

    edit(&api, |lease| lease["spec"]["holderIdentity"] = json!("x")).await;
    let (after, reason) = taking(a.leadership.lost(&term)).await;
    let holder = "x".to_owned();
    assert_eq!(reason, EndReason::Taken { holder });
    assert!(after < AT_ONCE, "{after:?}");
    a.leadership.idle();
    let term = a.won().await;

    edit(&api, |lease| lease["spec"]["leaseTransitions"] = json!(7)).await;
    let (after, reason) = taking(a.leadership.lost(&term)).await;
    assert_eq!(reason, EndReason::Edited);
    assert!(after < AT_ONCE, "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_term_is_not_followed_by_another_before_its_work_is_joined() {
    let api = server().await;
    let a = replica(&api, "a");
    let term = a.won().await;
    api.delete::<Lease>("default/operator").await.unwrap();
    a.leadership.lost(&term).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(a.leadership.term().is_none());
    let b = replica(&api, "b");
    b.won().await;
    b.leadership.stop().await;
    a.leadership.idle();
    let (after, next) = taking(a.won()).await;
    assert!(after <= Duration::from_secs(5), "{after:?}");
    assert_ne!(next.uid, term.uid);
}

fn forbid(api: &TestServer, verb: Option<&str>) {
    let leases = GroupResource::new("coordination.k8s.io", "leases");
    let forbidden = Status::forbidden(&leases, "operator", "no rights");
    let rule = FaultRule::new(Fault::Reply(forbidden)).on_resource("leases");
    let rule = match verb {
        Some(verb) => rule.on_verb(verb),
        None => rule,
    };
    api.server().faults().inject(rule.always());
}

#[tokio::test(start_paused = true)]
async fn rights_that_are_taken_end_the_term_in_time_and_given_back_it_leads_again() {
    let api = server().await;
    let a = replica(&api, "a");
    let term = a.won().await;
    forbid(&api, None);
    let (after, reason) = taking(a.leadership.lost(&term)).await;
    assert_eq!(reason, EndReason::Expired);
    assert!(after <= LeaseOptions::default().term_length(), "{after:?}");
    a.leadership.idle();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(a.leadership.term().is_none());
    assert_eq!(a.leadership.check(), Ok(()));
    api.server().faults().clear();
    let (after, _) = taking(a.won()).await;
    assert!(after <= Duration::from_secs(5), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_lost_costs_no_term() {
    let api = server().await;
    let a = replica(&api, "a");
    let term = a.won().await;
    let lost = FaultRule::new(Fault::LoseReply).on_resource("leases");
    api.server()
        .faults()
        .inject(lost.on_verb("update").times(3));
    tokio::time::sleep(Duration::from_secs(30)).await;
    let later = a.leadership.term().expect("it leads still");
    assert_eq!((later.uid, later.version), (term.uid, term.version));
    assert!(a.leadership.slow_paths() > 0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_lags_or_is_silent_costs_no_term_and_no_read() {
    let api = server().await;
    let a = replica(&api, "a");
    let term = a.won().await;
    for round in ["lags", "is silent"] {
        if round == "lags" {
            api.lag();
        } else {
            api.stall_watches();
        }
        tokio::time::sleep(Duration::from_secs(150)).await;
        api.catch_up();
        api.resume_watches();
        tokio::time::sleep(Duration::from_secs(30)).await;
        let later = a.leadership.term().expect("it leads still");
        assert_eq!((&later.uid, &later.version), (&term.uid, &term.version));
        assert_eq!(a.leadership.slow_paths(), 0, "a watch that {round}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_watch_a_lease_is_polled() {
    let api = server().await;
    forbid(&api, Some("watch"));
    let (a, b) = leader_and_standby(&api).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let watches = api.server().journal().count("watch", "leases");
    assert!(
        (2..40).contains(&watches),
        "{watches} watches of two replicas"
    );
    a.leadership.stop().await;
    let (after, _) = taking(b.won()).await;
    assert!(after <= Duration::from_millis(4500), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_losses_leave_no_task() {
    let api = server().await;
    let alive = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = alive();
    let a = replica(&api, "a");
    let mut term = a.won().await;
    let one = alive();
    for _ in 0..1000 {
        edit(&api, |lease| lease["spec"]["leaseTransitions"] = json!(9)).await;
        a.leadership.lost(&term).await;
        a.leadership.idle();
        term = a.won().await;
    }
    // The requests of the last edit and of the last take may still be winding up.
    until(|| alive() <= one).await;
    a.leadership.stop().await;
    drop(a);
    until(|| alive() <= before).await;
}

#[tokio::test(start_paused = true)]
async fn nonsense_is_refused_before_anything_starts() {
    let api = server().await;
    let alive = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let client = Link::new(api.server().service(), 1).client();
    let before = alive();
    let overlapping = LeaseOptions {
        lease_duration: Duration::from_secs(10),
        ..LeaseOptions::default()
    };
    let cases: [(LeaderElection, &str); 6] = [
        (election("a").options(overlapping), "lease duration"),
        (election(""), "identity"),
        (LeaderElection::new("", "operator"), "namespace"),
        (LeaderElection::new("a/b", "operator"), "namespace"),
        (LeaderElection::new("default", "../pods"), "lease name"),
        (election("a").label("a b", "c"), "label"),
    ];
    for (bad, named) in cases {
        let error = bad.clone().start_here(client.clone()).unwrap_err();
        assert!(error.is_usage(), "{error}");
        assert!(error.to_string().contains(named), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
        let error = bad.start(api.config()).unwrap_err();
        assert!(error.is_usage(), "{error}");
    }
    assert_eq!(alive(), before);
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_heard_by_all_who_wait_and_by_those_who_come_late() {
    let api = server().await;
    let a = replica(&api, "a");
    let term = a.won().await;
    let wait = || {
        let (leadership, term) = (a.leadership.clone(), term.clone());
        tokio::spawn(async move { (leadership.lost(&term).await, Instant::now()) })
    };
    let (one, two) = (wait(), wait());
    api.delete::<Lease>("default/operator").await.unwrap();
    let (one, two) = (one.await.unwrap(), two.await.unwrap());
    assert_eq!((&one.0, &two.0), (&EndReason::Deleted, &EndReason::Deleted));
    assert_eq!(one.1, two.1);
    assert_eq!(a.leadership.lost(&term).await, EndReason::Deleted);
}
