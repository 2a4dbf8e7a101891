//! An operator whose webhooks do what an object asks for, and which watches a type that it converts.
//!
//! ```text
//! ConfigMap {data: {do: deny | warn | change | slow | fail | panic}} ─▶ verdict
//! Knot v1 {size} ─▶ a label; denied above 100
//! Knot v1 {size} ⇄ Knot v2 {length} ─▶ informer of v2 ─▶ ConfigMap of its name {length}
//! ```

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use k8s_openapi::api::core::v1::ConfigMap;
use kinform::{Action, Controller, Ctx};
use kinform_operator::webhook::{
    AdmissionRequest, Certificates, Conversion, Error as WebhookError, Managed, Verdict, Webhooks,
};
use kinform_operator::{Error, Flags, Operator};
use kube::ResourceExt;

mod v1 {
    #[derive(
        kube::CustomResource,
        Clone,
        Debug,
        serde::Serialize,
        serde::Deserialize,
        schemars::JsonSchema,
    )]
    #[kube(group = "conv.example.com", version = "v1", kind = "Knot", namespaced)]
    pub(crate) struct KnotSpec {
        pub(crate) size: i64,
    }
}

mod v2 {
    #[derive(
        kube::CustomResource,
        Clone,
        Debug,
        serde::Serialize,
        serde::Deserialize,
        schemars::JsonSchema,
    )]
    #[kube(group = "conv.example.com", version = "v2", kind = "Knot", namespaced)]
    pub(crate) struct KnotSpec {
        pub(crate) length: String,
    }
}

#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    operator: Flags,
}

#[tokio::main]
async fn main() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    kinform_operator::main(run).await
}

async fn run(args: Args) -> Result<(), Error> {
    let operator = Operator::builder("hooks")
        .flags(&args.operator)
        .try_default()
        .await?;
    let managed = Managed::new("default", "hooks", "hooks")
        .mutating("hooks")
        .validating("hooks")
        .conversion("knots.conv.example.com");
    let webhooks = Webhooks::new()
        .mutate(change)?
        .validate(judge)?
        .mutate(measure)?
        .validate(limit)?
        .convert(Conversion::of::<v1::Knot>().then(up, down))?;
    // With `--webhook-cert-path` the files are used, and somebody else replaces them.
    let certificates = operator
        .webhook_certificate()
        .unwrap_or_else(|| Certificates::managed(managed, operator.unguarded()));
    operator.serve_webhooks(webhooks, certificates)?;
    let knots = operator.informer::<v2::Knot>();
    operator.add(Controller::of(&knots).reconciling(reconcile))?;
    operator.run().await
}

/// The wish in an object.
fn wish(map: &ConfigMap) -> &str {
    let wish = map.data.as_ref().and_then(|data| data.get("do"));
    wish.map_or("", String::as_str)
}

async fn change(request: AdmissionRequest<ConfigMap>) -> Result<Verdict, WebhookError> {
    let Some(mut map) = request.object.filter(|map| wish(map) == "change") else {
        return Ok(Verdict::allow());
    };
    let data = map.data.get_or_insert_default();
    data.insert("changed".to_owned(), "yes".to_owned());
    Ok(Verdict::change(&map))
}

async fn judge(request: AdmissionRequest<ConfigMap>) -> Result<Verdict, std::io::Error> {
    let map = request.object.unwrap_or_default();
    match wish(&map) {
        "deny" => Ok(Verdict::deny("not today")),
        "warn" => Ok(Verdict::allow().with_warning("mind the gap")),
        "slow" => {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok(Verdict::allow())
        }
        "fail" => Err(std::io::Error::other("out of order")),
        "panic" => panic!("a wish"),
        _ => Ok(Verdict::allow()),
    }
}

/// Labels a Knot that is measured.
async fn measure(request: AdmissionRequest<v1::Knot>) -> Result<Verdict, WebhookError> {
    let Some(mut knot) = request.object else {
        return Ok(Verdict::allow());
    };
    let (label, value) = ("measured".to_owned(), "yes".to_owned());
    knot.labels_mut().insert(label, value);
    Ok(Verdict::change(&knot))
}

/// Denies a Knot that is too large.
async fn limit(request: AdmissionRequest<v1::Knot>) -> Result<Verdict, WebhookError> {
    match request.object.map(|knot| knot.spec.size) {
        Some(size) if size > 100 => Ok(Verdict::deny(format!("{size} m are a rope, not a knot"))),
        _ => Ok(Verdict::allow()),
    }
}

/// The object in the other version: its metadata, and a new spec.
fn up(old: v1::Knot) -> Result<v2::Knot, WebhookError> {
    let length = format!("{} m", old.spec.size);
    let mut new = v2::Knot::new("", v2::KnotSpec { length });
    new.metadata = old.metadata;
    Ok(new)
}

fn down(new: v2::Knot) -> Result<v1::Knot, std::num::ParseIntError> {
    let size = new.spec.length.trim_end_matches(" m").parse()?;
    let mut old = v1::Knot::new("", v1::KnotSpec { size });
    old.metadata = new.metadata;
    Ok(old)
}

async fn reconcile(knot: Arc<v2::Knot>, cx: Ctx<()>) -> Result<Action, kinform::Error> {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(knot.name_any());
    let length = knot.spec.length.clone();
    map.data = Some([("length".to_owned(), length)].into());
    cx.apply(&map).await?;
    Ok(Action::await_change())
}
