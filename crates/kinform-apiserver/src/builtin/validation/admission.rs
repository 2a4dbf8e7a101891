//! Checks of webhook configurations and admission policies: their expressions, which must compile.
//!
//! ```text
//! matchConditions, variables, validations, auditAnnotations ──▶ [FieldError]
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/apis/admissionregistration/validation/validation.go`.

use kinform_api::{FieldError, ShownValue, names};
use serde_json::Value;

use super::rule::Check;
use super::{Errors, Site};
use crate::object::text;
use crate::schema::cel::environment::Environment;
use crate::schema::cel::types::{JSON_PATCH, OBJECT, Type};

/// BOUND: the match conditions of a webhook or a policy.
const MAX_CONDITIONS: usize = 64;
/// BOUND: the bytes of an audit annotation's expression.
const MAX_VALUE: usize = 5 << 10;
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];

pub(super) fn named(name: &str) -> Option<Check> {
    Some(match name {
        ":match_conditions" => match_conditions,
        ":param_kind" => param_kind,
        ":param_ref" => param_ref,
        ":policy_conditions" => policy_conditions,
        ":policy_expressions" => policy_expressions,
        ":mutations" => mutations,
        ":mutation_operations" => mutation_operations,
        ":deny_and_warn" => deny_and_warn,
        _ => return None,
    })
}

fn match_conditions(site: &Site<'_>, errors: &mut Errors<'_>) {
    let environment = Environment::new().without("namespaceObject");
    conditions(site, errors, &environment);
}

/// The variables of a policy's expressions.
fn environment(policy: &Value) -> Environment<'static> {
    let environment = match policy["spec"]["mutations"].is_null() {
        true => Environment::new(),
        false => Environment::new().with_messages(),
    };
    match policy["spec"]["paramKind"].is_null() {
        true => environment,
        false => environment.with_params(),
    }
}

fn policy_conditions(site: &Site<'_>, errors: &mut Errors<'_>) {
    conditions(site, errors, &environment(site.scope.value));
}

fn conditions(site: &Site<'_>, errors: &mut Errors<'_>, environment: &Environment<'_>) {
    let path = site.path();
    let mut seen: Vec<&str> = Vec::new();
    // Those beyond the bound are counted, not compiled.
    for (at, condition) in site.items().iter().enumerate().take(MAX_CONDITIONS + 1) {
        if errors.is_over() {
            return;
        }
        let expression = text(condition, &["expression"]).trim();
        let field = format!("{path}[{at}].expression");
        match expression {
            "" => errors.push(FieldError::required(field, "")),
            expression => boolean(expression, field, errors, environment),
        }
        let (name, field) = (text(condition, &["name"]), format!("{path}[{at}].name"));
        if name.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        for wrong in names::label_key_errors(name) {
            errors.push(FieldError::invalid(field.clone(), name, wrong));
        }
        match seen.contains(&name) {
            true => errors.push(FieldError::duplicate(field, name)),
            false => seen.push(name),
        }
    }
    let count = site.items().len();
    if count > MAX_CONDITIONS {
        errors.push(FieldError::too_many(path, count, MAX_CONDITIONS));
    }
}

/// Adds the error of an expression that must return a boolean.
fn boolean(
    expression: &str,
    field: String,
    errors: &mut Errors<'_>,
    environment: &Environment<'_>,
) {
    let wrong = match environment.compile(expression) {
        Ok((_, Type::Bool | Type::Dynamic)) => return,
        Ok((_, of)) => format!("must evaluate to bool but got {of}"),
        Err(why) => format!("compilation failed: {why}"),
    };
    errors.push(FieldError::invalid(field, expression, wrong));
}

fn param_kind(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(kind) = site.value else {
        return;
    };
    let path = site.path();
    for name in ["apiVersion", "kind"] {
        if text(kind, &[name]).is_empty() {
            errors.push(FieldError::required(format!("{path}.{name}"), ""));
        }
    }
}

/// Checks the variables of a policy, and adds them to its environment.
fn variables(policy: &Value, errors: &mut Errors<'_>) -> Environment<'static> {
    let mut environment = environment(policy);
    let items = policy["spec"]["variables"].as_array();
    let items = items.map(Vec::as_slice).unwrap_or_default();
    if !items.is_empty() {
        environment = environment.with_variables();
    }
    for (at, variable) in items.iter().enumerate() {
        if errors.is_over() {
            break;
        }
        let path = format!("spec.variables[{at}]");
        self::variable(variable, &path, errors, &mut environment);
    }
    environment
}

/// Checks the variables and mutations of a policy.
fn mutations(site: &Site<'_>, errors: &mut Errors<'_>) {
    let policy = site.scope.value;
    let environment = variables(policy, errors);
    let items = policy["spec"]["mutations"].as_array();
    let items = items.map(Vec::as_slice).unwrap_or_default();
    if items.is_empty() {
        let detail = "mutations must contain at least one item";
        errors.push(FieldError::required("spec.mutations", detail));
    }
    for (at, mutation) in items.iter().enumerate() {
        if errors.is_over() {
            return;
        }
        let path = format!("spec.mutations[{at}]");
        self::mutation(mutation, &path, errors, &environment);
    }
}

fn mutation(mutation: &Value, path: &str, errors: &mut Errors<'_>, environment: &Environment<'_>) {
    let (own, other, wanted) = match text(mutation, &["patchType"]) {
        "" => {
            errors.push(FieldError::required(format!("{path}.patchType"), ""));
            return;
        }
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", OBJECT.to_owned()),
        "JSONPatch" => (
            "jsonPatch",
            "applyConfiguration",
            format!("list({JSON_PATCH})"),
        ),
        other => {
            let known = ["ApplyConfiguration", "JSONPatch"];
            let field = format!("{path}.patchType");
            errors.push(FieldError::not_supported(field, other, &known));
            return;
        }
    };
    let patch_type = text(mutation, &["patchType"]);
    match mutation[own].is_object() {
        false => {
            let detail = format!("must be specified when patchType is {patch_type}");
            errors.push(FieldError::required(format!("{path}.{own}"), detail));
        }
        true => {
            let field = format!("{path}.{own}.expression");
            let source = text(&mutation[own], &["expression"]);
            if source.trim().is_empty() {
                errors.push(FieldError::required(field, "expression is not specified"));
            } else {
                let wrong = match environment.compile(source) {
                    Ok((_, of)) if of.to_string() == wanted => None,
                    Ok((_, of)) => Some(format!("must evaluate to {wanted} but got {of}")),
                    Err(why) => Some(format!("compilation failed: {why}")),
                };
                let error = wrong.map(|why| FieldError::invalid(field, source, why));
                errors.extend(error);
            }
        }
    }
    if mutation[other].is_object() {
        let detail = format!("must not be specified when patchType is {patch_type}");
        let field = format!("{path}.{other}");
        let shown = format!("{{{other}}}");
        errors.push(FieldError::invalid(field, &shown, detail));
    }
}

/// Checks the operations of the rules of a mutating policy: deletes are not mutated.
fn mutation_operations(site: &Site<'_>, errors: &mut Errors<'_>) {
    let known = ["*", "CONNECT", "CREATE", "UPDATE"];
    for rule in site.items() {
        let operations = rule["operations"].as_array().into_iter().flatten();
        for operation in operations.filter_map(Value::as_str) {
            if operation == "DELETE" {
                let field = format!("{}.operations", site.path());
                errors.push(FieldError::not_supported(field, operation, &known));
            }
        }
    }
}

/// Checks the variables, validations and audit annotations of a policy.
fn policy_expressions(site: &Site<'_>, errors: &mut Errors<'_>) {
    let policy = site.scope.value;
    let spec = &policy["spec"];
    let environment = variables(policy, errors);
    let items = |name: &str| spec[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let has_none = items("validations").is_empty() && items("auditAnnotations").is_empty();
    if has_none {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.push(FieldError::required("spec.validations", detail));
        errors.push(FieldError::required("spec.auditAnnotations", detail));
    }
    for (at, validation) in items("validations").iter().enumerate() {
        if errors.is_over() {
            return;
        }
        let path = format!("spec.validations[{at}]");
        self::validation(validation, &path, errors, &environment);
    }
    let owner = text(policy, &["metadata", "name"]);
    let mut seen: Vec<&str> = Vec::new();
    for (at, annotation) in items("auditAnnotations").iter().enumerate() {
        if errors.is_over() {
            return;
        }
        let path = format!("spec.auditAnnotations[{at}]");
        audit_annotation(annotation, (&path, owner), errors, &environment);
        let key = text(annotation, &["key"]);
        if seen.contains(&key) {
            errors.push(FieldError::duplicate(format!("{path}.key"), key));
        }
        seen.push(key);
    }
}

fn variable(
    variable: &Value,
    path: &str,
    errors: &mut Errors<'_>,
    environment: &mut Environment<'static>,
) {
    let (name, source) = (text(variable, &["name"]), text(variable, &["expression"]));
    let field = format!("{path}.name");
    if name.trim().is_empty() {
        errors.push(FieldError::required(field, "name is not specified"));
    } else if !is_identifier(name) {
        let detail = "must be a valid CEL identifier";
        errors.push(FieldError::invalid(field, name, detail));
    }
    let field = format!("{path}.expression");
    if source.trim().is_empty() {
        errors.push(FieldError::required(field, "expression is not specified"));
        return;
    }
    match environment.compile(source) {
        Ok((_, of)) => environment.declare(name, of),
        Err(why) => {
            let detail = format!("compilation failed: {why}");
            errors.push(FieldError::invalid(field, source, detail));
        }
    }
}

fn is_identifier(name: &str) -> bool {
    let starts = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
    starts
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn validation(value: &Value, path: &str, errors: &mut Errors<'_>, environment: &Environment<'_>) {
    let field = |name: &str| format!("{path}.{name}");
    let part = |name: &str| text(value, &[name]);
    match part("expression").trim() {
        "" => {
            let detail = "expression is not specified";
            errors.push(FieldError::required(field("expression"), detail));
        }
        _ => boolean(part("expression"), field("expression"), errors, environment),
    }
    let made = part("messageExpression");
    if !made.is_empty() && made.trim().is_empty() {
        let detail = "must be non-empty if specified";
        errors.push(FieldError::invalid(
            field("messageExpression"),
            made,
            detail,
        ));
    } else if !made.is_empty() {
        let environment = environment.clone().without("authorizer");
        let wrong = match environment.compile(made) {
            Ok((_, Type::Text | Type::Dynamic)) => None,
            Ok((_, of)) => Some(format!("must evaluate to string but got {of}")),
            Err(why) => Some(format!("compilation failed: {why}")),
        };
        let error = wrong.map(|why| FieldError::invalid(field("messageExpression"), made, why));
        errors.extend(error);
    }
    let message = part("message");
    if !message.is_empty() && message.trim().is_empty() {
        let detail = "must be non-empty if specified";
        errors.push(FieldError::invalid(field("message"), message, detail));
    } else if message.trim().contains(['\n', '\r']) {
        let detail = "must not contain line breaks";
        errors.push(FieldError::invalid(field("message"), message, detail));
    }
    let reason = part("reason");
    if !reason.is_empty() && !REASONS.contains(&reason) {
        errors.push(FieldError::not_supported(field("reason"), reason, &REASONS));
    }
}

fn audit_annotation(
    value: &Value,
    (path, owner): (&str, &str),
    errors: &mut Errors<'_>,
    environment: &Environment<'_>,
) {
    let key = format!("{owner}/{}", text(value, &["key"]));
    for wrong in names::label_key_errors(&key) {
        let field = format!("{path}.key");
        errors.push(FieldError::invalid(field, key.as_str(), wrong));
    }
    let field = format!("{path}.valueExpression");
    let source = text(value, &["valueExpression"]);
    if source.trim().is_empty() {
        let detail = "valueExpression is not specified";
        errors.push(FieldError::required(field, detail));
        return;
    }
    if source.len() > MAX_VALUE {
        let detail = format!("must not exceed {MAX_VALUE} bytes in length");
        errors.push(FieldError::required(field, detail));
        return;
    }
    let wrong = match environment.compile(source) {
        Ok((_, Type::Text | Type::Null | Type::Dynamic)) => return,
        Ok((_, of)) => format!("must evaluate to one of [string null_type] but got {of}"),
        Err(why) => format!("compilation failed: {why}"),
    };
    errors.push(FieldError::invalid(field, source, wrong));
}

fn param_ref(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(reference) = site.value else {
        return;
    };
    let path = site.path();
    let (has_name, has_selector) = (
        !text(reference, &["name"]).is_empty(),
        !reference["selector"].is_null(),
    );
    match (has_name, has_selector) {
        (true, true) => {
            for name in ["name", "selector"] {
                let detail = "name and selector are mutually exclusive";
                errors.push(FieldError::forbidden(format!("{path}.{name}"), detail));
            }
        }
        (false, false) => {
            let detail = "one of name or selector must be specified";
            errors.push(FieldError::required(path.clone(), detail));
        }
        _ => {}
    }
    let field = format!("{path}.parameterNotFoundAction");
    match text(reference, &["parameterNotFoundAction"]) {
        "" => errors.push(FieldError::required(field, "")),
        "Allow" | "Deny" => {}
        other => errors.push(FieldError::not_supported(field, other, &["Allow", "Deny"])),
    }
}

fn deny_and_warn(site: &Site<'_>, errors: &mut Errors<'_>) {
    let has = |name: &str| site.items().iter().any(|action| action == name);
    if has("Deny") && has("Warn") {
        let shown = ShownValue::raw(Value::from(site.items()).to_string());
        let detail = "must not contain both Deny and Warn (repeating the same validation failure \
                      information in the API response and headers serves no purpose)";
        errors.push(FieldError::invalid(site.path(), shown, detail));
    }
}
