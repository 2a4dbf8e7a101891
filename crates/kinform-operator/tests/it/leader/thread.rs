//! The election on its own thread, over sockets, in real time.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kinform::source::ClientOptions;
use kinform_operator::leader::{LeaseOptions, NotLeading, is_not_leading};
use kinform_testkit::{Proxy, ProxyMode, TestServer};
use kube_client::Api;
use tokio::runtime::{Builder, Runtime};

use super::election;

fn runtime(workers: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(workers)
        .enable_all()
        .build()
        .unwrap()
}

/// Waits until the lease was renewed this many times.
async fn renewed(api: &TestServer, times: usize) {
    let (mut last, mut left) = (None, times);
    let count = |lease: &Lease| {
        let time = lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
        if time != last {
            last = time;
            left = left.saturating_sub(1);
        }
        left == 0
    };
    api.until("default/operator", count).await.unwrap();
}

#[test]
fn renewals_go_on_while_all_workers_are_blocked_and_the_main_connection_is_stalled() {
    let (outside, inside) = (runtime(2), runtime(2));
    let api = outside.block_on(TestServer::start().into_future()).unwrap();
    let upstream = api.server().address().unwrap();
    let proxy = outside.block_on(Proxy::start(upstream)).unwrap();
    let config = api.config();
    let mut main = config.clone();
    main.cluster_url = format!("http://{}", proxy.address()).parse().unwrap();

    let (leadership, term) = inside.block_on(async {
        let leadership = election("a")
            .options(LeaseOptions::quick())
            .start(config)
            .unwrap();
        let term = leadership.won().await.unwrap();
        (leadership, term)
    });
    proxy.set(ProxyMode::Stall);
    let maps: Api<ConfigMap> = {
        let _inside = inside.enter();
        let options = ClientOptions::default();
        Api::all(leadership.guard().client(main, &options).unwrap())
    };
    let stalled = inside.spawn(async move { maps.list(&Default::default()).await });
    let (release, blocked): (Vec<_>, Vec<_>) = (0..2).map(|_| mpsc::channel::<()>()).unzip();
    for worker in blocked {
        inside.spawn(async move { worker.recv() });
    }

    // Longer than a term of 2.5 s.
    outside.block_on(renewed(&api, 7));
    let later = leadership.term().expect("it leads still");
    assert_eq!((&later.uid, &later.version), (&term.uid, &term.version));
    assert!(later.ends_at > term.ends_at + Duration::from_secs(1));
    assert_eq!(leadership.check(), Ok(()));
    assert!(!stalled.is_finished());

    drop(release);
    inside.block_on(leadership.stop());
    assert!(
        inside.block_on(stalled).unwrap().is_err(),
        "its term is over"
    );
    inside.shutdown_background();
}

#[tokio::test]
async fn a_request_that_waited_for_the_limiter_is_looked_at_after_it() {
    let api = TestServer::start().await.unwrap();
    let leadership = election("a")
        .options(LeaseOptions::quick())
        .start(api.config())
        .unwrap();
    leadership.won().await.unwrap();
    let options = ClientOptions::default().with_rate_limit(2, 1);
    let guarded = leadership.guard().client(api.config(), &options).unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(guarded);
    maps.list(&Default::default()).await.unwrap();
    // It has half a second to wait.
    let waiting = tokio::spawn(async move { maps.list(&Default::default()).await });
    tokio::task::yield_now().await;
    leadership.stop().await;
    let error = waiting.await.unwrap().unwrap_err();
    assert!(is_not_leading(&error), "{error}");
    let first: &(dyn std::error::Error + 'static) = &error;
    let mut chain = std::iter::successors(Some(first), |&error| error.source());
    let refused = chain.find_map(|error| error.downcast_ref::<NotLeading>());
    assert!(!refused.unwrap().may_have_taken_effect(), "{error}");
    assert_eq!(api.server().journal().count("list", "configmaps"), 1);
}

#[test]
fn a_stop_hands_over_between_threads_and_leaves_no_connection() {
    let outside = runtime(2);
    outside.block_on(async {
        let api = TestServer::start().await.unwrap();
        let start = |identity| {
            election(identity)
                .options(LeaseOptions::quick())
                .start(api.config())
        };
        let a = start("a").unwrap();
        a.won().await.unwrap();
        let b = start("b").unwrap();
        super::until(|| b.leader().as_deref() == Some("a")).await;
        super::until(|| api.server().journal().open_watches("leases") == 2).await;
        let began = Instant::now();
        a.stop().await;
        let term = b.won().await.unwrap();
        let took = began.elapsed();
        let unreleased = LeaseOptions::quick().lease_duration;
        assert!(took < unreleased / 2, "{took:?}");
        assert_eq!(term.transitions, 1);
        drop(b);
        super::until(|| api.server().journal().open_watches("leases") == 0).await;
    });
}

#[tokio::test]
async fn a_configuration_that_cannot_be_used_is_an_error_of_the_start() {
    let api = TestServer::start().await.unwrap();
    let mut config = api.config();
    config.auth_info.client_certificate = Some("/absent/tls.crt".to_owned());
    config.auth_info.client_key = Some("/absent/tls.key".to_owned());
    let error = election("a").start(config).unwrap_err();
    assert!(error.is_config(), "{error}");
    assert!(error.to_string().contains("/absent/tls.crt"), "{error}");
    assert_eq!(api.server().journal().count("get", "leases"), 0);
}
