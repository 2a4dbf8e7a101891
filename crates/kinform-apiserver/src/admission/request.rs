//! A request as webhooks and expressions see it, without its objects.
//!
//! ```text
//! Question + version of the rule ──▶ kind, resource, name, operation, userInfo, ..
//! ```
//!
//! Absent fields are left out.
//!
//! Upstream: `kubernetes/apiserver:pkg/admission/plugin/webhook/request/admissionreview.go`,
//! `pkg/admission/plugin/cel/condition.go`.

use serde_json::{Map, Value, json};

use crate::access::User;
use crate::admission::{Kind, Question};
use crate::resource::ResourceInfo;

/// The members of a request. `resource` is the version of the resource for which a rule asked.
pub(super) fn facts(question: &Question<'_>, resource: &ResourceInfo) -> Map<String, Value> {
    let kind = match question.subresource {
        "" => Kind::of(resource),
        _ if question.kind == Kind::of(question.resource) => Kind::of(resource),
        _ => question.kind,
    };
    let mut request = Map::new();
    let mut put = |name: &str, value: Value| drop(request.insert(name.to_owned(), value));
    put("kind", kind_of(kind));
    put("resource", resource_of(resource));
    if !question.subresource.is_empty() {
        put("subResource", Value::from(question.subresource));
    }
    put("requestKind", kind_of(question.kind));
    put("requestResource", resource_of(question.resource));
    if !question.subresource.is_empty() {
        put("requestSubResource", Value::from(question.subresource));
    }
    if !question.name.is_empty() {
        put("name", Value::from(question.name));
    }
    if let Some(namespace) = question.place() {
        put("namespace", Value::from(namespace));
    }
    put("operation", Value::from(question.operation.name()));
    put("userInfo", user_of(question.user));
    put("dryRun", Value::from(question.dry_run));
    put("options", (question.options)());
    request
}

fn kind_of(kind: Kind<'_>) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

fn resource_of(resource: &ResourceInfo) -> Value {
    json!({"group": resource.group, "version": resource.version, "resource": resource.plural})
}

fn user_of(user: &User) -> Value {
    let mut shown = json!({"username": user.name()});
    if !user.uid().is_empty() {
        shown["uid"] = Value::from(user.uid());
    }
    if !user.groups().is_empty() {
        shown["groups"] = Value::from(user.groups());
    }
    if !user.extra().is_empty() {
        shown["extra"] = json!(user.extra());
    }
    shown
}
