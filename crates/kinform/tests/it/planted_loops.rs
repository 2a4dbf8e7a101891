//! Twelve ways in which a reconcile starts itself, or two writers fight: each is found within ten runs
//! on the embedded server, under paused time.
//!
//! ```text
//! row: our patch of a Foo, a rival's patch ─▶ one or two controllers ─▶ one event, by reason and path
//! ```

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::{Action, Ctx, Error};
use kube_client::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::foo::Foo;
use crate::loops::{Found, Seen, events, run, server};

const OURS: &str = "ours";
const RIVAL: &str = "rival";

/// A patch of an object in a run of this number; null for none.
type Write = fn(&Value, usize) -> Value;

/// The way to the object.
#[derive(Clone, Copy)]
enum Way {
    Object,
    Status,
    Scale,
}

struct Row {
    name: &'static str,
    ours: (Way, Write),
    rival: Option<(Way, Write)>,
    reason: &'static str,
    path: &'static str,
}

fn time(run: usize) -> String {
    format!("2026-01-01T00:{:02}:{:02}Z", run / 60, run % 60)
}

/// Sets a member of the spec if it is another.
fn insist(foo: &Value, member: &str, value: &Value) -> Value {
    match foo["spec"][member] == *value {
        true => Value::Null,
        false => json!({ "spec": { member: value } }),
    }
}

/// An owner reference to one of the two maps whose uids the object tells.
fn owned_by(foo: &Value, name: &str) -> Value {
    let uid = &foo["metadata"]["annotations"][name];
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid});
    json!({ "metadata": { "ownerReferences": [owner] } })
}

fn loops() -> Vec<Row> {
    let row = |name, way, ours, path| Row {
        name,
        ours: (way, ours),
        rival: None,
        reason: "ReconcileLoop",
        path,
    };
    vec![
        row(
            "the time of the last look in the status",
            Way::Status,
            |_, run| json!({ "status": { "lastSeen": time(run) } }),
            "status.lastSeen",
        ),
        row(
            "a default that is cleared each time",
            Way::Object,
            |foo, _| match &foo["spec"]["mode"] {
                Value::Null => json!({ "spec": { "mode": "auto" } }),
                _ => json!({ "spec": { "mode": null } }),
            },
            "spec.mode",
        ),
        row(
            "a list in another order each time",
            Way::Object,
            |_, run| json!({ "spec": { "list": ([["a", "b"], ["b", "a"]][run % 2]) } }),
            "spec.list[0]",
        ),
        row(
            "an annotation with the time",
            Way::Object,
            |_, run| json!({ "metadata": { "annotations": { "seen": time(run) } } }),
            "metadata.annotations.seen",
        ),
        row(
            "a generated name each time",
            Way::Object,
            |_, run| {
                let letters = b"bcdfghjklmnpqrstvwxz2456789";
                let letter = |n| char::from(letters[(run * 7 + n * 11 + run * n) % letters.len()]);
                let suffix: String = (0..5).map(letter).collect();
                json!({ "spec": { "child": format!("web-{suffix}") } })
            },
            "spec.child",
        ),
        row(
            "a finalizer that comes and goes",
            Way::Object,
            |foo, _| match &foo["metadata"]["finalizers"] {
                Value::Null => json!({ "metadata": { "finalizers": ["example.com/f"] } }),
                _ => json!({ "metadata": { "finalizers": null } }),
            },
            "metadata.finalizers",
        ),
        row(
            "a label that flips",
            Way::Object,
            |_, run| json!({ "metadata": { "labels": { "is": (["on", "off"][run % 2]) } } }),
            "metadata.labels.is",
        ),
        row(
            "an owner that is another each time",
            Way::Object,
            |foo, run| owned_by(foo, ["one", "two"][run % 2]),
            "metadata.ownerReferences[0]",
        ),
        row(
            "the transition time of a condition that did not change",
            Way::Status,
            |_, run| {
                let ready = json!({"type": "Ready", "status": "True", "reason": "Fine",
                    "message": "", "lastTransitionTime": time(run)});
                json!({ "status": { "conditions": [ready] } })
            },
            "status.conditions[0].lastTransitionTime",
        ),
    ]
}

fn fights() -> Vec<Row> {
    let row = |name, ours, way, rival: Write, path| Row {
        name,
        ours: (Way::Object, ours),
        rival: Some((way, rival)),
        reason: "FieldFight",
        path,
    };
    vec![
        row(
            "a quantity in two notations",
            |foo, _| insist(foo, "cpu", &json!("1000m")),
            Way::Object,
            |foo, _| insist(foo, "cpu", &json!("1")),
            "spec.cpu",
        ),
        row(
            "two operators",
            |foo, _| insist(foo, "mode", &json!("ours")),
            Way::Object,
            |foo, _| insist(foo, "mode", &json!("theirs")),
            "spec.mode",
        ),
        row(
            "an autoscaler that sets the replicas by /scale",
            |foo, _| insist(foo, "replicas", &json!(1)),
            Way::Scale,
            |foo, _| insist(foo, "replicas", &json!(5)),
            "spec.replicas",
        ),
    ]
}

/// One run: patches the object, unless it is as it should be.
async fn reconcile(
    manager: &str,
    (way, write): (Way, Write),
    foo: &Foo,
    cx: &Ctx<Seen>,
) -> Result<Action, Error> {
    let number = cx.run().await;
    let name = foo.metadata.name.clone().unwrap_or_default();
    let foos: Api<Foo> = Api::namespaced(cx.client()?, "default");
    let now = serde_json::to_value(foo).unwrap();
    let patch = Patch::Merge(match write(&now, number) {
        Value::Null => return Ok(Action::await_change()),
        patch => patch,
    });
    let params = PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    };
    match way {
        Way::Object => drop(foos.patch(&name, &params, &patch).await?),
        Way::Status => drop(foos.patch_status(&name, &params, &patch).await?),
        Way::Scale => drop(foos.patch_scale(&name, &params, &patch).await?),
    }
    Ok(Action::await_change())
}

async fn check(row: &Row) {
    let name = row.name;
    let api = server().await;
    let mut foo = Foo::named("a");
    let uids = foo.metadata.annotations.get_or_insert_default();
    for owner in ["one", "two"] {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(owner.to_owned());
        map.metadata.namespace = Some("default".to_owned());
        let made = api.create(&map).await.unwrap();
        uids.insert(owner.to_owned(), made.metadata.uid.unwrap());
    }
    api.create(&foo).await.unwrap();
    let (seen, rivals) = (Seen::default(), Seen::default());
    let ours = row.ours;
    let operator = run(&api, OURS, &seen, move |foo: Arc<Foo>, cx| async move {
        reconcile(OURS, ours, &foo, &cx).await
    });
    let rival = row.rival.map(|rival| {
        run(&api, RIVAL, &rivals, move |foo: Arc<Foo>, cx| async move {
            reconcile(RIVAL, rival, &foo, &cx).await
        })
    });
    tokio::time::sleep(Duration::from_secs(10)).await;
    // The first run was caused by the list, ten after it by own writes or the rival's.
    let runs = seen.runs_before();
    assert!(runs <= 11, "{name}: {runs} runs");
    let (is_loop, is_fight) = match row.rival {
        None => (1, 0),
        Some(_) => (0, 1),
    };
    let counted = (seen.count(Found::Loops), seen.count(Found::Fights));
    assert_eq!(counted, (is_loop, is_fight), "{name}");
    let [(reason, note)] = &events(&api, OURS).await[..] else {
        panic!("{name}: one event");
    };
    assert_eq!(reason, row.reason, "{name}");
    assert!(
        note.contains(row.path) && note.contains(OURS),
        "{name}: {note}"
    );
    assert_eq!(note.contains(RIVAL), row.rival.is_some(), "{name}: {note}");
    operator.stop().await.unwrap();
    if let Some(rival) = rival {
        rival.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn twelve_planted_loops_and_fights_are_found_within_ten_runs_by_path_and_manager() {
    let rows: Vec<Row> = loops().into_iter().chain(fights()).collect();
    assert_eq!(rows.len(), 12);
    for row in &rows {
        check(row).await;
    }
}
