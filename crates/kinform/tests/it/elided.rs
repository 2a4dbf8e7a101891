//! Writes that change nothing: counted, or not sent at all. Embedded server, paused time.
//!
//! ```text
//! runs of one controller → journal of patches, counters
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{ConfigMap, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kinform::{
    Action, CancellationToken, Controller, ControllerMetrics, Ctx, Error, Finish, InformerFactory,
    ObjectKey, Reconciler, WorkQueue,
};
use kinform_testkit::TestServer;
use kube_client::api::{Api, Patch, PatchParams, PostParams};
use kube_core::ObjectMeta;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const SECOND: Duration = Duration::from_secs(1);

fn meta(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some("default".to_owned()),
        ..ObjectMeta::default()
    }
}

fn parent() -> ConfigMap {
    ConfigMap {
        metadata: meta("parent"),
        ..ConfigMap::default()
    }
}

/// The child that a run wants.
fn child(replicas: i32) -> Deployment {
    let labels = Some([("app".to_owned(), "a".to_owned())].into());
    let container = json!({"name": "c", "image": "i"});
    let spec = DeploymentSpec {
        replicas: Some(replicas),
        selector: LabelSelector {
            match_labels: labels.clone(),
            ..LabelSelector::default()
        },
        template: PodTemplateSpec {
            metadata: Some(ObjectMeta {
                labels,
                ..ObjectMeta::default()
            }),
            spec: Some(PodSpec {
                containers: vec![serde_json::from_value(container).unwrap()],
                ..PodSpec::default()
            }),
        },
        ..DeploymentSpec::default()
    };
    Deployment {
        metadata: meta("child"),
        spec,
        ..Deployment::default()
    }
}

/// A controller that applies one child each time.
struct Running {
    api: TestServer,
    factory: InformerFactory,
    queue: WorkQueue<ObjectKey>,
    metrics: ControllerMetrics,
    /// The replicas that the next run applies.
    replicas: Arc<AtomicUsize>,
    answers: Arc<Mutex<Vec<Deployment>>>,
    reconciler: Arc<Reconciler>,
    lost: CancellationToken,
    task: JoinHandle<Result<Finish, Error>>,
}

impl Running {
    async fn start(change: impl FnOnce(Controller<ConfigMap>) -> Controller<ConfigMap>) -> Self {
        let api = TestServer::start().in_process().await.unwrap();
        api.create(&parent()).await.unwrap();
        let factory = InformerFactory::new(api.client());
        let maps = factory.informer::<ConfigMap>();
        let deployments = factory.informer::<Deployment>();
        factory.start().unwrap();
        let controller = change(Controller::of(&maps).owns(&deployments));
        let (queue, metrics) = (controller.queue(), controller.metrics());
        let (replicas, answers) = (
            Arc::new(AtomicUsize::new(1)),
            Arc::<Mutex<Vec<_>>>::default(),
        );
        let (wanted, told) = (Arc::clone(&replicas), Arc::clone(&answers));
        let reconciler = controller.reconciling(move |map: Arc<ConfigMap>, cx: Ctx<()>| {
            let replicas = i32::try_from(wanted.load(Ordering::Relaxed)).unwrap();
            let told = Arc::clone(&told);
            async move {
                if map.metadata.name.as_deref() != Some("parent") {
                    return Ok(Action::await_change());
                }
                let applied = cx.apply(&child(replicas)).await?;
                told.lock().unwrap().push(applied);
                Ok::<_, Error>(Action::await_change())
            }
        });
        let reconciler = Arc::new(reconciler);
        let lost = CancellationToken::new();
        let running = Self {
            task: lead(&reconciler, &lost),
            api,
            factory,
            queue,
            metrics,
            replicas,
            answers,
            reconciler,
            lost,
        };
        running.settle().await;
        running
    }

    /// Lets events come, and the runs that they cause.
    async fn settle(&self) {
        tokio::time::sleep(SECOND).await;
    }

    /// Patches of the child so far.
    fn sent(&self) -> usize {
        let records = self.api.server().journal().records();
        let is_ours = |query: &str| query.contains("fieldManager=configmap");
        let is_patch =
            |r: &&kinform_apiserver::Record| r.is("patch", "deployments") && is_ours(&r.query);
        records.iter().filter(is_patch).count()
    }

    /// Runs the key; returns the number of patches that it sent.
    async fn run(&self) -> usize {
        let before = self.sent();
        self.queue.add(ObjectKey::new(Some("default"), "parent"));
        self.settle().await;
        self.sent() - before
    }

    /// Changes the child as another client.
    async fn change(&self, subresource: Option<&str>, patch: Value) {
        let api: Api<Deployment> = Api::namespaced(self.api.client(), "default");
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let changed = match subresource {
            None => api.patch("child", &params, &patch).await,
            Some(_) => api.patch_status("child", &params, &patch).await,
        };
        changed.unwrap();
    }

    async fn stop(self) {
        self.task.abort();
        self.factory.shutdown().await;
    }
}

fn lead(
    reconciler: &Arc<Reconciler>,
    lost: &CancellationToken,
) -> JoinHandle<Result<Finish, Error>> {
    let (reconciler, lost) = (Arc::clone(reconciler), lost.clone());
    tokio::spawn(async move { reconciler.lead(&CancellationToken::new(), &lost).await })
}

#[tokio::test(start_paused = true)]
async fn an_apply_of_equal_bytes_is_not_sent_again_and_returns_the_cached_object() {
    let running = Running::start(|controller| controller).await;
    let first = running.answers.lock().unwrap()[0].clone();
    let (sent, elided) = (running.sent(), running.metrics.snapshot().elided);
    assert_eq!(running.run().await, 0);
    assert_eq!(running.metrics.snapshot().elided, elided + 1);
    let last = running.answers.lock().unwrap().last().unwrap().clone();
    assert_eq!(last.metadata.uid, first.metadata.uid);
    assert_eq!(last.spec, first.spec);
    // Other bytes are sent, also those of before: the object is another one by then.
    running.replicas.store(2, Ordering::Relaxed);
    assert_eq!(running.run().await, 1);
    running.replicas.store(1, Ordering::Relaxed);
    assert_eq!(running.run().await, 1);
    assert_eq!(running.run().await, 0);
    assert_eq!(running.sent(), sent + 2);
    assert_eq!(running.metrics.snapshot().noop_writes, 0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r7_a_change_by_somebody_else_is_answered_by_an_apply() {
    let running = Running::start(|controller| controller).await;
    // The change itself makes a run.
    for patch in [
        json!({"spec": {"replicas": 5}}),
        json!({"metadata": {"labels": {"a": "b"}}}),
        json!({"metadata": {"annotations": {"a": "b"}}}),
        json!({"metadata": {"finalizers": ["example.com/a"]}}),
    ] {
        let before = running.sent();
        running.change(None, patch.clone()).await;
        running.settle().await;
        assert!(running.sent() > before, "{patch}");
        assert_eq!(running.run().await, 0, "{patch}");
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_of_the_child_needs_no_apply() {
    let running = Running::start(|controller| controller).await;
    let (sent, elided) = (running.sent(), running.metrics.snapshot().elided);
    let status = json!({"status": {"replicas": 1}});
    running.change(Some("status"), status).await;
    running.settle().await;
    assert_eq!(running.sent(), sent);
    assert!(running.metrics.snapshot().elided > elided);
    let last = running.answers.lock().unwrap().last().unwrap().clone();
    assert_eq!(last.status.unwrap().replicas, Some(1));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_child_of_another_uid_and_another_term_are_applied_to() {
    let mut running = Running::start(|controller| controller).await;
    let before = running.sent();
    running
        .api
        .delete::<Deployment>("default/child")
        .await
        .unwrap();
    let uid = running.answers.lock().unwrap()[0].metadata.uid.clone();
    let again = |child: &Deployment| child.metadata.uid != uid;
    running.api.until("default/child", again).await.unwrap();
    running.settle().await;
    assert!(running.sent() > before);
    assert_eq!(running.run().await, 0);
    // A new term knows nothing of the one before.
    let before = running.sent();
    running.lost.cancel();
    let lost = std::mem::replace(&mut running.task, tokio::spawn(std::future::pending()));
    assert_eq!(lost.await.unwrap().unwrap(), Finish::Lost);
    running.lost = CancellationToken::new();
    running.task = lead(&running.reconciler, &running.lost);
    running.settle().await;
    assert_eq!(running.sent(), before + 1);
    assert_eq!(running.run().await, 0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_elided_applies_each_is_sent_and_those_without_effect_are_counted() {
    let running = Running::start(Controller::without_elided_applies).await;
    let before = running.metrics.snapshot();
    assert_eq!(running.run().await, 1);
    let after = running.metrics.snapshot();
    assert_eq!(
        (after.elided, after.noop_writes),
        (0, before.noop_writes + 1)
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_owners_that_name_one_child_do_not_take_it_from_each_other() {
    for elides in [true, false] {
        let api = TestServer::start().in_process().await.unwrap();
        let named = |name| ConfigMap {
            metadata: meta(name),
            ..ConfigMap::default()
        };
        api.create(&named("parent")).await.unwrap();
        let factory = InformerFactory::new(api.client());
        let maps = factory.informer::<ConfigMap>();
        let deployments = factory.informer::<Deployment>();
        factory.start().unwrap();
        let controller = Controller::of(&maps).owns(&deployments);
        let controller = match elides {
            true => controller,
            false => controller.without_elided_applies(),
        };
        let metrics = controller.metrics();
        let refusals = Arc::<Mutex<Vec<String>>>::default();
        let told = Arc::clone(&refusals);
        let running = tokio::spawn(controller.run(move |_: Arc<ConfigMap>, cx: Ctx<()>| {
            let told = Arc::clone(&told);
            async move {
                let applied = cx.apply(&child(1)).await;
                if let Err(error) = &applied
                    && error.is_owned_by_another()
                {
                    told.lock().unwrap().push(error.to_string());
                }
                applied.map(|_| Action::await_change())
            }
        }));
        tokio::time::sleep(SECOND).await;
        let deployments: Api<Deployment> = Api::namespaced(api.client(), "default");
        let before = deployments.get("child").await.unwrap();
        api.create(&named("second")).await.unwrap();
        tokio::time::sleep(60 * SECOND).await;
        let after = deployments.get("child").await.unwrap();
        let (before, after) = (before.metadata, after.metadata);
        assert_eq!(after.owner_references, before.owner_references);
        let refused = refusals.lock().unwrap().clone();
        let expected = "deployments.apps default/child is controlled by ConfigMap parent and cannot be \
                        controlled by ConfigMap second";
        assert!(refused.len() > 1, "it is tried again: {refused:?}");
        assert!(refused.iter().all(|said| said == expected), "{refused:?}");
        assert_eq!(metrics.snapshot().failed, refused.len() as u64);
        // The first owner goes, and its child with it: the second may have the name.
        api.delete::<ConfigMap>("default/parent").await.unwrap();
        let _ = api.delete::<Deployment>("default/child").await;
        tokio::time::sleep(600 * SECOND).await;
        let last = deployments.get("child").await.unwrap().metadata;
        assert_eq!(last.owner_references.unwrap()[0].name, "second");
        running.abort();
        factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_at_the_version_in_its_request_is_counted_as_without_effect() {
    let api = TestServer::start().in_process().await.unwrap();
    api.create(&parent()).await.unwrap();
    let factory = InformerFactory::new(api.client());
    // No cache of the controller has deployments.
    let maps = factory.informer::<ConfigMap>();
    factory.start().unwrap();
    api.create(&child(1)).await.unwrap();
    let controller = Controller::of(&maps).without_own_writes();
    let metrics = controller.metrics();
    let running = tokio::spawn(controller.run(
        move |map: Arc<ConfigMap>, cx: Ctx<()>| async move {
            if map.metadata.name.as_deref() != Some("parent") {
                return Ok(Action::await_change());
            }
            let api: Api<Deployment> = Api::namespaced(cx.client()?, "default");
            let read = api.get("child").await?;
            api.replace("child", &PostParams::default(), &read).await?;
            let mut changed = read.clone();
            changed.metadata.annotations = Some([("a".to_owned(), "b".to_owned())].into());
            let params = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            api.replace("child", &params, &read).await?;
            api.replace("child", &PostParams::default(), &changed)
                .await?;
            Ok::<_, Error>(Action::await_change())
        },
    ));
    tokio::time::sleep(SECOND).await;
    let stats = metrics.snapshot();
    assert_eq!((stats.failed, stats.noop_writes), (0, 1), "{stats:?}");
    assert!(stats.succeeded > 0);
    running.abort();
    factory.shutdown().await;
}
