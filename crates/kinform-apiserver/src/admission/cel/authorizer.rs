//! The authorizer of expressions: rights of the user, or of a service account.
//!
//! ```text
//! authorizer.group("").resource("pods").check("get").allowed() ──▶ access/ ──▶ bool
//! ```
//!
//! Upstream: `kubernetes/apiserver:pkg/cel/library/authz.go`.

use std::sync::Arc;

use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::Opaque;
use kube_cel::cel::{Context, ExecutionError, Value};

use crate::access::{Attributes, ResourceRef, User};
use crate::admission::Question;
use crate::schema::cel::mend::REQUEST_RESOURCE;
use crate::schema::cel::types::{AUTHORIZER, DECISION, GROUP_CHECK, PATH_CHECK, RESOURCE_CHECK};

/// A question about rights, as far as it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked {
    User,
    Path(String),
    Group(String),
    Resource(ResourceRef),
}

/// A value of the authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Question(Arc<User>, Asked),
    Decision { is_allowed: bool, reason: String },
}

impl Opaque for Part {
    fn runtime_type_name(&self) -> &str {
        match self {
            Self::Question(_, Asked::User) => AUTHORIZER,
            Self::Question(_, Asked::Path(_)) => PATH_CHECK,
            Self::Question(_, Asked::Group(_)) => GROUP_CHECK,
            Self::Question(_, Asked::Resource(_)) => RESOURCE_CHECK,
            Self::Decision { .. } => DECISION,
        }
    }
}

type Outcome = Result<Value, ExecutionError>;
type Text = Arc<String>;

fn value(part: Part) -> Value {
    Value::Opaque(Arc::new(part))
}

fn part(value: &Value) -> Result<&Part, ExecutionError> {
    match value {
        Value::Opaque(of) => of.downcast_ref().ok_or(ExecutionError::NoSuchOverload),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

/// Asks more about the same user.
fn ask(this: &Value, more: impl FnOnce(&Asked) -> Option<Asked>) -> Outcome {
    match part(this)? {
        Part::Question(user, asked) => {
            let asked = more(asked).ok_or(ExecutionError::NoSuchOverload)?;
            Ok(value(Part::Question(user.clone(), asked)))
        }
        Part::Decision { .. } => Err(ExecutionError::NoSuchOverload),
    }
}

/// Changes the resource that is asked about.
fn narrow(this: &Value, change: impl FnOnce(&mut ResourceRef)) -> Outcome {
    ask(this, |asked| match asked {
        Asked::Resource(of) => {
            let mut of = of.clone();
            change(&mut of);
            Some(Asked::Resource(of))
        }
        _ => None,
    })
}

/// Adds the authorizer and its functions for the user of a question.
pub(super) fn add(context: &mut Context<'static>, question: &Question<'_>) {
    let user = Arc::new(question.user.clone());
    let own = ResourceRef {
        namespace: question.namespace.unwrap_or_default().to_owned(),
        group: question.resource.group.clone(),
        resource: question.resource.plural.clone(),
        subresource: question.subresource.to_owned(),
        name: question.name.to_owned(),
    };
    let of_user = Part::Question(user.clone(), Asked::User);
    context.add_variable_from_value("authorizer", value(of_user));
    let of_request = Part::Question(user, Asked::Resource(own));
    context.add_variable_from_value(REQUEST_RESOURCE, value(of_request));
    subjects(context);
    resources(context);
    let (rights, store) = (question.state.access.rights, question.state.store.clone());
    context.add_function("check", move |this: This<Value>, verb: Text| {
        let Part::Question(user, asked) = part(&this.0)? else {
            return Err(ExecutionError::NoSuchOverload);
        };
        let attributes = match asked {
            Asked::Path(path) => Attributes::of_path(&verb, path),
            Asked::Resource(of) => Attributes::of(&verb, of.clone()),
            Asked::User | Asked::Group(_) => return Err(ExecutionError::NoSuchOverload),
        };
        let decided = rights.decide(&store, user, &attributes);
        Ok(value(Part::Decision {
            is_allowed: decided.is_allowed,
            reason: decided.reason,
        }))
    });
    decisions(context);
}

fn subjects(context: &mut Context<'static>) {
    context.add_function("path", |this: This<Value>, path: Text| {
        ask(&this.0, |_| Some(Asked::Path(path.to_string())))
    });
    context.add_function("group", |this: This<Value>, group: Text| {
        ask(&this.0, |_| Some(Asked::Group(group.to_string())))
    });
    context.add_function(
        "serviceAccount",
        |this: This<Value>, namespace: Text, name: Text| {
            part(&this.0)?;
            let user = User::service_account(&namespace, &name).authenticated();
            let asked = Part::Question(Arc::new(user), Asked::User);
            Ok::<_, ExecutionError>(value(asked))
        },
    );
    context.add_function("resource", |this: This<Value>, resource: Text| {
        ask(&this.0, |asked| match asked {
            Asked::Group(group) => Some(Asked::Resource(ResourceRef {
                group: group.clone(),
                resource: resource.to_string(),
                ..ResourceRef::default()
            })),
            _ => None,
        })
    });
}

fn resources(context: &mut Context<'static>) {
    context.add_function("subresource", |this: This<Value>, name: Text| {
        narrow(&this.0, |of| of.subresource = name.to_string())
    });
    context.add_function("namespace", |this: This<Value>, name: Text| {
        narrow(&this.0, |of| of.namespace = name.to_string())
    });
    context.add_function("name", |this: This<Value>, name: Text| {
        narrow(&this.0, |of| of.name = name.to_string())
    });
    // Roles do not know selectors.
    for name in ["fieldSelector", "labelSelector"] {
        context.add_function(name, |this: This<Value>, _selector: Text| {
            narrow(&this.0, |_| {})
        });
    }
}

fn decisions(context: &mut Context<'static>) {
    context.add_function("allowed", |this: This<Value>| match part(&this.0)? {
        Part::Decision { is_allowed, .. } => Ok(Value::Bool(*is_allowed)),
        Part::Question(..) => Err(ExecutionError::NoSuchOverload),
    });
    context.add_function("reason", |this: This<Value>| match part(&this.0)? {
        Part::Decision { reason, .. } => Ok(Value::String(Arc::new(reason.clone()))),
        Part::Question(..) => Err(ExecutionError::NoSuchOverload),
    });
    // Decisions here never fail.
    context.add_function("errored", |this: This<Value>| {
        part(&this.0).map(|_| Value::Bool(false))
    });
    context.add_function("error", |this: This<Value>| {
        part(&this.0).map(|_| Value::String(Arc::default()))
    });
}
