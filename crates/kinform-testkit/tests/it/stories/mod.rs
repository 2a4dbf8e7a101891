//! Controllers compared with the real ones: recorded stories of a cluster with the real controller
//! manager and scheduler happen again, under paused time.
//!
//! ```text
//! testdata/controlplane ─▶ the same requests ─▶ server + controllers ─▶ made, gone, states, conditions, events
//! ```
//!
//! Compared is, for each step and resource: what was made and deleted, in which state the objects are
//! before the next step, which conditions they went through, and which events were written, in order.
//! Differences are listed with their reason. A listed one that is gone fails the test, too.

mod kubelet;
mod nodes;
mod normal;
mod play;
mod recording;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use self::normal::Names;
use self::recording::{Change, Story};

/// Resources that differ in steps of a story, and the reason.
const DIFFERENCES: &[(&str, &str, &[usize], &str)] = &[
    (
        "volumes",
        "persistentvolumeclaims",
        &[10],
        "the claim is seen bound before its pod has a node",
    ),
    (
        "deployment",
        "deployments",
        &[10],
        "there, the status of the new set meets a conflict after the one of the resumption",
    ),
    (
        "deployment-other",
        "deployments",
        &[3],
        "there, the status is written once more while the owner is on its way out",
    ),
    (
        "replicaset",
        "events",
        &[6],
        "which of two equal pods is deleted is as good as chance",
    ),
    (
        "scheduling",
        "events",
        &[11],
        "a pod that waits for room tells so once",
    ),
    (
        "scheduling",
        "nodes",
        &[11],
        "the recorder took the label back without recording it",
    ),
    (
        "nodes",
        "events",
        &[2, 5],
        "there, a new node is noticed at the next of the looks every 2 s",
    ),
    (
        "namespace",
        "namespaces",
        &[8],
        "there, the first status may say that all is removed",
    ),
    (
        "namespace",
        "secrets",
        &[4],
        "a server without TLS has no authority",
    ),
    (
        "job-kinds",
        "events",
        &[5, 6],
        "a deadline of whole seconds comes within the next step",
    ),
    (
        "job-kinds",
        "jobs",
        &[5, 6],
        "a Job is gone a second earlier: its end is not gathered for a second",
    ),
    (
        "job-kinds",
        "pods",
        &[5, 6],
        "those of the Jobs that end earlier or later",
    ),
    (
        "cronjob",
        "events",
        &[1],
        "the minute of the recording began at another part of the story",
    ),
    (
        "cronjob",
        "jobs",
        &[1],
        "the minute of the recording began at another part of the story",
    ),
    (
        "cronjob",
        "pods",
        &[1],
        "the minute of the recording began at another part of the story",
    ),
    (
        "disruption",
        "events",
        &[2],
        "there, the budget is seen before the pods",
    ),
    (
        "statefulset",
        "events",
        &[6],
        "a pod that waits for its claim tells so once",
    ),
    (
        "statefulset-parallel",
        "events",
        &[1, 2, 3],
        "a pod that waits for its claim tells so once",
    ),
    (
        "volumes",
        "storageclasses",
        &[12, 14],
        "the recorder deleted the classes without recording it",
    ),
];

/// After a pause of this length, everything has settled: there, controllers take up to 0.3 s to react.
const REST: Duration = Duration::from_millis(700);

/// The comparable outcome of one step for one resource.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    /// Names that were made (`+`) and deleted (`-`), in the order of the names.
    born: Vec<String>,
    /// The states at the end.
    states: Vec<String>,
    /// The conditions that each object went through, in the order of their names.
    conditions: Vec<String>,
}

fn name_of(object: &Value) -> String {
    let meta = &object["metadata"];
    meta["name"].as_str().unwrap_or_default().to_owned()
}

/// The conditions of a state, as one text.
fn conditions(object: &Value) -> String {
    let all = object["status"]["conditions"].as_array();
    let one = |condition: &Value| {
        let text = |name: &str| condition[name].as_str().unwrap_or_default();
        format!("{}={}/{}", text("type"), text("status"), text("reason"))
    };
    let mut all: Vec<_> = all.into_iter().flatten().map(one).collect();
    all.sort();
    all.join(" ")
}

/// The text of an event.
fn event(object: &Value) -> String {
    let about = &object["involvedObject"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!(
        "{} {}: {} {} {} from {} x{}",
        text(&about["kind"]),
        text(&about["name"]),
        text(&object["type"]),
        text(&object["reason"]),
        text(&object["message"]),
        text(&object["source"]["component"]),
        object["count"],
    )
}

/// The changes up to each rest of the story, and the step before that.
fn rests(story: &Story, steps: &[Vec<Change>]) -> Vec<(usize, Vec<Change>)> {
    let mut rests = Vec::new();
    let mut changes = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        changes.extend(step.iter().cloned());
        let next = story.steps.get(at + 1);
        if next.is_none_or(|next| next.at - story.steps[at].at > REST) {
            rests.push((at, std::mem::take(&mut changes)));
        }
    }
    rests
}

/// The outcomes of a run, by step and resource.
fn outcomes(story: &Story, steps: &[Vec<Change>]) -> BTreeMap<(usize, String), Outcome> {
    let names = Names::of(steps.iter().flatten());
    // The state of each object, by resource and its real name.
    let mut states: BTreeMap<(String, String), Value> = BTreeMap::new();
    let mut outcomes = BTreeMap::new();
    for (at, changes) in rests(story, steps) {
        let mut found: BTreeMap<String, Outcome> = BTreeMap::new();
        let mut passed: BTreeMap<(String, String), (String, Vec<String>)> = BTreeMap::new();
        for change in &changes {
            let meta = &change.object["metadata"];
            let namespace = meta["namespace"].as_str();
            let is_namespace = change.resource == "namespaces";
            if namespace.is_some_and(|namespace| namespace != story.namespace)
                || is_namespace && meta["name"] != story.namespace.as_str()
            {
                continue;
            }
            let object = names.normal(change);
            let outcome = found.entry(change.resource.clone()).or_default();
            if change.resource == "events" {
                outcome.born.push(event(&object));
                continue;
            }
            let key = (change.resource.clone(), name_of(&change.object));
            let (_, passed) = passed
                .entry(key.clone())
                .or_insert_with(|| (name_of(&object), Vec::new()));
            let now = conditions(&object);
            if passed.last() != Some(&now) {
                passed.push(now);
            }
            match &*change.kind {
                "ADDED" => outcome.born.push(format!("+{}", name_of(&object))),
                "DELETED" => outcome.born.push(format!("-{}", name_of(&object))),
                _ => {}
            }
            if change.kind == "DELETED" {
                states.remove(&key);
            } else {
                states.insert(key, object);
            }
        }
        for ((resource, _), (name, passed)) in passed {
            let outcome = found.get_mut(&resource).unwrap();
            if passed.iter().any(|one| !one.is_empty()) {
                outcome
                    .conditions
                    .push(format!("{name}: {}", passed.join(" > ")));
            }
        }
        for (resource, mut outcome) in found {
            // Events of one object stay in order.
            let about = |text: &String| text.split(": ").next().map(str::to_owned);
            if resource == "events" {
                outcome.born.sort_by_key(about);
            } else {
                outcome.born.sort();
            }
            let of = states.iter().filter(|((of, _), _)| *of == resource);
            outcome.states = of.map(|(_, state)| state.to_string()).collect();
            outcome.states.sort();
            outcome.conditions.sort();
            outcomes.insert((at, resource), outcome);
        }
    }
    outcomes
}

fn told(name: &str, story: &Story, wanted: &Outcome, found: &Outcome, at: usize) -> String {
    use std::fmt::Write as _;
    let mut text = format!(
        "{name}#{at} {} {}\n",
        story.steps[at].act.method, story.steps[at].act.path
    );
    let parts = [
        ("born", &wanted.born, &found.born),
        ("states", &wanted.states, &found.states),
        ("conditions", &wanted.conditions, &found.conditions),
    ];
    for (part, wanted, found) in parts {
        let (mut there, mut here) = (wanted.clone(), found.clone());
        there.retain(|one| !found.contains(one));
        here.retain(|one| !wanted.contains(one));
        for one in there {
            let _ = writeln!(text, "  {part} there {one}");
        }
        for one in here {
            let _ = writeln!(text, "  {part} here  {one}");
        }
    }
    text
}

/// Tells a story; returns the number of comparisons, and those that differ.
async fn compare(name: &str) -> (usize, Vec<(String, usize, String)>) {
    let story = match name {
        // The recorded controller looked every 5 seconds.
        "hpa" => Story::read(name).slower(3),
        name => Story::read(name),
    };
    let (seen, refusals) = play::tell(&story).await;
    assert!(refusals.is_empty(), "{name}: {refusals:#?}");
    let recorded: Vec<_> = story
        .steps
        .iter()
        .map(|step| step.changes.clone())
        .collect();
    let (wanted, found) = (outcomes(&story, &recorded), outcomes(&story, &seen));
    let mut keys: Vec<_> = wanted.keys().chain(found.keys()).cloned().collect();
    keys.sort();
    keys.dedup();
    let none = Outcome::default();
    let mut differing = Vec::new();
    for key in &keys {
        let (wanted, found) = (wanted.get(key), found.get(key));
        if wanted != found {
            let (wanted, found) = (wanted.unwrap_or(&none), found.unwrap_or(&none));
            let told = told(name, &story, wanted, found, key.0);
            differing.push((key.1.clone(), key.0, format!("{} {told}", key.1)));
        }
    }
    (keys.len(), differing)
}

/// Compares stories; prints the figure of each.
#[expect(
    clippy::print_stdout,
    reason = "figures for whoever asks with --nocapture"
)]
async fn check(stories: &[&str]) {
    let mut wrong = Vec::new();
    for name in stories {
        let (figure, found) = judge(name).await;
        println!("{figure}");
        wrong.extend(found);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Tells a story; returns its figure, and what differs and is not listed, or the reverse.
async fn judge(name: &str) -> (String, Vec<String>) {
    let mut wrong = Vec::new();
    let (all, differing) = compare(name).await;
    let figure = format!("{name}: {} of {all} alike", all - differing.len());
    let listed = |resource: &str, at: usize| {
        DIFFERENCES
            .iter()
            .any(|(story, of, steps, _)| *story == name && *of == resource && steps.contains(&at))
    };
    for (resource, at, told) in &differing {
        if !listed(resource, *at) {
            wrong.push(told.clone());
        }
    }
    for (_, resource, steps, reason) in DIFFERENCES.iter().filter(|one| one.0 == name) {
        for at in *steps {
            let is_there = differing
                .iter()
                .any(|one| one.0 == *resource && one.1 == *at);
            if !is_there {
                wrong.push(format!(
                    "{name}#{at} {resource} is alike, but listed: {reason}"
                ));
            }
        }
    }
    (figure, wrong)
}

#[tokio::test(start_paused = true)]
async fn deployments_live_as_they_were_recorded() {
    check(&[
        "deployment",
        "deployment-other",
        "replicaset",
        "replicaset-refused",
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn services_and_pods_live_as_they_were_recorded() {
    check(&["scheduling", "service", "quota", "garbage", "namespace"]).await;
}

#[tokio::test(start_paused = true)]
async fn sets_live_as_they_were_recorded() {
    check(&[
        "statefulset",
        "statefulset-parallel",
        "daemonset",
        "volumes",
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn jobs_live_as_they_were_recorded() {
    check(&["job", "job-failing", "job-kinds", "cronjob", "disruption"]).await;
}

#[tokio::test(start_paused = true)]
async fn nodes_live_as_they_were_recorded() {
    check(&["nodes", "node-lost"]).await;
}

#[tokio::test(start_paused = true)]
async fn autoscalers_live_as_they_were_recorded() {
    check(&["hpa"]).await;
}
