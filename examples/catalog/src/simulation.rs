//! A simulation: a reconcile function under crashes, stale caches and lost replies.
//!
//! ```text
//! script of changes ─▶ run without faults ─▶ states ┐
//!                   └▶ runs with faults ──▶ states ─┴▶ the same? no: the story of the failure
//! ```
//!
//! Prints the number of runs. The operator is the one of `own_crd`, unchanged; `examples/mistakes` has
//! twelve that fail. In a program of your own, `simulate(describe)` is an ordinary `#[test]`.
//!
//! Upstream counterpart: none; the method is that of Sieve (OSDI 2022).

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::CancellationToken;
use kinform_testkit::Simulation;
use kinform_testkit::simulate::try_simulate;
use serde_json::json;
use tokio::sync::oneshot;

use crate::own_crd::{Website, WebsiteSpec, operator};
use crate::start::{Failure, Out};

fn website(name: &str, title: &str) -> Website {
    let title = title.to_owned();
    Website::new(name, WebsiteSpec { title })
}

/// The operator, what users do, and what must hold beyond the usual.
pub fn describe(sim: &mut Simulation) {
    sim.crd::<Website>()
        .operator(|client| operator(client, Out::to(std::io::sink()), CancellationToken::new()))
        .create(website("docs", "Docs"))
        .create(website("blog", "Blog"))
        .patch::<Website>("default/docs", json!({"spec": {"title": "Manual"}}))
        .delete::<ConfigMap>("default/blog-page")
        .delete::<Website>("default/blog")
        .in_the_end("the page has the last title", |world| {
            let page = world.get::<ConfigMap>("default/docs-page");
            let html = page.and_then(|page| page.data?.remove("index.html"));
            match html.as_deref() {
                Some("<h1>Manual</h1>") => Ok(()),
                other => Err(format!("it is {other:?}")),
            }
        })
        .seeds(40);
}

/// Simulates, on a thread of its own: a simulation has its own runtime and its own time.
pub async fn run(out: Out) -> Result<(), Failure> {
    let (send, receive) = oneshot::channel();
    let thread = std::thread::Builder::new().name("simulation".to_owned());
    thread.spawn(move || {
        // Without a receiver nobody waits for it any more.
        let _ = send.send(try_simulate(describe));
    })?;
    let summary = receive.await??;
    let (runs, writes) = (summary.runs, summary.writes);
    out.line(format!(
        "{runs} runs with faults, {writes} writes in the one without: all alike"
    ));
    Ok(())
}
