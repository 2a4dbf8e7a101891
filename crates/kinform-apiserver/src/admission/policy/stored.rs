//! Stored policies and their bindings, compiled.
//!
//! ```text
//! ValidatingAdmissionPolicies, MutatingAdmissionPolicies + ..Bindings ──by name──▶ Policies
//! ```
//!
//! A policy is valid and has its defaults when it is stored (`builtin/`). A policy without bindings is
//! never asked.
//!
//! Upstream: `kubernetes/apiserver:pkg/admission/plugin/policy/{generic,validating,mutating}`.

use std::sync::Arc;

use kinform_api::selector::LabelSelector;
use serde_json::Value;

use crate::admission::cel::{Conditions, Expression, Variable};
use crate::admission::matching::{Constraints, WithoutRules};
use crate::object::label_selector::label_selector;
use crate::object::text;
use crate::resource::ResourceInfo;
use crate::schema::cel::environment::Environment;
use crate::schema::cel::types::Type;
use crate::state::State;
use crate::storage::Shelf;

/// The names of the shelves of policies and of their bindings.
const SHELVES: [&str; 4] = [
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "mutatingadmissionpolicies.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
];
/// The members of constraints that hold rules.
const RULES: [&str; 2] = ["resourceRules", "excludeResourceRules"];

/// All policies that have bindings, in the order of their names.
#[derive(Debug, Default)]
pub(super) struct Policies {
    pub(super) validating: Vec<Policy>,
    pub(super) mutating: Vec<Policy>,
}

/// The kind of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Validating,
    Mutating,
}

/// A policy and its bindings.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) constraints: Constraints,
    pub(super) failure: Failure,
    pub(super) conditions: Conditions,
    /// The version and kind of parameters.
    params: Option<(String, String)>,
    pub(super) variables: Vec<Variable>,
    pub(super) validations: Vec<Validation>,
    pub(super) annotations: Vec<Expression>,
    pub(super) mutations: Vec<Mutation>,
    pub(super) reinvocation: Reinvocation,
    pub(super) bindings: Vec<Binding>,
}

/// The effect of an expression that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// As a validation that is false.
    Fail,
    /// As one that is true.
    Ignore,
}

/// One validation of a policy.
#[derive(Debug)]
pub(super) struct Validation {
    pub(super) expression: Expression,
    pub(super) message: String,
    pub(super) made_message: Option<Expression>,
    pub(super) reason: String,
}

/// One mutation of a policy.
#[derive(Debug)]
pub(super) enum Mutation {
    /// A partial object, which is merged into the object.
    Apply(Expression),
    /// The operations of a JSON patch.
    Patch(Expression),
}

/// The treatment of an object that was changed after a mutating policy had seen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reinvocation {
    Never,
    IfNeeded,
}

/// A binding of a policy.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) constraints: Constraints,
    pub(super) params: Option<ParamRef>,
    pub(super) denies: bool,
    pub(super) warns: bool,
}

/// A reference to parameters.
#[derive(Debug)]
pub(super) struct ParamRef {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) selector: Option<LabelSelector>,
    /// A binding without parameters refuses.
    pub(super) denies_absence: bool,
}

impl Policies {
    /// The stored policies.
    pub(super) fn of(state: &State) -> Arc<Self> {
        let store = &state.store;
        let shelves = SHELVES.map(|name| store.shelf(name));
        let [validating, validating_bindings, mutating, mutating_bindings] = shelves;
        state.policies.get(store, &shelves, || Self {
            validating: bound(state, Kind::Validating, (validating, validating_bindings)),
            mutating: bound(state, Kind::Mutating, (mutating, mutating_bindings)),
        })
    }
}

/// Reads the policies that have bindings.
fn bound(state: &State, kind: Kind, (policies, bindings): (Shelf, Shelf)) -> Vec<Policy> {
    let mut bindings = read(state, bindings, Binding::of);
    let policies = read(state, policies, |value| {
        let name = text(value, &["metadata", "name"]);
        let own = |(policy, _): &mut (String, Binding)| policy == name;
        let bindings: Vec<_> = bindings.extract_if(.., own).map(|(_, of)| of).collect();
        (!bindings.is_empty()).then(|| Policy::of(kind, value, bindings))
    });
    policies.into_iter().flatten().collect()
}

/// Reads the objects of a shelf by name: a snapshot is ordered by its keys.
fn read<T>(state: &State, shelf: Shelf, mut of: impl FnMut(&Value) -> T) -> Vec<T> {
    let view = state.store.view(shelf);
    let objects = view.snapshot.iter();
    objects.map(|object| of(&object.value())).collect()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn expression(text: &str, environment: &Environment<'_>) -> Expression {
    Expression {
        text: text.to_owned(),
        program: environment.compile(text).map(|(program, _)| program),
    }
}

impl Policy {
    fn of(kind: Kind, policy: &Value, bindings: Vec<Binding>) -> Self {
        let spec = &policy["spec"];
        let is_mutating = kind == Kind::Mutating;
        let kind = |name| text(spec, &["paramKind", name]).to_owned();
        let params = spec["paramKind"]
            .is_object()
            .then(|| (kind("apiVersion"), kind("kind")));
        let mut environment = match params {
            Some(_) => Environment::new().with_params(),
            None => Environment::new(),
        };
        if is_mutating {
            environment = environment.with_messages();
        }
        let conditions = Conditions::of(&spec["matchConditions"], &environment);
        let mut variables = Vec::new();
        if items(&spec["variables"]).next().is_some() {
            environment = environment.with_variables();
        }
        for variable in items(&spec["variables"]) {
            let (name, text) = (text(variable, &["name"]), text(variable, &["expression"]));
            let compiled = environment.compile(text);
            let of = compiled
                .as_ref()
                .map_or(Type::Dynamic, |(_, of)| of.clone());
            environment.declare(name, of);
            variables.push(Variable {
                name: name.to_owned(),
                expression: Expression {
                    text: text.to_owned(),
                    program: compiled.map(|(program, _)| program),
                },
            });
        }
        let of_text = |value: &Value, name| expression(text(value, &[name]), &environment);
        Self {
            name: text(policy, &["metadata", "name"]).to_owned(),
            constraints: Constraints::of(&spec["matchConstraints"], RULES, WithoutRules::Nothing),
            failure: match text(spec, &["failurePolicy"]) {
                "Ignore" => Failure::Ignore,
                _ => Failure::Fail,
            },
            conditions,
            params,
            validations: items(&spec["validations"])
                .map(|value| Validation::of(value, &environment))
                .collect(),
            annotations: items(&spec["auditAnnotations"])
                .map(|value| of_text(value, "valueExpression"))
                .collect(),
            mutations: items(&spec["mutations"])
                .map(|value| match text(value, &["patchType"]) {
                    "JSONPatch" => Mutation::Patch(of_text(&value["jsonPatch"], "expression")),
                    _ => Mutation::Apply(of_text(&value["applyConfiguration"], "expression")),
                })
                .collect(),
            reinvocation: match text(spec, &["reinvocationPolicy"]) {
                "IfNeeded" => Reinvocation::IfNeeded,
                _ => Reinvocation::Never,
            },
            variables,
            bindings,
        }
    }

    /// Returns the resource of the policy's parameters, if it has parameters.
    ///
    /// # Errors
    /// No such kind is served.
    pub(super) fn param_kind(&self, state: &State) -> Result<Option<Arc<ResourceInfo>>, String> {
        let Some((version, kind)) = &self.params else {
            return Ok(None);
        };
        let entries = state.registry.entries();
        let mut served = entries.iter();
        let found =
            served.find(|of| of.kind == *kind && of.api_version() == *version && of.is_stored());
        let found = found.cloned().ok_or_else(|| {
            format!("failed to find resource referenced by paramKind: '{version}, Kind={kind}'")
        });
        found.map(Some)
    }
}

impl Validation {
    fn of(value: &Value, environment: &Environment<'_>) -> Self {
        let made = text(value, &["messageExpression"]);
        let without = environment.clone().without("authorizer");
        Self {
            expression: expression(text(value, &["expression"]), environment),
            message: text(value, &["message"]).trim().to_owned(),
            made_message: (!made.is_empty()).then(|| expression(made, &without)),
            reason: text(value, &["reason"]).to_owned(),
        }
    }
}

impl Binding {
    /// Reads a binding. Returns the name of its policy, too.
    fn of(binding: &Value) -> (String, Self) {
        let spec = &binding["spec"];
        let acts = |name: &str| items(&spec["validationActions"]).any(|action| action == name);
        let resources = &spec["matchResources"];
        let read = Self {
            name: text(binding, &["metadata", "name"]).to_owned(),
            constraints: Constraints::of(resources, RULES, WithoutRules::Everything),
            params: spec["paramRef"].is_object().then(|| {
                let of = &spec["paramRef"];
                let part = |name| text(of, &[name]).to_owned();
                ParamRef {
                    name: part("name"),
                    namespace: part("namespace"),
                    selector: label_selector(&of["selector"]),
                    denies_absence: part("parameterNotFoundAction") == "Deny",
                }
            }),
            denies: acts("Deny"),
            warns: acts("Warn"),
        };
        (text(spec, &["policyName"]).to_owned(), read)
    }
}
