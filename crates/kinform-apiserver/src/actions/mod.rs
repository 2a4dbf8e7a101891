//! Action subresources (binding, eviction, log, token) and reviews.
//!
//! ```text
//! POST pods/x/eviction, GET pods/x/log, .. ──▶ effect on the store, reply | Status
//! ```
//!
//! Subresources that are views of their object (`status`, `scale`, `approval`) are written by
//! `write/`. Requests for a container are passed on to the kubelet of its node, if the server calls
//! kubelets; those that need another server behind this one are refused.
//!
//! Upstream: `kubernetes/kubernetes:pkg/registry/core/pod/{storage,rest}`,
//! `pkg/registry/core/serviceaccount/storage/token.go`.

mod binding;
mod condition;
mod connection;
mod eviction;
mod kubelet;
pub(crate) mod pod_log;
mod refusal;
pub(crate) mod service_account_token;
mod stream;

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::{Method, Response, StatusCode};
use kinform_api::Status;
use serde_json::Value;

use crate::access::review;
use crate::admission::{self, Kind, Objects, Operation, Question};
use crate::http::body::Body;
use crate::http::negotiate;
use crate::http::reply;
use crate::http::route::Target;
use crate::object::metadata;
use crate::resource::{ResourceInfo, Shape};
use crate::state::State;
use crate::storage::Stored;
use crate::write::admit::of_query;
use crate::write::request::WriteRequest;
use crate::write::{self, Context, Fresh, WriteOptions};

/// Answers a request for an action; returns `None` for other requests.
pub(crate) async fn answer(
    state: &Arc<State>,
    target: &Target,
    request: &WriteRequest<'_>,
) -> Option<Result<Response<Body>, Box<Status>>> {
    let resource = &target.resource;
    let part = target.subresource.as_deref();
    let action = match part {
        None if review::is_review(resource) => Action::Review,
        None if resource.is_core("bindings") => Action::Bind,
        Some("binding") => Action::Bind,
        Some("eviction") => Action::Evict,
        Some("log") => Action::Log,
        Some("token") if resource.is_core("serviceaccounts") => Action::Token,
        _ if is_connection(target) => {
            let act = Act {
                state,
                target,
                request,
            };
            return Some(match connection::admit(&act).await {
                Ok(()) => stream::connect(&act).await,
                Err(status) => Err(status),
            });
        }
        _ => return None,
    };
    let is_served = match *request.method {
        Method::POST => action != Action::Log && (part.is_some() == target.name.is_some()),
        Method::GET | Method::HEAD => action == Action::Log,
        _ => false,
    };
    if !is_served {
        return Some(Err(Box::new(Status::method_not_allowed())));
    }
    let act = Act {
        state,
        target,
        request,
    };
    Some(match action {
        Action::Review => act.review(),
        Action::Bind => binding::bind(&act).await,
        Action::Evict => eviction::evict(&act).await,
        Action::Log => pod_log::read(&act).await,
        Action::Token => service_account_token::make(&act).await,
    })
}

/// Returns whether a request asks for a connection to a pod, a service or a node.
pub(crate) fn is_connection(target: &Target) -> bool {
    let part = target.subresource.as_deref().unwrap_or_default();
    let parts = ["exec", "attach", "portforward", "proxy"];
    parts.contains(&part) && !target.resource.is_custom()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Review,
    Bind,
    Evict,
    Log,
    Token,
}

/// The managed fields of an object that is only echoed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owners {
    /// The writer owns its fields.
    Recorded,
    /// The reply has no managed fields.
    Unrecorded,
}

/// A request under way.
struct Act<'a> {
    state: &'a Arc<State>,
    target: &'a Target,
    request: &'a WriteRequest<'a>,
}

impl Act<'_> {
    /// Name of the object that the request is about.
    fn name(&self) -> &str {
        self.target.name.as_deref().unwrap_or_default()
    }

    fn options(&self) -> Result<WriteOptions, Box<Status>> {
        let options = WriteOptions::from_query(self.request.query, "CreateOptions")?;
        Ok(write::by(self.request, options))
    }

    /// Object that the request is about.
    fn object(&self) -> Result<Arc<Stored>, Box<Status>> {
        let key = self.target.key().unwrap_or_default();
        let resource = &self.target.resource;
        self.state
            .store
            .get(resource.shelf, &key)
            .ok_or_else(|| Box::new(Status::not_found(&resource.group_resource(), self.name())))
    }

    /// Parses the body as an object of another kind than the resource's.
    fn body_owned(
        &self,
        [group, version, kind]: [&str; 3],
        owners: Owners,
    ) -> Result<Value, Box<Status>> {
        let own = &*self.target.resource;
        let of = kinform_schema::builtin(group, version, kind)
            .ok_or_else(|| Box::new(Status::no_such_resource()))?;
        let resource = ResourceInfo {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            shape: Shape::Builtin(of),
            ..own.clone()
        };
        let options = self.options()?;
        let context = Context {
            resource: &resource,
            namespace: self.target.namespace.as_deref(),
            options: &options,
            now: self.state.clock.now(),
            fresh: Fresh::default(),
            meter: &self.request.meter,
        };
        let content_type = self.request.headers.get(CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok());
        let mut body = write::decode_body(&context, (content_type, &self.request.body))?;
        if kind == service_account_token::KIND[2] && body["spec"]["expirationSeconds"].is_null() {
            // A default belongs to the field manager that sent the object.
            body["spec"]["expirationSeconds"] = Value::from(service_account_token::HOUR);
        }
        if let Some(namespace) = self.target.namespace.as_deref() {
            let members = metadata::of(&mut body);
            let place = members.entry("namespace").or_insert(Value::Null);
            if place.as_str().unwrap_or_default().is_empty() {
                *place = Value::from(namespace);
            }
        }
        if owners == Owners::Recorded {
            write::own_fields(&context, &mut body);
            let owners = metadata::of(&mut body).get_mut("managedFields");
            let owners = owners.and_then(Value::as_array_mut);
            if let Some(part) = self.target.subresource.as_deref() {
                for entry in owners.into_iter().flatten() {
                    entry["subresource"] = Value::from(part);
                }
            }
        }
        Ok(body)
    }

    /// Asks admission about the object of a request; returns it as admission changed it. It is
    /// completed after it was changed, and before it is checked.
    async fn admitted(
        &self,
        [group, version, kind]: [&str; 3],
        (operation, options): (Operation, Value),
        mut object: Value,
        complete: impl FnOnce(&mut Value),
    ) -> Result<Value, Box<Status>> {
        let resource = &self.target.resource;
        let subresource = self.target.subresource.as_deref().unwrap_or_default();
        if !admission::asks(self.state, resource, (subresource, operation)) {
            complete(&mut object);
            return Ok(object);
        }
        object["apiVersion"] = Value::from(match group {
            "" => version.to_owned(),
            _ => format!("{group}/{version}"),
        });
        object["kind"] = Value::from(kind);
        let question = Question {
            state: self.state,
            user: self.request.user,
            resource,
            subresource,
            kind: Kind::new(group, version, kind),
            operation,
            namespace: self.target.namespace.as_deref(),
            name: self.name(),
            options: &|| options.clone(),
            dry_run: self.request.query.get("dryRun").is_some(),
            meter: &self.request.meter,
            warnings: &self.request.warnings,
            annotations: &self.request.annotations,
        };
        if let Some(changed) = admission::mutate(&question, object.clone(), None).await? {
            object = changed;
        }
        complete(&mut object);
        let objects = Objects {
            object: Some(&object),
            old: None,
        };
        admission::validate(&question, objects).await?;
        if let Some(members) = object.as_object_mut() {
            members.remove("apiVersion");
            members.remove("kind");
        }
        Ok(object)
    }

    /// Asks admission about a create of an object that is not stored itself.
    async fn admitted_create(
        &self,
        kind: [&str; 3],
        object: Value,
        complete: impl FnOnce(&mut Value),
    ) -> Result<Value, Box<Status>> {
        let options = of_query(self.request.query, Operation::Create);
        let asked = (Operation::Create, options);
        self.admitted(kind, asked, object, complete).await
    }

    /// Reply that contains an object.
    fn shown(
        &self,
        [group, version, kind]: [&str; 3],
        mut object: Value,
    ) -> Result<Response<Body>, Box<Status>> {
        let form = negotiate::answer_form(self.request.headers)?;
        object["apiVersion"] = Value::from(match group {
            "" => version.to_owned(),
            _ => format!("{group}/{version}"),
        });
        object["kind"] = Value::from(kind);
        Ok(reply::value(StatusCode::CREATED, form.encoding, &object))
    }

    /// Reply that only confirms the action.
    fn done(&self) -> Response<Body> {
        let status = Status {
            status: "Success".to_owned(),
            code: 201,
            ..Status::default()
        };
        let encoding = negotiate::error_encoding(self.request.headers);
        let mut reply = reply::status(&status, encoding);
        *reply.status_mut() = StatusCode::CREATED;
        reply
    }

    fn review(&self) -> Result<Response<Body>, Box<Status>> {
        // A client that accepts no form of the reply is refused.
        negotiate::answer_form(self.request.headers)?;
        let resource = &self.target.resource;
        let kind = [&*resource.group, &*resource.version, &*resource.kind];
        let owners = match resource.plural.as_str() {
            "selfsubjectrulesreviews" | "selfsubjectreviews" => Owners::Unrecorded,
            _ => Owners::Recorded,
        };
        let body = self.body_owned(kind, owners)?;
        let state = self.state;
        let user = self.request.user;
        let answer = review::answer(&state.access, &state.store, user, self.target, body)?;
        self.shown(kind, answer)
    }
}
