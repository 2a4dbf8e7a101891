//! Rules of definitions (`x-kubernetes-validations`): compiled once, run for every object.
//!
//! ```text
//! schema -> Rules          object (+ old object) -> [FieldError], warnings
//! ```
//!
//! A rule sees its own part of the object as `self`, and the old value of it as `oldSelf`. A rule
//! that names the old value runs only if there is one, unless it declares it optional. A rule that
//! fails for an unchanged value causes a warning, not an error.
//!
//! * `values.rs`: objects as rules see them; `define.rs`: the validation of rules in a definition;
//!   `estimate.rs`: their cost in the worst case.
//!
//! Upstream: `apiextensions-apiserver:pkg/apiserver/schema/cel/validation.go`.

pub(crate) mod define;
pub(crate) mod estimate;
#[cfg(test)]
mod tests;
mod values;

use std::sync::Arc;

use kinform_api::FieldError;
use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, Value as CelValue};
use serde_json::Value;

use self::values::Converter;
use super::cel::meter::{self, COPIES, Purse};
use super::cel::paid;
use super::cel::program::{self, Program};
use super::cel::types::Type;
use super::old_value::Before;
use super::validate::shown;
use super::{Whole, join};

/// The length of a message that an expression may make.
const MAX_MESSAGE: usize = 5 << 10;

/// The rules of a schema.
#[derive(Debug)]
pub(crate) struct Rules {
    root: Node,
}

/// The rules of one node, and of those below.
#[derive(Debug, Default)]
struct Node {
    rules: Vec<Rule>,
    members: Vec<(String, Self)>,
    items: Option<Box<Self>>,
    others: Option<Box<Self>>,
}

#[derive(Debug)]
struct Rule {
    text: String,
    message: String,
    made_message: Option<Program>,
    reason: String,
    /// The path of the reported error, relative to the place of the rule.
    field: String,
    may_lack_old: bool,
    program: Result<Program, String>,
}

/// The errors and warnings of the rules for an object.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) errors: Vec<FieldError>,
    pub(crate) warnings: Vec<String>,
}

impl Rules {
    /// Parses the rules of a schema. Returns `None` if the schema has no rules.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let root = Node::of(schema, Whole::Yes)?;
        Some(Self { root })
    }

    /// The rules of a part of a schema.
    pub(super) fn of_part(schema: &Value) -> Option<Self> {
        let root = Node::of(schema, Whole::No)?;
        Some(Self { root })
    }

    /// Runs all rules.
    pub(crate) fn run(&self, schema: &Value, object: &Value, before: Before<'_>) -> Said {
        self.run_at(schema, object, before, "", Whole::Yes)
    }

    /// Runs all rules of a new part of an object.
    pub(super) fn run_part(&self, schema: &Value, part: &Value, path: &str) -> Said {
        self.run_at(schema, part, Before::NOTHING, path, Whole::No)
    }

    fn run_at(
        &self,
        schema: &Value,
        object: &Value,
        before: Before<'_>,
        path: &str,
        whole: Whole,
    ) -> Said {
        let purse = Purse::default();
        let context = paid::context(&purse);
        let mut run = Run {
            context: &context,
            purse: &purse,
            said: Said::default(),
            is_over: false,
        };
        let place = Place {
            path,
            whole,
            nearest: None,
        };
        run.node(&self.root, schema, object, before, place);
        run.said
    }
}

impl Node {
    fn of(schema: &Value, whole: Whole) -> Option<Self> {
        let list = schema
            .get("x-kubernetes-validations")
            .and_then(Value::as_array);
        let rules: Vec<Rule> = list
            .into_iter()
            .flatten()
            .map(|rule| Rule::of(rule, schema, whole))
            .collect();
        let child = |name: &str| {
            let of = schema.get(name).filter(|of| of.is_object())?;
            Self::of(of, Whole::No).map(Box::new)
        };
        let properties = schema.get("properties").and_then(Value::as_object);
        let members = properties
            .into_iter()
            .flatten()
            .filter_map(|(name, of)| Self::of(of, Whole::No).map(|node| (name.clone(), node)));
        let node = Self {
            rules,
            members: members.collect(),
            items: child("items"),
            others: child("additionalProperties"),
        };
        let is_empty = node.rules.is_empty()
            && node.members.is_empty()
            && node.items.is_none()
            && node.others.is_none();
        (!is_empty).then_some(node)
    }
}

impl Rule {
    fn of(rule: &Value, schema: &Value, whole: Whole) -> Self {
        let text = |name: &str| {
            let text = rule.get(name).and_then(Value::as_str);
            text.unwrap_or_default().trim().to_owned()
        };
        let may_lack_old = rule.get("optionalOldSelf") == Some(&Value::Bool(true));
        let compile = |text: &str| {
            let (this, old) = types(schema, whole, may_lack_old).ok_or_else(|| {
                "failed to convert to declType for CEL validation rules".to_owned()
            })?;
            Program::compile(text, named(this, old)).map(|(program, _)| program)
        };
        let made = rule
            .get("messageExpression")
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty());
        let field = text("fieldPath");
        Self {
            program: compile(rule.get("rule").and_then(Value::as_str).unwrap_or_default()),
            made_message: made.and_then(|text| compile(text).ok()),
            text: text("rule"),
            message: text("message"),
            reason: text("reason"),
            field: field.trim_start_matches('.').to_owned(),
            may_lack_old,
        }
    }

    /// Returns the name of the rule in an error: its message, or else its text.
    fn name(&self) -> &str {
        match self.message.as_str() {
            "" => &self.text,
            message => message,
        }
    }
}

/// The types of `self` and `oldSelf`.
fn types(schema: &Value, whole: Whole, may_lack_old: bool) -> Option<(Type<'_>, Type<'_>)> {
    let this = Type::of(schema, whole)?;
    let old = match may_lack_old {
        true => Type::Optional(Box::new(this.clone())),
        false => this.clone(),
    };
    Some((this, old))
}

/// The variables of a rule.
fn named<'a>(this: Type<'a>, old: Type<'a>) -> Vec<(String, Type<'a>)> {
    vec![("self".to_owned(), this), ("oldSelf".to_owned(), old)]
}

/// Returns whether a rule names the old value.
fn uses_old(program: &Program) -> bool {
    program.named.contains("oldSelf")
}

/// The position of a value within the object.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a str,
    whole: Whole,
    /// The closest enclosing value that has an old value, and that old value. Errors within an
    /// unchanged value are not reported.
    nearest: Option<(&'a Value, &'a Value)>,
}

/// One run of all rules.
struct Run<'c> {
    context: &'c Context<'static>,
    purse: &'c Purse,
    said: Said,
    /// The budget is spent.
    is_over: bool,
}

impl Run<'_> {
    fn node(
        &mut self,
        node: &Node,
        schema: &Value,
        value: &Value,
        before: Before<'_>,
        place: Place<'_>,
    ) {
        if value.is_null() || self.is_over {
            return;
        }
        if !node.rules.is_empty() {
            self.rules(node, schema, value, before, place);
        }
        let nearest = before.0.map(|old| (value, old)).or(place.nearest);
        match value {
            Value::Array(items) => {
                let (Some(node), Some(of)) = (&node.items, schema.get("items")) else {
                    return;
                };
                let old = before.items(schema);
                for (at, item) in items.iter().enumerate() {
                    let path = format!("{}[{at}]", place.path);
                    self.below(node, of, item, old.of(item), (&path, nearest));
                }
            }
            Value::Object(members) => {
                for (name, value) in members {
                    let old = before.member(schema, name);
                    if let Some((_, node)) = node.members.iter().find(|(of, _)| of == name) {
                        let path = join(place.path, name);
                        self.below(
                            node,
                            &schema["properties"][name],
                            value,
                            old,
                            (&path, nearest),
                        );
                    } else if let (Some(node), Some(of)) =
                        (&node.others, schema.get("additionalProperties"))
                    {
                        let path = format!("{}[{name}]", place.path);
                        self.below(node, of, value, old, (&path, nearest));
                    }
                }
            }
            _ => {}
        }
    }

    fn below(
        &mut self,
        node: &Node,
        schema: &Value,
        value: &Value,
        before: Before<'_>,
        (path, nearest): (&str, Option<(&Value, &Value)>),
    ) {
        let whole = Whole::No;
        let place = Place {
            path,
            whole,
            nearest,
        };
        self.node(node, schema, value, before, place);
    }

    fn rules(
        &mut self,
        node: &Node,
        schema: &Value,
        value: &Value,
        before: Before<'_>,
        place: Place<'_>,
    ) {
        let converter = Converter {
            context: self.context,
        };
        let this = converter.value(schema, value, place.whole);
        let old = before
            .0
            .filter(|old| !old.is_null())
            .map(|old| converter.value(schema, old, place.whole));
        for rule in &node.rules {
            let program = match &rule.program {
                Ok(program) => program,
                Err(text) => {
                    let detail = format!("rule compile error: {text}");
                    self.refuse(schema, place.path, detail);
                    continue;
                }
            };
            if uses_old(program) && old.is_none() && !rule.may_lack_old {
                continue;
            }
            let mut context = self.context.new_inner_scope();
            context.add_variable_from_value("self", this.clone());
            if rule.may_lack_old {
                let old = old
                    .clone()
                    .map_or_else(OptionalValue::none, OptionalValue::of);
                context.add_variable_from_value("oldSelf", CelValue::Opaque(Arc::new(old)));
            } else if let Some(old) = &old {
                context.add_variable_from_value("oldSelf", old.clone());
            }
            self.purse.begin();
            // Each rule gets a copy of its value.
            let paid = self.purse.pay_for(&this, COPIES);
            match paid.and_then(|()| program.run(&context)) {
                Ok(CelValue::Bool(true)) => {}
                Ok(_) => self.fail(rule, program, &context, (schema, value, before, place)),
                Err(error) if meter::is_out_of_budget(&error) => {
                    let detail = format!(
                        "'{}': no further validation rules will be run due to call cost exceeds \
                         limit for rule: {}",
                        program::words(&error),
                        rule.name()
                    );
                    self.refuse(schema, place.path, detail);
                    self.is_over = true;
                    return;
                }
                Err(error) => {
                    let (words, name) = (program::words(&error), rule.name());
                    let detail = match words.as_str() {
                        "no such overload" => format!(
                            "'no such overload': call arguments did not match a supported operator, \
                             function or macro signature for rule: {name}"
                        ),
                        words => format!("{words} evaluating rule: {name}"),
                    };
                    self.refuse(schema, place.path, detail);
                }
            }
        }
    }

    /// An error about the rule rather than the value.
    fn refuse(&mut self, schema: &Value, path: &str, detail: String) {
        let of = schema
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let path = if path.is_empty() { "<nil>" } else { path };
        self.said.errors.push(FieldError::invalid(path, of, detail));
    }

    fn fail(
        &mut self,
        rule: &Rule,
        program: &Program,
        context: &Context<'_>,
        (schema, value, before, place): (&Value, &Value, Before<'_>, Place<'_>),
    ) {
        let made = rule
            .made_message
            .as_ref()
            .and_then(|made| made.run(context).ok())
            .and_then(message);
        let detail = made.unwrap_or_else(|| match rule.message.as_str() {
            "" => format!("failed rule: {}", rule.text),
            message => message.to_owned(),
        });
        let path = match (place.path, rule.field.as_str()) {
            ("", "") => "<nil>".to_owned(),
            (path, "") => path.to_owned(),
            (path, field) => join(path, field),
        };
        let is_large = matches!(
            schema.get("type").and_then(Value::as_str),
            Some("object" | "array")
        );
        let plain = |error: FieldError| {
            if is_large {
                error.without_value()
            } else {
                error
            }
        };
        let error = match rule.reason.as_str() {
            "FieldValueForbidden" => FieldError::forbidden(path, detail),
            "FieldValueRequired" => FieldError::required(path, detail),
            "FieldValueDuplicate" => plain(FieldError::duplicate(path, shown(value))),
            _ => plain(FieldError::invalid(path, shown(value), detail)),
        };
        let is_old = match before.0 {
            Some(_) => before.is(value),
            // The old value is unknown, but the enclosing value did not change.
            None => place.nearest.is_some_and(|(new, old)| new == old),
        };
        if !uses_old(program) && is_old {
            self.said.warnings.push(error.to_string());
        } else {
            self.said.errors.push(error);
        }
    }
}

/// A message that an expression made, if it is one line that is not too long.
fn message(value: CelValue) -> Option<String> {
    let CelValue::String(text) = value else {
        return None;
    };
    let text = text.trim();
    let fits = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
    fits.then(|| text.to_owned())
}
