//! Simulations with other clients, refused reads, and changes that are put back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinform::controller::{Action, Ctx};
use kinform_testkit::Simulation;
use kube_client::Api;
use kube_client::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_core::{Resource, ResourceExt};
use serde_json::json;

use super::simulate::{Failure, map, passes, run, told};

/// The changes of the simulations here.
fn script(sim: &mut Simulation) {
    sim.create(map("a"))
        .patch::<ConfigMap>("default/a", json!({"data": {"x": "2"}}))
        .exhaustive();
}

/// Returns whether the config map is one of the script's.
fn is_asked_for(map: &ConfigMap) -> bool {
    map.metadata.name.as_deref() == Some("a")
}

fn secret(of: &ConfigMap) -> Secret {
    let owner = of.controller_owner_ref(&());
    let mut secret = Secret::default();
    secret.metadata.name = Some("own".to_owned());
    secret.metadata.owner_references = owner.map(|owner| vec![owner]);
    secret.string_data.clone_from(&of.data);
    secret
}

fn is_code(error: &kube_client::Error, code: u16) -> bool {
    matches!(error, kube_client::Error::Api(status) if status.code == code)
}

/// The treatment of an object that is there already.
#[derive(Clone, Copy, PartialEq)]
enum Taken {
    Trusted,
    Failed,
}

/// Creates a secret without a look at the cache.
async fn create(map: Arc<ConfigMap>, cx: Ctx<()>, taken: Taken) -> Result<Action, Failure> {
    if is_asked_for(&map) {
        let secrets: Api<Secret> = Api::namespaced(cx.client()?, "default");
        let mut own = secret(&map);
        own.string_data = None;
        match secrets.create(&PostParams::default(), &own).await {
            Err(error) if is_code(&error, 409) => {
                let found = secrets.get("own").await?;
                let is_own = found.metadata.owner_references == own.metadata.owner_references;
                if taken == Taken::Failed && !is_own {
                    return Err("the name is another's".into());
                }
            }
            other => drop(other?),
        }
    }
    Ok(Action::await_change())
}

#[test]
fn a_name_that_another_client_has_taken_is_no_object_of_ones_own() {
    let story = told(|sim| {
        script(sim);
        sim.operator(|client| run(client, |map, cx| create(map, cx, Taken::Trusted)));
    });
    assert!(
        story.contains("secrets default/own is not there"),
        "{story}"
    );
    assert!(
        story.contains("another     makes secrets default/own"),
        "{story}"
    );
    assert!(story.contains("POST secrets default ─▶ 409"), "{story}");
    assert!(story.contains("overtaken-write-"), "{story}");
    passes(|sim| {
        script(sim);
        sim.operator(|client| run(client, |map, cx| create(map, cx, Taken::Failed)));
    });
}

/// Replaces the secret, with the version that was read or without.
async fn replace(map: Arc<ConfigMap>, cx: Ctx<()>, checks: bool) -> Result<Action, Failure> {
    if is_asked_for(&map) {
        let secrets: Api<Secret> = Api::namespaced(cx.client()?, "default");
        let mut next = secret(&map);
        let Some(found) = secrets.get_opt("own").await? else {
            secrets.create(&PostParams::default(), &next).await?;
            return Ok(Action::await_change());
        };
        if checks {
            next.metadata = found.metadata;
        }
        secrets
            .replace("own", &PostParams::default(), &next)
            .await?;
    }
    Ok(Action::await_change())
}

#[test]
fn a_change_of_another_client_that_a_write_takes_away_is_told() {
    let story = told(|sim| {
        script(sim);
        sim.operator(|client| run(client, |map, cx| replace(map, cx, false)));
    });
    assert!(
        story.contains("a change of another client was lost"),
        "{story}"
    );
    assert!(
        story.contains("names the version that it was made from"),
        "{story}"
    );
    assert!(story.contains("PUT secrets default/own ─▶ 200"), "{story}");
    passes(|sim| {
        script(sim);
        sim.operator(|client| run(client, |map, cx| replace(map, cx, true)));
    });
}

/// Keeps a finalizer by a patch of the whole list, out of the cache.
async fn finalize(map: Arc<ConfigMap>, cx: Ctx<()>) -> Result<Action, Failure> {
    let mut all = map.metadata.finalizers.clone().unwrap_or_default();
    if is_asked_for(&map) && !all.iter().any(|one| one == "example.com/own") {
        all.push("example.com/own".to_owned());
        let maps: Api<ConfigMap> = Api::namespaced(cx.client()?, "default");
        let patch = Patch::Merge(json!({"metadata": {"finalizers": all}}));
        maps.patch("a", &PatchParams::default(), &patch).await?;
    }
    Ok(Action::await_change())
}

#[test]
fn a_finalizer_of_another_client_that_a_patch_of_the_list_takes_away_is_told() {
    let story = told(|sim| {
        script(sim);
        sim.seeds(200).operator(|client| run(client, finalize));
    });
    assert!(
        story.contains("it had set a finalizer of configmaps default/a"),
        "{story}"
    );
}

/// The way in which the operator's finalizer goes.
#[derive(Clone, Copy)]
enum Goes {
    /// With the list.
    WithAll,
    /// Alone, from the list of the version that was read.
    Alone,
}

/// Keeps a finalizer, and removes it when the config map ends.
async fn end(map: Arc<ConfigMap>, cx: Ctx<()>, goes: Goes) -> Result<Action, Failure> {
    const OWN: &str = "example.com/own";
    if !is_asked_for(&map) {
        return Ok(Action::await_change());
    }
    let maps: Api<ConfigMap> = Api::namespaced(cx.client()?, "default");
    let mut all = map.finalizers().to_vec();
    let has_own = all.iter().any(|one| one == OWN);
    let is_ending = map.metadata.deletion_timestamp.is_some();
    let list = match (is_ending, has_own, goes) {
        (true, false, _) | (false, true, _) => return Ok(Action::await_change()),
        (true, true, Goes::WithAll) => json!({"finalizers": null}),
        (true, true, Goes::Alone) => {
            all.retain(|one| one != OWN);
            json!({"finalizers": all, "resourceVersion": map.resource_version()})
        }
        (false, false, _) => {
            all.push(OWN.to_owned());
            json!({"finalizers": all, "resourceVersion": map.resource_version()})
        }
    };
    let patch = Patch::Merge(json!({"metadata": list}));
    match maps.patch("a", &PatchParams::default(), &patch).await {
        Err(error) if is_code(&error, 404) => {}
        done => drop(done?),
    }
    Ok(Action::await_change())
}

#[test]
fn a_finalizer_of_another_client_that_holds_a_deleted_object_must_stay() {
    let describe = |sim: &mut Simulation, goes| {
        script(sim);
        sim.delete::<ConfigMap>("default/a").create(map("a"));
        sim.operator(move |client| run(client, move |map, cx| end(map, cx, goes)));
    };
    passes(|sim| describe(sim, Goes::Alone));
    let story = told(|sim| describe(sim, Goes::WithAll));
    for words in [
        "it had set a finalizer of configmaps default/a",
        "at the user's deletion 1: a finalizer of another client holds the object for 30.000 s",
        "KINFORM_SEED=held-1",
    ] {
        assert!(story.contains(words), "{words}: {story}");
    }
}

#[test]
fn seeds_find_it_too_and_no_fault_in_an_operator_that_leaves_it() {
    let describe = |sim: &mut Simulation, goes| {
        sim.create(map("a")).delete::<ConfigMap>("default/a");
        sim.seeds(200);
        sim.operator(move |client| run(client, move |map, cx| end(map, cx, goes)));
    };
    passes(|sim| describe(sim, Goes::Alone));
    let story = told(|sim| describe(sim, Goes::WithAll));
    assert!(story.contains("at the user's deletion 1"), "{story}");
    assert!(!story.contains("KINFORM_SEED=held"), "{story}");
}

/// Deletes the secret once its text is "2"; a read that fails means that it is gone.
async fn delete(map: Arc<ConfigMap>, cx: Ctx<()>, trusts: bool) -> Result<Action, Failure> {
    let secrets: Api<Secret> = Api::namespaced(cx.client()?, "default");
    let is_over = map.data.iter().flatten().any(|(_, text)| text == "2");
    if is_asked_for(&map) && !is_over {
        cx.apply(&secret(&map)).await?;
    } else if is_asked_for(&map) {
        match secrets.get("own").await {
            Ok(_) => drop(secrets.delete("own", &DeleteParams::default()).await?),
            Err(error) if trusts || is_code(&error, 404) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Action::await_change())
}

#[test]
fn a_refused_read_is_not_taken_for_an_object_that_is_gone() {
    let story = told(|sim| {
        script(sim);
        sim.operator(|client| run(client, |map, cx| delete(map, cx, true)));
    });
    assert!(story.contains("secrets default/own is there"), "{story}");
    assert!(story.contains("GET secrets default/own ─▶ 500"), "{story}");
    assert!(story.contains("refused-read-"), "{story}");
}

#[test]
fn a_value_that_is_drawn_again_after_a_restart_is_told() {
    let drawn = Arc::new(AtomicUsize::new(0));
    let story = told(|sim| {
        script(sim);
        sim.drawn_once("data.password").operator(move |client| {
            let number = drawn.fetch_add(1, Ordering::Relaxed).to_string();
            run(client, move |map, cx| {
                let mut own = secret(&map);
                own.string_data = Some([("password".to_owned(), number.clone())].into());
                async move {
                    if is_asked_for(&map) {
                        cx.apply(&own).await?;
                    }
                    Ok(Action::await_change())
                }
            })
        });
    });
    assert!(
        story.contains("data.password of secrets default/own was changed"),
        "{story}"
    );
}

/// A secret named by a field; an old one stays.
async fn rename(map: Arc<ConfigMap>, cx: Ctx<()>) -> Result<Action, Failure> {
    if is_asked_for(&map) {
        let mut own = secret(&map);
        let name = map.data.iter().flatten().find(|(name, _)| *name == "x");
        own.metadata.name = name.map(|(_, text)| format!("own-{text}"));
        own.string_data = None;
        cx.apply(&own).await?;
    }
    Ok(Action::await_change())
}

#[test]
fn a_change_that_is_put_back_leaves_nothing_unless_that_is_wanted() {
    let describe = |sim: &mut Simulation| {
        script(sim);
        sim.patch::<ConfigMap>("default/a", json!({"data": {"x": "1"}}))
            .operator(|client| run(client, rename));
    };
    let story = told(describe);
    let step = "the objects of the script are as after step 1 (creates ConfigMap default/a)";
    assert!(story.contains(step), "{story}");
    assert!(
        story.contains("secrets default/own-2 is there; after step 1 it is not"),
        "{story}"
    );
    assert!(story.contains("sim.keeps_history()"), "{story}");
    passes(|sim| {
        describe(sim);
        sim.keeps_history();
    });
}
