//! Spans: what is done for which resource, key and version.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Pod;
use kinform::{Action, CancellationToken, Controller, Ctx, Error};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry;

use crate::fixture::{factory, first_list, pod, settle};

/// The spans that were made, in order: each an id, a name and its fields.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Made>>>);

type Made = (Id, &'static str, Fields);

#[derive(Clone, Debug, Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = format!("{value:?}").trim_matches('"').to_owned();
        self.0.insert(field.name(), value);
    }
}

impl<S: tracing::Subscriber> Layer<S> for Spans {
    fn on_new_span(&self, span: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let mut fields = Fields::default();
        span.record(&mut fields);
        let made = (id.clone(), span.metadata().name(), fields);
        self.0.lock().unwrap().push(made);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut spans = self.0.lock().unwrap();
        // An id is used again when its span is closed.
        let last = spans.iter_mut().rfind(|(made, ..)| made == id);
        values.record(&mut last.unwrap().2);
    }
}

#[tokio::test(start_paused = true)]
async fn spans_name_the_resource_and_each_reconcile_its_controller_key_version_failures_and_cause()
{
    let spans = Spans::default();
    // See `d16_no_content_of_an_object_is_logged_or_reported`.
    let _second = tracing::Dispatch::new(registry().with(Spans::default()));
    let _guard = tracing::subscriber::set_default(registry().with(spans.clone()));
    tracing::callsite::rebuild_interest_cache();
    let (factory, mut script) = factory();
    let informer = factory.informer::<Pod>();
    let stop = CancellationToken::new();
    let controller = Controller::of(&informer).shutdown_on(stop.clone());
    factory.start().unwrap();
    let running =
        tokio::spawn(
            controller.run(async |_pod: Arc<Pod>, cx: Ctx<()>| match cx.failures() {
                0 => Err(std::io::Error::other("this failure is part of the test")),
                _ => Ok(Action::await_change()),
            }),
        );
    let _watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    settle().await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    stop.cancel();
    let ended: Result<(), Error> = running.await.unwrap();
    ended.unwrap();
    factory.shutdown().await;
    let spans = spans.0.lock().unwrap().clone();
    let named = |name: &str| -> Vec<Fields> {
        let found = spans.iter().filter(|(_, span, _)| *span == name);
        found.map(|(.., fields)| fields.clone()).collect()
    };
    let [informer] = &named("informer")[..] else {
        panic!("{spans:?}");
    };
    assert_eq!(informer.0["resource"], "pods");
    let [first, again] = &named("reconcile")[..] else {
        panic!("{spans:?}");
    };
    for (span, failures, cause) in [(first, "0", "initial Pod@1"), (again, "1", "retried")] {
        let field = |name: &str| span.0[name].as_str();
        assert_eq!(
            [
                field("controller"),
                field("resource"),
                field("key"),
                field("version"),
                field("failures"),
                field("cause")
            ],
            ["pod", "pods", "default/a", "1", failures, cause]
        );
    }
}
