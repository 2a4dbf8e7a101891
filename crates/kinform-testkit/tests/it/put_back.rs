//! Simulations of what is put back, of workloads, and of reconciles that fail for ever.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kinform::Permanent;
use kinform::controller::{Action, Ctx};
use kinform_testkit::Simulation;
use kube_client::Api;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::simulate::{Failure, map, passes, run, told};

fn of<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// The text of a config map of the script.
fn text(map: &ConfigMap) -> Option<String> {
    let is_of_script = map.metadata.namespace.as_deref() == Some("default")
        && matches!(map.metadata.name.as_deref(), Some("a" | "b"));
    let text = map.data.as_ref().and_then(|data| data.get("x"));
    text.filter(|_| is_of_script).cloned()
}

/// Changes the text of a config map, and changes it back.
fn there_and_back(sim: &mut Simulation, key: &str) {
    sim.patch::<ConfigMap>(key, json!({"data": {"x": "2"}}))
        .patch::<ConfigMap>(key, json!({"data": {"x": "1"}}));
}

/// A config map has a deployment, a stateful set and a service.
async fn workloads(map: Arc<ConfigMap>, cx: Ctx<()>) -> Result<Action, Failure> {
    let (Some(text), name) = (text(&map), map.metadata.name.clone()) else {
        return Ok(Action::await_change());
    };
    let labels = |of: &str| json!({"app": name, "of": of});
    let spec = |of: &str| {
        let container = json!({"name": "c", "image": format!("image:{text}")});
        let template =
            json!({"metadata": {"labels": labels(of)}, "spec": {"containers": [container]}});
        json!({"replicas": 2, "selector": {"matchLabels": labels(of)}, "template": template})
    };
    let deployment = json!({"metadata": {"name": name}, "spec": spec("deployment")});
    let set = json!({"metadata": {"name": name}, "spec": spec("set")});
    let service = json!({"selector": labels("deployment"), "ports": [{"port": 80}]});
    cx.apply(&of::<Deployment>(deployment)).await?;
    cx.apply(&of::<StatefulSet>(set)).await?;
    let service = json!({"metadata": {"name": name}, "spec": service});
    cx.apply(&of::<Service>(service)).await?;
    Ok(Action::await_change())
}

#[test]
fn pods_and_addresses_of_workloads_that_are_put_back_are_others() {
    passes(|sim| {
        sim.with_controllers().create(map("a"));
        there_and_back(sim, "default/a");
        sim.seeds(3).operator(|client| run(client, workloads));
    });
}

/// A secret named by the text of its config map; an old one stays.
async fn named(map: Arc<ConfigMap>, cx: Ctx<()>) -> Result<Action, Failure> {
    if let (Some(text), Some(name)) = (text(&map), &map.metadata.name) {
        cx.apply(&of::<Secret>(
            json!({"metadata": {"name": format!("{name}-{text}")}}),
        ))
        .await?;
    }
    Ok(Action::await_change())
}

/// A secret with the text of its config map.
async fn copied(map: Arc<ConfigMap>, cx: Ctx<()>) -> Result<Action, Failure> {
    if let (Some(text), name) = (text(&map), &map.metadata.name) {
        let secret = json!({"metadata": {"name": name}, "stringData": {"x": text}});
        cx.apply(&of::<Secret>(secret)).await?;
    }
    Ok(Action::await_change())
}

#[test]
fn an_object_from_before_the_script_is_put_back_as_any_other() {
    let describe = |sim: &mut Simulation| {
        sim.exists(map("b")).create(map("a"));
        there_and_back(sim, "default/b");
        sim.seeds(5);
    };
    passes(|sim| {
        describe(sim);
        sim.operator(|client| run(client, copied));
    });
    let story = told(|sim| {
        describe(sim);
        sim.operator(|client| run(client, named));
    });
    let words = "secrets default/b-2 is there; after step 1 it is not";
    assert!(story.contains(words), "{story}");
    assert!(!story.contains("configmaps default/b is"), "{story}");
}

#[test]
fn the_write_to_blame_of_a_change_that_is_put_back_is_none_of_a_later_step() {
    let story = told(|sim| {
        sim.create(map("a"));
        there_and_back(sim, "default/a");
        there_and_back(sim, "default/a");
        sim.operator(|client| run(client, named));
    });
    let words = "PATCH secrets default/a-2 ─▶ 201";
    let mut lines = story.lines().filter(|line| line.contains("this write"));
    assert!(
        lines.next().is_some_and(|line| line.contains(words)),
        "{story}"
    );
}

#[test]
fn a_refused_write_of_the_object_that_is_wrong_is_to_blame() {
    let story = told(|sim| {
        sim.create(map("a"))
            .patch::<ConfigMap>("default/a", json!({"data": {"x": "2"}}))
            .exhaustive();
        sim.operator(|client| {
            run(client, |map, cx| async move {
                // It was logged.
                let _ = copied(map, cx).await;
                Ok(Action::await_change())
            })
        });
    });
    let words = "PATCH secrets default/a ─▶ 500   <── this write";
    assert!(story.contains(words), "{story}");
}

/// The treatment of a write that is refused.
#[derive(Clone, Copy, PartialEq)]
enum Refused {
    TriedAgain,
    Permanent,
}

/// A deployment whose selector has the text: it cannot be changed.
async fn selected(map: Arc<ConfigMap>, cx: Ctx<()>, refused: Refused) -> Result<Action, Failure> {
    let (Some(text), name) = (text(&map), &map.metadata.name) else {
        return Ok(Action::await_change());
    };
    let labels = json!({"text": text});
    let pod = json!({"containers": [{"name": "c", "image": "image"}]});
    let template = json!({"metadata": {"labels": labels}, "spec": pod});
    let spec = json!({"selector": {"matchLabels": labels}, "template": template});
    let deployment = json!({"metadata": {"name": name}, "spec": spec});
    match cx.apply(&of::<Deployment>(deployment)).await {
        Err(error) if refused == Refused::Permanent => Err(Permanent::new(error).into()),
        other => Ok(other.map(|_| Action::await_change())?),
    }
}

#[test]
fn a_write_that_is_refused_for_ever_is_told_without_a_fault() {
    let describe = |sim: &mut Simulation, refused| {
        sim.create(map("a"));
        there_and_back(sim, "default/a");
        sim.seeds(3);
        sim.operator(move |client| run(client, move |map, cx| selected(map, cx, refused)));
    };
    passes(|sim| describe(sim, Refused::Permanent));
    let story = told(|sim| describe(sim, Refused::TriedAgain));
    for words in [
        "the reconcile of configmaps default/a failed",
        "times in a row at the end of step 2",
        "field is immutable",
        "PATCH deployments.apps default/a ─▶ 422",
        "is a `kinform::Permanent`",
        "KINFORM_SEED=clean ",
    ] {
        assert!(story.contains(words), "{words}: {story}");
    }
}

#[test]
fn an_error_of_an_operator_that_waits_for_another_object_is_right() {
    passes(|sim| {
        sim.create(map("a")).create(map("b")).seeds(3);
        sim.operator(|client| {
            run(client, |map, cx| async move {
                if map.metadata.name.as_deref() == Some("a") {
                    let maps: Api<ConfigMap> = Api::namespaced(cx.client()?, "default");
                    maps.get("b").await?;
                }
                copied(map, cx).await
            })
        });
    });
}
