//! The variables of admission: their types, for webhooks and for policies.
//!
//! ```text
//! Environment { params?, variables, authorizer } + expression ──▶ Program + type | error
//! ```
//!
//! The object, the old object and the parameters are dynamic, unless a policy is checked for one kind
//! of objects; the request and the namespace have types.
//!
//! Upstream: `kubernetes/apiserver:pkg/admission/plugin/cel/compile.go`.

use super::program::{Compiled, Program};
use super::types::{AUTHORIZER, JSON_PATCH, OBJECT, Type};

/// The variables that an expression may name.
#[derive(Clone, Debug)]
pub(crate) struct Environment<'a> {
    variables: Vec<(String, Type<'a>)>,
    /// The variables of the policy, as far as they are declared; `None` if it has no variables.
    composed: Option<Vec<(String, Type<'a>)>>,
}

impl<'a> Environment<'a> {
    /// The variables of every expression.
    pub(crate) fn new() -> Self {
        let variables = [
            ("object", Type::Dynamic),
            ("oldObject", Type::Dynamic),
            ("request", request()),
            ("namespaceObject", namespace()),
            ("authorizer", Type::Library(AUTHORIZER)),
        ];
        Self {
            variables: variables.map(|(name, of)| (name.to_owned(), of)).to_vec(),
            composed: None,
        }
    }

    /// Adds `params`.
    #[must_use]
    pub(crate) fn with_params(mut self) -> Self {
        self.variables.push(("params".to_owned(), Type::Dynamic));
        self
    }

    /// Gives the objects a type.
    #[must_use]
    pub(crate) fn with_objects(self, of: &Type<'a>) -> Self {
        self.with_type("object", of).with_type("oldObject", of)
    }

    /// Gives a variable a type.
    #[must_use]
    pub(crate) fn with_type(mut self, name: &str, of: &Type<'a>) -> Self {
        for (known, old) in &mut self.variables {
            if known == name {
                *old = of.clone();
            }
        }
        self
    }

    /// Adds the messages of mutations: `Object` and `JSONPatch`.
    #[must_use]
    pub(crate) fn with_messages(mut self) -> Self {
        for name in [OBJECT, JSON_PATCH] {
            let message = Type::Message(name.to_owned());
            self.variables.push((name.to_owned(), message));
        }
        self
    }

    /// Removes a variable.
    #[must_use]
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self
    }

    /// Adds `variables`, without members.
    #[must_use]
    pub(crate) fn with_variables(mut self) -> Self {
        self.composed = Some(Vec::new());
        self
    }

    /// Declares a variable of the policy.
    pub(crate) fn declare(&mut self, name: &str, of: Type<'a>) {
        let composed = self.composed.get_or_insert_default();
        composed.retain(|(known, _)| known != name);
        composed.push((name.to_owned(), of));
    }

    /// Compiles an expression.
    ///
    /// # Errors
    /// A syntax or type error, in upstream's words.
    pub(crate) fn compile(&self, text: &str) -> Result<Compiled<'a>, String> {
        let mut variables = self.variables.clone();
        if let Some(composed) = &self.composed {
            variables.push(("variables".to_owned(), Type::Fields(composed.clone())));
        }
        Program::compile(text, variables)
    }
}

/// A type with these members.
fn fields(members: &[(&str, &Type<'static>)]) -> Type<'static> {
    let members = members.iter();
    Type::Fields(
        members
            .map(|(name, of)| ((*name).to_owned(), (*of).clone()))
            .collect(),
    )
}

fn list(of: &Type<'static>) -> Type<'static> {
    Type::List(Box::new(of.clone()))
}

fn map(of: &Type<'static>) -> Type<'static> {
    Type::Map(Box::new(Type::Text), Box::new(of.clone()))
}

/// The type of `request`.
fn request() -> Type<'static> {
    let text = &Type::Text;
    let texts = &list(text);
    let kind = &fields(&[("group", text), ("version", text), ("kind", text)]);
    let resource = &fields(&[("group", text), ("version", text), ("resource", text)]);
    let user = &fields(&[
        ("username", text),
        ("uid", text),
        ("groups", texts),
        ("extra", &map(texts)),
    ]);
    fields(&[
        ("kind", kind),
        ("resource", resource),
        ("subResource", text),
        ("requestKind", kind),
        ("requestResource", resource),
        ("requestSubResource", text),
        ("name", text),
        ("namespace", text),
        ("operation", text),
        ("userInfo", user),
        ("dryRun", &Type::Bool),
        ("options", &Type::Dynamic),
    ])
}

/// The type of `namespaceObject`.
fn namespace() -> Type<'static> {
    let text = &Type::Text;
    let texts = &list(text);
    let labels = &map(text);
    // Times are texts in values.
    let time = &Type::Dynamic;
    let metadata = &fields(&[
        ("name", text),
        ("generateName", text),
        ("namespace", text),
        ("labels", labels),
        ("annotations", labels),
        ("UID", text),
        ("creationTimestamp", time),
        ("deletionGracePeriodSeconds", &Type::Int),
        ("deletionTimestamp", time),
        ("generation", &Type::Int),
        ("resourceVersion", text),
        ("finalizers", texts),
    ]);
    fields(&[
        ("metadata", metadata),
        ("spec", &fields(&[("finalizers", texts)])),
        ("status", &fields(&[("phase", text)])),
    ])
}
