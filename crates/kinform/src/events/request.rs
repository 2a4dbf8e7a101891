//! A telling as a request, and the meaning of its answer.
//!
//! ```text
//! Telling → POST (an event of v1 or events.k8s.io/v1) │ PATCH (its count) → Tried
//! ```
//!
//! Upstream counterpart: `client-go:tools/record/event.go` (`recordEvent`),
//! `client-go:tools/events/event_broadcaster.go` (`recordEvent`).

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event as CoreEvent, EventSource};
use k8s_openapi::api::events::v1::{Event as SeriesEvent, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube_client::api::{Api, Patch, PatchParams, PostParams};
use kube_core::Status;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::telling::{Telling, Verb};

pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The API that a recorder writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Core,
    Series,
}

/// The program that writes.
#[derive(Clone, Debug)]
pub(super) struct Reporter {
    pub(super) controller: String,
    pub(super) instance: String,
}

/// The result of one try.
#[derive(Debug)]
pub(super) enum Tried {
    Done,
    /// The server no longer has the event.
    Missing,
    Refused(Box<Status>),
    Unreachable(String),
}

/// Makes the request of a telling.
pub(super) async fn tell(
    client: &kube_client::Client,
    form: Form,
    reporter: &Reporter,
    telling: &Telling,
) -> Tried {
    let namespace = telling.event.namespace();
    match form {
        Form::Core => {
            let events = Api::namespaced(client.clone(), namespace);
            send(
                &events,
                telling,
                &core_event(reporter, telling),
                core_patch(telling),
            )
            .await
        }
        Form::Series => {
            let events = Api::namespaced(client.clone(), namespace);
            send(
                &events,
                telling,
                &series_event(reporter, telling),
                series_patch(telling),
            )
            .await
        }
    }
}

async fn send<E>(events: &Api<E>, telling: &Telling, event: &E, patch: Value) -> Tried
where
    E: Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    let Telling { name, verb, .. } = telling;
    let sent = async {
        match verb {
            Verb::Create => events.create(&PostParams::default(), event).await,
            Verb::Patch => {
                let patch = Patch::Merge(&patch);
                events.patch(name, &PatchParams::default(), &patch).await
            }
        }
    };
    match tokio::time::timeout(REQUEST_TIMEOUT, sent).await {
        Ok(Ok(_)) => Tried::Done,
        Ok(Err(kube_client::Error::Api(status))) => match (verb, status.code) {
            (Verb::Patch, 404) => Tried::Missing,
            // Names are given once: it is the event itself, whose answer was lost.
            (Verb::Create, 409) => Tried::Done,
            // Not a refusal: the server asks to come later.
            (_, 429 | 502..=504) => Tried::Unreachable(status.message.clone()),
            _ => Tried::Refused(status),
        },
        Ok(Err(error)) => Tried::Unreachable(error.to_string()),
        Err(_) => Tried::Unreachable(format!("no answer within {REQUEST_TIMEOUT:?}")),
    }
}

fn metadata(telling: &Telling) -> ObjectMeta {
    ObjectMeta {
        name: Some(telling.name.clone()),
        namespace: Some(telling.event.namespace().to_owned()),
        ..ObjectMeta::default()
    }
}

fn core_patch(telling: &Telling) -> Value {
    let Telling {
        count, last, note, ..
    } = telling;
    json!({"count": count, "lastTimestamp": Time(*last), "message": note})
}

fn core_event(reporter: &Reporter, telling: &Telling) -> CoreEvent {
    let event = &telling.event;
    CoreEvent {
        metadata: metadata(telling),
        involved_object: event.about.clone(),
        related: event.related.clone(),
        type_: Some(event.event_type.as_str().to_owned()),
        reason: Some(event.reason.clone()),
        action: Some(event.action.clone()).filter(|action| !action.is_empty()),
        message: Some(telling.note.clone()),
        source: Some(EventSource {
            component: Some(reporter.controller.clone()),
            host: None,
        }),
        reporting_component: Some(reporter.controller.clone()),
        first_timestamp: Some(Time(telling.first)),
        last_timestamp: Some(Time(telling.last)),
        count: Some(saturated(telling.count)),
        ..CoreEvent::default()
    }
}

fn series(telling: &Telling) -> Option<EventSeries> {
    (telling.count > 1).then(|| EventSeries {
        count: saturated(telling.count),
        last_observed_time: MicroTime(telling.last),
    })
}

fn series_patch(telling: &Telling) -> Value {
    json!({"series": series(telling)})
}

fn series_event(reporter: &Reporter, telling: &Telling) -> SeriesEvent {
    let event = &telling.event;
    let action = if event.action.is_empty() {
        // The server wants one.
        &event.reason
    } else {
        &event.action
    };
    SeriesEvent {
        metadata: metadata(telling),
        event_time: Some(MicroTime(telling.first)),
        series: series(telling),
        reporting_controller: Some(reporter.controller.clone()),
        reporting_instance: Some(reporter.instance.clone()),
        action: Some(action.clone()),
        reason: Some(event.reason.clone()),
        regarding: Some(event.about.clone()),
        related: event.related.clone(),
        note: Some(telling.note.clone()),
        type_: Some(event.event_type.as_str().to_owned()),
        ..SeriesEvent::default()
    }
}

fn saturated(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::super::occurrence::tests::event;
    use super::*;

    fn telling(count: u32) -> Telling {
        let mut event = event("web", "Scheduled", "it has a node");
        event.action = "Binding".to_owned();
        Telling {
            key: String::new(),
            verb: Verb::Create,
            name: "web.1".to_owned(),
            note: event.note.clone(),
            event: Arc::new(event),
            count,
            first: Timestamp::UNIX_EPOCH,
            last: Timestamp::UNIX_EPOCH,
            accounts_for: 1,
        }
    }

    fn reporter() -> Reporter {
        Reporter {
            controller: "default-scheduler".to_owned(),
            instance: "default-scheduler-host".to_owned(),
        }
    }

    // As a real kube-scheduler sends it, but for the old fields, which are null there.
    #[test]
    fn an_event_of_events_k8s_io_is_what_a_scheduler_sends() {
        let sent = serde_json::to_value(series_event(&reporter(), &telling(1))).unwrap();
        let expected = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": "web.1", "namespace": "ns"},
            "eventTime": "1970-01-01T00:00:00.000000Z",
            "reportingController": "default-scheduler",
            "reportingInstance": "default-scheduler-host",
            "action": "Binding",
            "reason": "Scheduled",
            "regarding": {"kind": "Pod", "namespace": "ns", "name": "web", "apiVersion": "v1"},
            "note": "it has a node",
            "type": "Normal",
        });
        assert_eq!(sent, expected);
    }

    // As a real kube-controller-manager and its recorders send them.
    #[test]
    fn a_patch_has_the_count_and_the_time_of_the_last_event() {
        let core = json!({"count": 2, "lastTimestamp": "1970-01-01T00:00:00Z", "message": "it has a node"});
        assert_eq!(core_patch(&telling(2)), core);
        let series =
            json!({"series": {"count": 3, "lastObservedTime": "1970-01-01T00:00:00.000000Z"}});
        assert_eq!(series_patch(&telling(3)), series);
    }
}
