//! Reviews of identity and access. They are answered and not stored.
//!
//! ```text
//! SelfSubjectAccessReview, SubjectAccessReview, .. + roles ──▶ the same with its status, 201
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/registry/{authorization,authentication}`.

use kinform_api::{FieldError, GroupKind, ShownValue, Status};
use serde_json::{Value, json};

use super::attributes::ResourceRef;
use super::rbac::{self, Rule};
use super::{AUDIENCE, Access, Attributes, Decision, Rights, User};
use crate::http::route::Target;
use crate::object::{at, metadata, text};
use crate::resource::ResourceInfo;
use crate::storage::Store;

const AUTHORIZATION: &str = "authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Returns whether a resource is a review: a question that is answered and not stored.
pub(crate) fn is_review(resource: &ResourceInfo) -> bool {
    !resource.is_stored() && matches!(resource.group.as_str(), AUTHORIZATION | AUTHENTICATION)
}

/// Answers a review of `user`: returns the object with its status.
///
/// # Errors
/// 400 and 422 for an incomplete review.
pub(crate) fn answer(
    access: &Access,
    store: &Store,
    user: &User,
    target: &Target,
    mut review: Value,
) -> Result<Value, Box<Status>> {
    let status = match target.resource.plural.as_str() {
        "selfsubjectaccessreviews" => access_status(access, store, user, &review)?,
        "subjectaccessreviews" | "localsubjectaccessreviews" => {
            let subject = subject(&review)?;
            if let Some(namespace) = target.namespace.as_deref() {
                check_local(&review, namespace)?;
            }
            access_status(access, store, &subject, &review)?
        }
        "selfsubjectrulesreviews" => {
            let status = rules_status(access, store, user, &review)?;
            review["spec"] = json!({});
            status
        }
        "tokenreviews" => token_status(access, store, &review)?,
        "selfsubjectreviews" => {
            let now = metadata::time(access.clock.now());
            metadata::of(&mut review).insert("creationTimestamp".to_owned(), now);
            json!({"userInfo": user.to_info()})
        }
        _ => return Err(Box::new(Status::no_such_resource())),
    };
    review["status"] = status;
    Ok(review)
}

fn invalid(error: FieldError) -> Box<Status> {
    let kind = GroupKind::new(AUTHORIZATION, "");
    Box::new(Status::invalid(&kind, "", &[error]))
}

/// Returns the attributes that a review asks about.
fn asked(review: &Value) -> Result<Attributes, Box<Status>> {
    let spec = &review["spec"];
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    match (resource.is_null(), path.is_null()) {
        (false, true) => {
            let part = |name: &str| text(resource, &[name]).to_owned();
            let of = ResourceRef {
                namespace: part("namespace"),
                group: part("group"),
                resource: part("resource"),
                subresource: part("subresource"),
                name: part("name"),
            };
            Ok(Attributes::of(text(resource, &["verb"]), of))
        }
        (true, false) => Ok(Attributes::of_path(
            text(path, &["verb"]),
            text(path, &["path"]),
        )),
        (_, no_path) => {
            let shown = if no_path {
                "null".to_owned()
            } else {
                shown_path(path)
            };
            let detail =
                "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            Err(invalid(FieldError::invalid(
                "spec",
                ShownValue::raw(shown),
                detail,
            )))
        }
    }
}

fn shown_path(path: &Value) -> String {
    let (path, verb) = (text(path, &["path"]), text(path, &["verb"]));
    format!("{{\"Path\":{path:?},\"Verb\":{verb:?}}}")
}

fn access_status(
    access: &Access,
    store: &Store,
    user: &User,
    review: &Value,
) -> Result<Value, Box<Status>> {
    let Decision { is_allowed, reason } = access.decide(store, user, &asked(review)?);
    let mut status = json!({"allowed": is_allowed});
    if !reason.is_empty() {
        status["reason"] = Value::from(reason);
    }
    Ok(status)
}

/// Returns the user that a review asks about.
fn subject(review: &Value) -> Result<User, Box<Status>> {
    asked(review)?;
    let spec = &review["spec"];
    let groups = spec["groups"].as_array().into_iter().flatten();
    let groups: Vec<&str> = groups.filter_map(Value::as_str).collect();
    let name = text(spec, &["user"]);
    if name.is_empty() && groups.is_empty() {
        let detail = "at least one of user or group must be specified";
        return Err(invalid(FieldError::invalid("spec.user", "", detail)));
    }
    let user = User::new(name).with_uid(text(spec, &["uid"]));
    Ok(groups.into_iter().fold(user, User::with_group))
}

/// A local review is about its own namespace.
fn check_local(review: &Value, namespace: &str) -> Result<(), Box<Status>> {
    let path = &review["spec"]["nonResourceAttributes"];
    if !path.is_null() {
        return Err(invalid(FieldError::invalid(
            "spec.nonResourceAttributes",
            ShownValue::raw(shown_path(path)),
            "disallowed on this kind of request",
        )));
    }
    let said = text(review, &["spec", "resourceAttributes", "namespace"]);
    if said == namespace {
        return Ok(());
    }
    Err(invalid(FieldError::invalid(
        "spec.resourceAttributes.namespace",
        said,
        "must match metadata.namespace",
    )))
}

fn rules_status(
    access: &Access,
    store: &Store,
    user: &User,
    review: &Value,
) -> Result<Value, Box<Status>> {
    let namespace = text(review, &["spec", "namespace"]);
    if namespace.is_empty() {
        return Err(Box::new(Status::bad_request("no namespace on request")));
    }
    let rules = match access.rights {
        Rights::Rbac => rbac::rules_for(store, user, namespace),
        Rights::Everything => rbac::everything(),
    };
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    for rule in rules {
        let shown = |rule: &Rule| serde_json::to_value(rule).unwrap_or_default();
        if !rule.resources.is_empty() {
            let urls = Vec::new();
            resources.push(shown(&Rule {
                urls,
                ..rule.clone()
            }));
        }
        if !rule.urls.is_empty() {
            paths.push(json!({"verbs": rule.verbs, "nonResourceURLs": rule.urls}));
        }
    }
    Ok(json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false}))
}

fn token_status(access: &Access, store: &Store, review: &Value) -> Result<Value, Box<Status>> {
    let token = text(review, &["spec", "token"]);
    if token.is_empty() {
        let message = "token is required for TokenReview in authentication";
        return Err(Box::new(Status::bad_request(message)));
    }
    let asked = at(review, &["spec", "audiences"]).and_then(Value::as_array);
    let asked: Vec<&str> = asked
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let audiences = if asked.is_empty() {
        vec![AUDIENCE]
    } else {
        asked
    };
    Ok(match access.bearer(store, token, &audiences) {
        Ok((user, audiences)) => json!({
            "authenticated": true,
            "user": user.to_info(),
            "audiences": audiences,
        }),
        Err(why) => json!({"user": {}, "error": why.to_string()}),
    })
}
