//! One object's place on the server, and requests to it.
//!
//! ```text
//! type or resource, namespace, name → Place → request → answer | Error that names verb and object
//! ```
//!
//! Bodies never get into errors or logs: an answer that does not decode is named by its place and
//! the decoder's message.
//!
//! Upstream counterpart: `client-go:rest/request.go`.

use std::any::TypeId;

use http::Request;
use kinform_api::{GroupVersionResource, ObjectKey};
use kube_client::Client;
use kube_core::{ClusterResourceScope, NamespaceResourceScope, Resource};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, ErrorKind, SourceError};

/// Characters that a value in a query must not have as they are.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// The place of one object on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    collection: String,
    path: String,
    resource: GroupVersionResource,
    key: ObjectKey,
    /// For messages: `deployments.apps a/x`.
    shown: String,
}

/// The form of a patch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Apply,
    MergePatch,
    JsonPatch,
}

/// A request that changes an object.
#[derive(Debug)]
pub(crate) struct Write<'a> {
    /// For messages: `apply`.
    pub(crate) verb: &'static str,
    /// With its slash: `/status`.
    pub(crate) subresource: Option<&'static str>,
    pub(crate) form: Form,
    pub(crate) manager: &'a str,
    /// Takes fields over from other managers; only of an apply.
    pub(crate) force: bool,
    pub(crate) body: &'a Value,
}

impl Place {
    pub(crate) fn new(
        resource: &GroupVersionResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Self {
        let group_resource = resource.group_resource();
        let shown = match namespace {
            Some(namespace) => format!("{group_resource} {namespace}/{name}"),
            None => format!("{group_resource} {name}"),
        };
        Self {
            collection: resource.path(namespace),
            path: resource.object_path(namespace, name),
            resource: resource.clone(),
            key: ObjectKey::new(namespace, name),
            shown,
        }
    }

    /// The place of an object of type `K`. The namespace counts only if the type has one.
    ///
    /// # Errors
    /// The object has no name, or needs a namespace and none is given.
    pub(crate) fn of<K: Resource + 'static>(
        object: &K,
        kind: &K::DynamicType,
        default_namespace: Option<&str>,
    ) -> Result<Self, Error> {
        let meta = object.meta();
        let name = meta.name.as_deref().filter(|name| !name.is_empty());
        let resource = GroupVersionResource::new(K::group(kind), K::version(kind), K::plural(kind));
        let Some(name) = name else {
            return Err(invalid(format!("the {} has no name", K::kind(kind))));
        };
        let namespace = meta.namespace.as_deref().filter(|name| !name.is_empty());
        let namespace = match scope_of::<K>() {
            Scoped::Cluster => None,
            Scoped::Namespace => Some(namespace.or(default_namespace).ok_or_else(|| {
                invalid(format!("the {} {name} has no namespace", K::kind(kind)))
            })?),
            Scoped::AsStated => namespace,
        };
        Ok(Self::new(&resource, namespace, name))
    }

    /// The resource and the key of the object.
    pub(crate) fn object(&self) -> (&GroupVersionResource, &ObjectKey) {
        (&self.resource, &self.key)
    }

    /// The object, or `None` if there is none.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        client: &Client,
    ) -> Result<Option<T>, Error> {
        let request = Request::get(&self.path);
        match self.ask(client, "read", request, Vec::new()).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates the object.
    pub(crate) async fn create<T: DeserializeOwned>(
        &self,
        client: &Client,
        manager: &str,
        object: &impl Serialize,
    ) -> Result<T, Error> {
        let body = serde_json::to_vec(object).map_err(|error| self.unwritable(error))?;
        let path = format!("{}?{}", self.collection, manager_query(manager));
        let request = Request::post(path).header("content-type", "application/json");
        self.ask(client, "create", request, body).await
    }

    /// Deletes the object with these options. Returns whether there was one.
    pub(crate) async fn delete(&self, client: &Client, options: &Value) -> Result<bool, Error> {
        let request = Request::delete(&self.path).header("content-type", "application/json");
        let body = options.to_string().into_bytes();
        match self.ask::<Value>(client, "delete", request, body).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Changes the object.
    pub(crate) async fn write<T: DeserializeOwned>(
        &self,
        client: &Client,
        write: &Write<'_>,
    ) -> Result<T, Error> {
        let content_type = match write.form {
            Form::Apply => "application/apply-patch+yaml",
            Form::MergePatch => "application/merge-patch+json",
            Form::JsonPatch => "application/json-patch+json",
        };
        let force = if write.force { "&force=true" } else { "" };
        let (path, query) = (&self.path, manager_query(write.manager));
        let subresource = write.subresource.unwrap_or_default();
        let request = Request::patch(format!("{path}{subresource}?{query}{force}"))
            .header("content-type", content_type);
        let body = write.body.to_string().into_bytes();
        self.ask(client, write.verb, request, body).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        client: &Client,
        verb: &str,
        request: http::request::Builder,
        body: Vec<u8>,
    ) -> Result<T, Error> {
        let request = request.header("accept", "application/json").body(body);
        let request =
            request.map_err(|error| self.failed(verb, kube_client::Error::HttpError(error)))?;
        // As text: kube's typed call logs an answer that does not decode.
        let answer = client.request_text(request).await;
        let answer = answer.map_err(|error| self.failed(verb, error))?;
        serde_json::from_str(&answer).map_err(|error| {
            let message = format!("the answer to {verb} {self} does not decode");
            Error::new(ErrorKind::Decode, message).with_cause(error)
        })
    }

    fn failed(&self, verb: &str, error: kube_client::Error) -> Error {
        if let Some(stale) = stale(&error) {
            let message = format!("cannot {verb} {self}: {stale}");
            return Error::new(ErrorKind::Stale, message).with_cause(error);
        }
        let error = SourceError::from(error);
        Error::new(ErrorKind::Source, format!("cannot {verb} {self}: {error}")).with_cause(error)
    }

    /// An object that has no JSON.
    pub(crate) fn unwritable(&self, error: serde_json::Error) -> Error {
        invalid(format!("{self} cannot be written as JSON")).with_cause(error)
    }

    /// The error of a write to an object that is not the one meant any more.
    pub(crate) fn gone(&self) -> Error {
        let message = format!("{self} is gone, or another object has its name now");
        Error::new(ErrorKind::NotFound, message)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)
    }
}

/// The scope of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scoped {
    Cluster,
    Namespace,
    /// The type does not know: an object with a namespace lives in it.
    AsStated,
}

pub(crate) fn scope_of<K: Resource + 'static>() -> Scoped {
    let scope = TypeId::of::<K::Scope>();
    match () {
        () if scope == TypeId::of::<ClusterResourceScope>() => Scoped::Cluster,
        () if scope == TypeId::of::<NamespaceResourceScope>() => Scoped::Namespace,
        () => Scoped::AsStated,
    }
}

/// Returns whether objects of the type live in namespaces.
pub(crate) fn has_namespace<K: Resource + 'static>() -> bool {
    scope_of::<K>() == Scoped::Namespace
}

/// The refusal of a request that needed a fresher view.
fn stale(error: &kube_client::Error) -> Option<&Error> {
    let kube_client::Error::Service(error) = error else {
        return None;
    };
    error
        .downcast_ref::<Error>()
        .filter(|error| error.is_stale())
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

fn manager_query(manager: &str) -> String {
    format!("fieldManager={}", utf8_percent_encode(manager, ESCAPED))
}
