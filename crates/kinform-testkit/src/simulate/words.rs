//! The usual changes of a user as steps: create, patch, delete, every field.
//!
//! ```text
//! object, key, patch ─▶ Step { "creates ConfigMap default/a", requests }
//! ```

use std::fmt::Display;
use std::sync::Arc;

use futures::FutureExt;
use http::Request;
use kube_client::{Client, Error};
use kube_core::{CustomResourceExt, ResourceExt};
use serde_json::Value;

use super::fields;
use super::script::{Effect, Step};
use crate::server::{TestObject, path, path_of};

/// A change made by code.
pub(crate) fn step<F, E>(name: &str, work: impl Fn(Client) -> F + Send + Sync + 'static) -> Step
where
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Display + 'static,
{
    let work = Arc::new(work);
    Step {
        name: name.to_owned(),
        work: Arc::new(move |client| {
            let work = Arc::clone(&work);
            async move { work(client).await.map_err(|error| error.to_string()) }.boxed()
        }),
        effect: Effect::Unknown,
    }
}

/// Sends one request of a step.
fn request(name: String, method: &'static str, (path, media): (String, &str), body: Value) -> Step {
    let media = media.to_owned();
    step(&name, move |client: Client| {
        let request = Request::builder()
            .method(method)
            .uri(&path)
            .header("content-type", &media)
            .body(match body {
                Value::Null => Vec::new(),
                ref body => body.to_string().into_bytes(),
            });
        async move {
            let request = request.map_err(|error| error.to_string())?;
            let done: Result<Value, Error> = client.request(request).await;
            done.map(drop).map_err(|error| error.to_string())
        }
    })
}

const MERGE: &str = "application/merge-patch+json";

/// Creates an object.
pub(crate) fn create<K: TestObject>(object: K) -> Step
where
    K::DynamicType: Default,
{
    let namespace = object.meta().namespace.clone();
    let name = format!("creates {} {}", kind::<K>(), key_of(&object));
    let body = serde_json::to_value(&object);
    let mut body = body.expect("an object of Kubernetes is plain data");
    let of = K::DynamicType::default();
    body["apiVersion"] = K::api_version(&of).into_owned().into();
    body["kind"] = K::kind(&of).into_owned().into();
    let path = path::<K>(namespace.as_deref(), None);
    let effect = match &object.meta().name {
        Some(name) => Effect::Create(format!("{path}/{name}"), body.clone()),
        None => Effect::Unknown,
    };
    Step {
        effect,
        ..request(name, "POST", (path, "application/json"), body)
    }
}

/// Changes an object, or a subresource of it.
pub(crate) fn patch<K: TestObject>(key: &str, part: Option<&str>, patch: Value) -> Step
where
    K::DynamicType: Default,
{
    let what = part.map_or_else(String::new, |part| format!("{part} of "));
    let name = format!("patches {what}{} {key}: {patch}", kind::<K>());
    let mut path = at::<K>(key);
    let effect = match part {
        Some(_) => Effect::Status(path.clone()),
        None => Effect::Patch(path.clone(), patch.clone()),
    };
    if let Some(part) = part {
        path = format!("{path}/{part}");
    }
    Step {
        effect,
        ..request(name, "PATCH", (path, MERGE), patch)
    }
}

/// Deletes an object.
pub(crate) fn delete<K: TestObject>(key: &str) -> Step
where
    K::DynamicType: Default,
{
    let name = format!("deletes {} {key}", kind::<K>());
    let path = at::<K>(key);
    Step {
        effect: Effect::Delete(path.clone()),
        ..request(name, "DELETE", (path, "application/json"), Value::Null)
    }
}

/// Creates an example, changes each field and changes it back, and deletes it.
pub(crate) fn every_field<K: TestObject + CustomResourceExt>(example: K) -> Vec<Step>
where
    K::DynamicType: Default,
{
    let definition = serde_json::to_value(K::crd()).unwrap_or_default();
    let object = serde_json::to_value(&example).unwrap_or_default();
    let version = K::version(&K::DynamicType::default()).into_owned();
    let schema = fields::schema_of(&definition, &version);
    let changes = schema.map_or_else(Vec::new, |schema| fields::changes(schema, &object["spec"]));
    let key = key_of(&example);
    let mut steps = vec![create(example)];
    for change in changes {
        let title = format!("{} of {} {key}", change.name, kind::<K>());
        steps.push(allowed::<K>(title, &key, change.there));
        let title = format!("puts it back in {} {key}", kind::<K>());
        steps.push(allowed::<K>(title, &key, change.back));
    }
    steps.push(delete::<K>(&key));
    steps
}

/// A change that the server may refuse as invalid: then it is none.
fn allowed<K: TestObject>(name: String, key: &str, patch: Value) -> Step
where
    K::DynamicType: Default,
{
    let path = at::<K>(key);
    let effect = Effect::Patch(path.clone(), patch.clone());
    let allowed = step(&name, move |client: Client| {
        let request = Request::patch(&path)
            .header("content-type", MERGE)
            .body(patch.to_string().into_bytes());
        async move {
            let request = request.map_err(|error| error.to_string())?;
            let done: Result<Value, Error> = client.request(request).await;
            match done {
                Err(Error::Api(status)) if status.code == 422 => Ok(()),
                other => other.map(drop).map_err(|error| error.to_string()),
            }
        }
    });
    Step { effect, ..allowed }
}

fn at<K: TestObject>(key: &str) -> String
where
    K::DynamicType: Default,
{
    let path = path_of::<K>(key);
    path.unwrap_or_else(|error| panic!("a key is namespace/name, or a name: {error}"))
}

/// The key of an object that is about to be created.
fn key_of<K: TestObject>(object: &K) -> String
where
    K::DynamicType: Default,
{
    let name = object.name_any();
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{name}"),
        None if path::<K>(None, None).contains("/namespaces/") => format!("default/{name}"),
        None => name,
    }
}

fn kind<K: TestObject>() -> String
where
    K::DynamicType: Default,
{
    K::kind(&K::DynamicType::default()).into_owned()
}
