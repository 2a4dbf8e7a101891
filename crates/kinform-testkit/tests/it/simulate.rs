//! Simulations: a right controller passes all of them, wrong ones are found and told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kinform::InformerFactory;
use kinform::controller::{Action, Controller, Ctx};
use kinform_testkit::Simulation;
use kinform_testkit::simulate::{Summary, try_simulate};
use kube_client::api::{Patch, PatchParams};
use kube_client::{Api, Client};
use serde_json::json;

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

pub(crate) fn map(name: &str) -> ConfigMap {
    let map = json!({"metadata": {"name": name, "namespace": "default"}, "data": {"x": "1"}});
    serde_json::from_value(map).unwrap()
}

/// The changes of most simulations here.
fn script(sim: &mut Simulation) {
    sim.create(map("a"))
        .patch::<ConfigMap>("default/a", json!({"data": {"x": "2"}}))
        .create(map("b"))
        .delete::<Secret>("default/a")
        .delete::<ConfigMap>("default/a")
        .create(map("a"));
}

/// Runs a reconcile function of config maps that own secrets.
pub(crate) async fn run<F, R>(client: Client, reconcile: R) -> Result<(), kinform::Error>
where
    R: Fn(Arc<ConfigMap>, Ctx<()>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Action, Failure>> + Send + 'static,
{
    let factory = InformerFactory::new(client);
    let controller =
        Controller::of(&factory.informer::<ConfigMap>()).owns(&factory.informer::<Secret>());
    factory.start()?;
    controller.run(reconcile).await
}

/// The secret of this name that has the data of a config map.
fn secret_of(map: &ConfigMap, name: &str) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    secret.string_data.clone_from(&map.data);
    secret
}

/// Each config map of the default namespace has a secret with its data.
async fn right(map: Arc<ConfigMap>, cx: Ctx<()>) -> Result<Action, Failure> {
    if map.metadata.namespace.as_deref() == Some("default") {
        let name = map.metadata.name.clone().unwrap_or_default();
        cx.apply(&secret_of(&map, &name)).await?;
    }
    Ok(Action::await_change())
}

#[expect(
    clippy::print_stderr,
    reason = "the size of a simulation is part of its report"
)]
pub(crate) fn passes(describe: impl FnOnce(&mut Simulation)) -> Summary {
    let summary = try_simulate(describe).unwrap_or_else(|story| panic!("{story}"));
    eprintln!("{summary:?}");
    summary
}

/// The story of an operator that is wrong.
pub(crate) fn told(describe: impl FnOnce(&mut Simulation)) -> String {
    match try_simulate(describe) {
        Ok(summary) => panic!("nothing was found: {summary:?}"),
        Err(story) => story,
    }
}

#[test]
fn a_right_controller_passes_every_fault_and_the_same_seed_is_the_same_run() {
    let summary = passes(|sim| {
        script(sim);
        sim.operator(|client| run(client, right))
            .exhaustive()
            .seeds(200);
    });
    assert!(summary.runs > 200 && summary.writes > 4, "{summary:?}");
    assert_eq!(summary.differed, 0, "{summary:?}");
}

/// Says each minute that it is there, in the secret of a config map.
async fn beat(client: Client, beats: Arc<AtomicUsize>) -> std::convert::Infallible {
    let secrets: Api<Secret> = Api::namespaced(client, "default");
    loop {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let beat = beats.fetch_add(1, Ordering::Relaxed).to_string();
        let patch = Patch::Merge(json!({"stringData": {"beat": beat}}));
        // There may be none now.
        let _ = secrets.patch("a", &PatchParams::default(), &patch).await;
    }
}

#[test]
fn an_operator_that_only_writes_ignored_fields_is_at_rest() {
    let describe = |sim: &mut Simulation| {
        let beats = Arc::new(AtomicUsize::new(0));
        sim.create(map("a"));
        sim.operator(move |client| {
            let beats = Arc::clone(&beats);
            async move {
                tokio::select! {
                    biased;
                    ended = run(client.clone(), right) => ended,
                    never = beat(client, beats) => match never {},
                }
            }
        });
    };
    let story = told(describe);
    assert!(story.contains("objects still change"), "{story}");
    passes(|sim| {
        describe(sim);
        sim.ignore("data.beat").seeds(20);
    });
}

#[test]
fn a_panic_of_a_reconcile_is_told_with_its_message() {
    let story = told(|sim| {
        sim.create(map("a")).operator(|client| {
            run(client, |map, cx| async move {
                assert!(map.metadata.name.as_deref() != Some("a"), "not this one");
                right(map, cx).await
            })
        });
    });
    assert!(story.contains("the operator panicked"), "{story}");
    assert!(story.contains("not this one"), "{story}");
}

#[test]
fn what_the_server_draws_is_no_difference_and_what_the_operator_draws_is_told_with_advice() {
    let service = |map: &ConfigMap| {
        let spec = json!({"ports": [{"port": 80}]});
        let service = json!({"metadata": {"name": map.metadata.name}, "spec": spec});
        serde_json::from_value::<Service>(service).unwrap()
    };
    passes(|sim| {
        sim.create(map("a")).operator(move |client| {
            run(client, move |map, cx| async move {
                if map.metadata.namespace.as_deref() == Some("default") {
                    cx.apply(&service(&map)).await?;
                }
                Ok(Action::await_change())
            })
        });
    });
    let drawn = Arc::new(AtomicUsize::new(0));
    let story = told(|sim| {
        sim.create(map("a")).operator(move |client| {
            let drawn = Arc::clone(&drawn).fetch_add(1, Ordering::Relaxed);
            run(client, move |found, cx| async move {
                let mut own = map(&drawn.to_string());
                own.metadata.name = Some("own".to_owned());
                own.data = Some([("drawn".to_owned(), drawn.to_string())].into());
                if found.metadata.name.as_deref() == Some("a") {
                    cx.apply(&own).await?;
                }
                Ok(Action::await_change())
            })
        });
    });
    assert!(story.contains("without any fault"), "{story}");
    assert!(story.contains(r#"sim.ignore("path.of.it")"#), "{story}");
}

#[test]
fn an_operator_that_ends_and_one_that_never_waits_are_told() {
    let story = told(|sim| {
        sim.create(map("a"))
            .operator(|_| async { Err::<(), _>("no lease") });
    });
    assert!(
        story.contains(r#"the operator ended: Err("no lease")"#),
        "{story}"
    );
    let story = told(|sim| {
        sim.create(map("a")).operator(|_| async {
            loop {
                tokio::task::yield_now().await;
            }
        });
    });
    assert!(story.contains("always busy"), "{story}");
}

#[test]
fn requests_without_end_are_told() {
    let story = told(|sim| {
        sim.create(map("a")).operator(|client: Client| async move {
            loop {
                let version = client.apiserver_version().await;
                drop(version);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    });
    assert!(story.contains("does not come to rest: 5"), "{story}");
}

#[test]
fn what_the_author_knows_is_checked_too() {
    let describe = |sim: &mut Simulation, name: &'static str| {
        let holds = move |world: &kinform_testkit::simulate::World<'_>| {
            let all = world.list::<Secret>();
            let wrong = all
                .iter()
                .find(|one| one.metadata.name.as_deref() == Some(name));
            match (wrong, world.get::<ConfigMap>("default/a")) {
                (Some(_), Some(_)) => Err(format!("{name} is there")),
                _ => Ok(()),
            }
        };
        sim.create(map("a")).create(map("b"));
        sim.operator(|client| run(client, right)).seeds(1);
        holds
    };
    let story = told(|sim| {
        let holds = describe(sim, "b");
        sim.invariant("no b", holds);
    });
    assert!(
        story.contains(r#"the invariant "no b" does not hold: b is there"#),
        "{story}"
    );
    assert!(story.contains("PATCH secrets default/b"), "{story}");
    let story = told(|sim| {
        let holds = describe(sim, "a");
        sim.in_the_end("no a", holds);
    });
    assert!(
        story.contains(r#"in the end "no a" does not hold"#),
        "{story}"
    );
    passes(|sim| {
        let holds = describe(sim, "c");
        sim.invariant("no c", holds);
    });
}

#[test]
fn a_step_that_never_works_is_told() {
    let story = told(|sim| {
        sim.patch::<ConfigMap>("default/nobody", json!({}))
            .operator(|client| run(client, right));
    });
    assert!(
        story.contains("step 1 (patches ConfigMap default/nobody: {}) failed"),
        "{story}"
    );
    assert!(story.contains("not found"), "{story}");
}

/// Creates a config map, and gives `x` these values, one after the other.
fn changed(sim: &mut Simulation, values: &[&str]) {
    sim.create(map("a"));
    for x in values {
        sim.patch::<ConfigMap>("default/a", json!({"data": {"x": x}}));
    }
}

#[test]
fn an_operator_that_keeps_past_states_passes_if_that_is_said() {
    let describe = |sim: &mut Simulation| {
        changed(sim, &["2", "3", "1"]);
        sim.seeds(60).operator(|client| {
            run(client, |map, cx| async move {
                if let Some(x) = map.data.as_ref().and_then(|data| data.get("x")) {
                    cx.apply(&secret_of(&map, &format!("of-{x}"))).await?;
                }
                Ok(Action::await_change())
            })
        });
    };
    passes(|sim| {
        describe(sim);
        sim.keeps_history();
    });
    let story = told(describe);
    assert!(story.contains("sim.keeps_history()"), "{story}");
}

#[test]
fn a_change_of_what_the_operator_makes_meets_the_object_of_the_step_before() {
    passes(|sim| {
        changed(sim, &["2"]);
        let labels = json!({"metadata": {"labels": {"of": "another"}}});
        sim.patch::<Secret>("default/a", labels).seeds(60);
        sim.operator(|client| {
            run(client, |map, cx| async move {
                if map.metadata.namespace.as_deref() != Some("default") {
                    return Ok(Action::await_change());
                }
                let x = map.data.as_ref().and_then(|data| data.get("x"));
                let secrets: Api<Secret> = Api::namespaced(cx.client()?, "default");
                let found = secrets.get_opt("a").await?;
                let has = |secret: &Secret| {
                    let x_of = secret.data.as_ref().and_then(|data| data.get("x"));
                    x_of.map(|bytes| &bytes.0[..]) == x.map(String::as_bytes)
                };
                match found {
                    Some(secret) if has(&secret) => {}
                    // Its deletion is the next run.
                    Some(secret) => cx.delete(&secret).await.map(drop)?,
                    None => cx.apply(&secret_of(&map, "a")).await.map(drop)?,
                }
                Ok(Action::await_change())
            })
        });
    });
}

#[test]
fn what_only_the_pace_of_the_script_shows_is_told_without_faults() {
    let story = told(|sim| {
        changed(sim, &["2"]);
        sim.seeds(100).operator(|client| {
            run(client, |map, cx| async move {
                if map.metadata.namespace.as_deref() != Some("default") {
                    return Ok(Action::await_change());
                }
                // It works on the newest data, and forgets to look at those of a secret that is there.
                tokio::time::sleep(Duration::from_secs(1)).await;
                let maps: Api<ConfigMap> = Api::namespaced(cx.client()?, "default");
                let secrets: Api<Secret> = Api::namespaced(cx.client()?, "default");
                if let (Some(map), None) = (maps.get_opt("a").await?, secrets.get_opt("a").await?) {
                    cx.apply(&secret_of(&map, "a")).await?;
                }
                Ok(Action::await_change())
            })
        });
    });
    for words in [
        "secrets default/a: data.x is",
        "without any fault, in the run of seed",
        "steps follow each other at random",
        "if it is not, the mistake is there",
    ] {
        assert!(story.contains(words), "{words}: {story}");
    }
}

/// Copies the data of a config map into a secret, then reads the config map again and annotates it with
/// the data that it has now, as if they had been copied. Only if `looks` does it compare the secret.
async fn in_two_steps(map: Arc<ConfigMap>, cx: Ctx<()>, looks: bool) -> Result<Action, Failure> {
    if map.metadata.name.as_deref() != Some("a") {
        return Ok(Action::await_change());
    }
    let maps: Api<ConfigMap> = Api::namespaced(cx.client()?, "default");
    let secrets: Api<Secret> = Api::namespaced(cx.client()?, "default");
    let (Some(now), secret) = (maps.get_opt("a").await?, secrets.get_opt("a").await?) else {
        return Ok(Action::await_change());
    };
    let x = now.data.as_ref().and_then(|data| data.get("x")).cloned();
    let done = now
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get("done"));
    let of = secret.and_then(|secret| secret.data?.remove("x"));
    let of = of.and_then(|bytes| String::from_utf8(bytes.0).ok());
    if of.is_none() || (done.is_some() && done != x.as_ref()) || (looks && of != x) {
        cx.apply(&secret_of(&now, "a")).await?;
    }
    if done != x.as_ref() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let Some(now) = maps.get_opt("a").await? else {
            return Ok(Action::await_change());
        };
        let x = now.data.as_ref().and_then(|data| data.get("x"));
        let done =
            json!({"annotations": {"done": x}, "resourceVersion": now.metadata.resource_version});
        let patch = Patch::Merge(json!({"metadata": done}));
        maps.patch("a", &PatchParams::default(), &patch).await?;
    }
    Ok(Action::await_change())
}

#[test]
fn a_change_that_comes_while_the_operator_is_at_work_is_tried_at_each_write() {
    let describe = |sim: &mut Simulation, looks| {
        changed(sim, &["2"]);
        sim.exhaustive();
        sim.operator(move |client| run(client, move |map, cx| in_two_steps(map, cx, looks)));
    };
    passes(|sim| describe(sim, true));
    let story = told(|sim| describe(sim, false));
    for words in [
        "secrets default/a: data.x is",
        "but a step begins as soon as the operator's write 1 is answered",
        "KINFORM_SEED=step-after-write-1",
    ] {
        assert!(story.contains(words), "{words}: {story}");
    }
}

/// A type whose every field is changed.
mod knob {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "example.com", version = "v1", kind = "Knob", namespaced)]
    pub(super) struct KnobSpec {
        #[schemars(range(min = 1, max = 5))]
        pub(super) size: i32,
        pub(super) text: Option<String>,
    }
}

#[test]
fn every_field_of_a_type_is_changed_without_a_script() {
    use knob::{Knob, KnobSpec};

    let summary = passes(|sim| {
        let spec = KnobSpec {
            size: 2,
            text: Some("x".to_owned()),
        };
        sim.crd::<Knob>()
            .every_field_of(Knob::new("k", spec))
            .seeds(30)
            .operator(|client: Client| async move {
                let factory = InformerFactory::new(client);
                let controller = Controller::of(&factory.informer::<Knob>())
                    .owns(&factory.informer::<ConfigMap>());
                factory.start()?;
                controller.run(show).await
            });
    });
    // Created, another size and back, another text and back, no text and back.
    assert_eq!(summary.writes, 7, "{summary:?}");
}

/// A knob has a config map that shows its fields.
async fn show(knob: Arc<knob::Knob>, cx: Ctx<()>) -> Result<Action, kinform::Error> {
    let mut shown = map("k");
    let text = knob.spec.text.clone().unwrap_or_default();
    let size = knob.spec.size.to_string();
    shown.data = Some([("text".to_owned(), text), ("size".to_owned(), size)].into());
    cx.apply(&shown).await?;
    Ok(Action::await_change())
}
