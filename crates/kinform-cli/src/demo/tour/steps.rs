//! The steps of the tour: a title, a fact, and the paragraph that tells it with its numbers.
//!
//! ```text
//! Program (counters, caches) ─▶ fact: None as long as it is not true ─▶ paragraph
//! ```

use std::time::Instant;

use k8s_openapi::api::apps::v1::Deployment;
use kinform::ObjectKey;
use kube_core::ResourceExt as _;
use sample_controller::Foo;

use crate::demo::acts::Act;
use crate::demo::program::Program;

/// Reads of the cache that are timed.
const READS: u32 = 1_000;

/// A step.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) title: &'static str,
    /// The act of the step, if it has one, and what is said before it.
    pub(super) act: Option<Act>,
    pub(super) intro: &'static str,
    /// The claim, for the failure.
    pub(super) claim: &'static str,
    /// The paragraph, once it is true.
    pub(super) fact: fn(&Look<'_>) -> Option<String>,
}

/// The counters before a step.
#[derive(Debug)]
pub(super) struct Before {
    lists: u64,
}

impl Before {
    pub(super) fn take(program: &Program) -> Self {
        Self {
            lists: sum(program, |stats| stats.lists),
        }
    }
}

/// The program, and what its acts have told since the step began.
#[derive(Debug)]
pub(super) struct Look<'a> {
    pub(super) program: &'a Program,
    pub(super) before: &'a Before,
    pub(super) told: Option<&'a str>,
}

/// The steps, in the order of the pipeline.
pub(super) static STEPS: [Step; 11] = [
    step("list", "each informer made a list", listed),
    step("watch", "events came by a watch", watched),
    step("store", "the caches hold objects", stored),
    step("index", "the index found a node with pods", indexed),
    step("handlers", "handlers heard a change", heard),
    step("queue", "keys were added to a queue", queued),
    step(
        "reconcile and status",
        "a Foo has its Deployment and status",
        reconciled,
    ),
    Step {
        title: "when connections break",
        act: Some(Act::Cut),
        intro: "Connections break, and not only at the end of a message. The demo now cuts every \
                watch in the middle.",
        claim: "watches went on without a list",
        fact: cut,
    },
    Step {
        title: "when history is gone",
        act: Some(Act::Expire),
        intro: "A server keeps its history for some minutes only. The demo now lets all of it \
                expire, and cuts every watch once more.",
        claim: "an informer listed again, because its version had expired",
        fact: expired,
    },
    Step {
        title: "when a handler is slow",
        act: Some(Act::SlowHandler),
        intro: "Now one more handler hears the changes of pods, and takes 50 ms for each. That is \
                slower than they come.",
        claim: "the slow handler lags, and the others do not",
        fact: slow,
    },
    Step {
        title: "when the leader dies",
        act: Some(Act::Leader),
        intro: "Two replicas of the controller run here: one works, the other waits for its lease. \
                The demo now cuts the leader off, as if its node had died.",
        claim: "the other replica leads, and no key was reconciled by both at once",
        fact: succeeded,
    },
];

const fn step(
    title: &'static str,
    claim: &'static str,
    fact: fn(&Look<'_>) -> Option<String>,
) -> Step {
    Step {
        title,
        act: None,
        intro: "",
        claim,
        fact,
    }
}

fn sum(program: &Program, of: impl Fn(&kinform::InformerStats) -> u64) -> u64 {
    let stats = program.pipeline.stats();
    stats.iter().map(|(_, stats)| of(stats)).sum()
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn listed(look: &Look<'_>) -> Option<String> {
    let stats = look.program.pipeline.stats();
    if stats.iter().any(|(_, stats)| stats.lists == 0) {
        return None;
    }
    let types = stats
        .iter()
        .map(|(title, stats)| format!("{} {title}", stats.objects));
    Some(format!(
        "An informer begins with a list of everything there is. Four informers have read {}: {:.1} \
         MB in {:.2} s, from an API server in this process. Foos are a custom resource, the others \
         are built in.",
        types.collect::<Vec<_>>().join(", "),
        megabytes(sum(look.program, |stats| stats.wire_bytes)),
        look.program.pipeline.sync_seconds,
    ))
}

fn watched(look: &Look<'_>) -> Option<String> {
    let events = sum(look.program, |stats| stats.events);
    (events > 0).then(|| {
        format!(
            "After the list, an informer keeps a watch open from the version of that list: the \
             server sends each change as an event, and nothing is polled. The demo changes objects \
             all the time, as any client would; {events} events have come by {} watches so far.",
            sum(look.program, |stats| stats.watches)
        )
    })
}

fn stored(look: &Look<'_>) -> Option<String> {
    let pods = look.program.pipeline.informer("pods");
    let (namespace, name) = look.program.stage.targets.pods.first()?;
    let key = ObjectKey::new(Some(namespace), name);
    let started = Instant::now();
    for _ in 0..READS {
        std::hint::black_box(pods.get(&key));
    }
    let read = started.elapsed() / READS;
    let objects = sum(look.program, |stats| stats.objects);
    let bytes = sum(look.program, |stats| stats.heap_bytes);
    (objects > 0).then(|| {
        format!(
            "The cache keeps objects as the bytes that came, and decodes one when somebody asks for \
             its type. {objects} objects take {:.1} MB, {} bytes each. Readers take no lock and see \
             one consistent state: {READS} reads of pod {namespace}/{name} just took {read:.0?} each.",
            megabytes(bytes),
            bytes / objects
        )
    })
}

fn indexed(look: &Look<'_>) -> Option<String> {
    let index = &look.program.pipeline.by_node;
    let nodes = index.values();
    let (node, _) = nodes.iter().max_by_key(|(_, pods)| *pods)?;
    let started = Instant::now();
    let pods = index.get(node.to_string()).len();
    let took = started.elapsed();
    (pods > 0).then(|| {
        format!(
            "An index answers a question without a look at every object. This one keeps pods by \
             their node, and is changed with each event: {node} has {pods} pods, the most of {} \
             nodes. The answer took {took:.0?}.",
            nodes.len()
        )
    })
}

fn heard(look: &Look<'_>) -> Option<String> {
    let (median, most) = look.program.pipeline.latencies();
    (median > 0.0).then(|| {
        format!(
            "Handlers are your functions: they hear each add, update and delete, in order. Those of \
             the demo have heard {}. Half of the changes were heard within {median:.1} ms after a \
             client had sent them, and 99 of 100 within {most:.1} ms.",
            look.program.pipeline.notifications()
        )
    })
}

fn queued(look: &Look<'_>) -> Option<String> {
    let work = look.program.pipeline.work();
    (work.adds > 0).then(|| {
        format!(
            "A controller's handlers do no work. They add the key of an object to a queue, where a \
             key waits once however often it is added. The sample controller's queue has seen {} \
             keys added, {} more were waiting already, and {} wait now.",
            work.adds, work.merged, work.depth
        )
    })
}

fn reconciled(look: &Look<'_>) -> Option<String> {
    let pipeline = &look.program.pipeline;
    let foos = pipeline.informer("foos").cast::<Foo>();
    let deployments = pipeline.informer("deployments").cast::<Deployment>();
    let all = foos.list();
    let mut done = all.iter().filter_map(|foo| {
        let foo = foo.typed().ok()?;
        let (status, wanted) = (foo.status.as_ref()?, foo.spec.replicas?);
        let namespace = foo.namespace()?;
        let key = ObjectKey::new(Some(&namespace), &foo.spec.deployment_name);
        let deployment = deployments.get(&key)?.typed().ok()?;
        let replicas = deployment.spec.replicas?;
        (replicas == wanted).then(|| {
            format!(
                "Foo {} has `replicas: {wanted}`; so has its Deployment {}, and the status of the Foo \
                 says that {} are available (nothing runs pods here).",
                foo.name_any(),
                foo.spec.deployment_name,
                status.available_replicas
            )
        })
    });
    let example = done.next()?;
    Some(format!(
        "Workers take a key and reconcile: they read the caches, compare what is with what should \
         be, write the difference, and note the result in the status. That was done {} times. \
         {example}",
        pipeline.work().reconciles
    ))
}

fn cut(look: &Look<'_>) -> Option<String> {
    let told = look.told?;
    let lists = sum(look.program, |stats| stats.lists);
    (lists == look.before.lists).then(|| {
        format!(
            "They are back: {told}. The server sent the changes since the version that each had \
             reached, so that none is missed."
        )
    })
}

fn expired(look: &Look<'_>) -> Option<String> {
    Some(format!(
        "This is what came of it: {}. Handlers hear of the difference only: objects that have not \
         changed are not reported again.",
        look.told?
    ))
}

fn slow(look: &Look<'_>) -> Option<String> {
    Some(format!(
        "Now {}. Each handler has its own place in the changes, so only the slow one waits. If it \
         falls too far behind, it gets the difference to the newest state instead of each change.",
        look.told?
    ))
}

fn succeeded(look: &Look<'_>) -> Option<String> {
    Some(format!(
        "The other one took over: {}. Requests of a replica whose term is over are refused before \
         they are sent, so two leaders never write.",
        look.told?
    ))
}
