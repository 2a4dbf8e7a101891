//! The functions of rules that pay for their own work.
//!
//! ```text
//! Purse -> Context with all functions
//! ```
//!
//! Most functions come from libraries and cost the size of their arguments, which is paid before
//! the call (`meter.rs`). This module has the functions that cost more than that, and those that
//! the libraries run without a limit: whole numbers that overflow, patterns whose programs grow.
//!
//! BOUND: a pattern's program as in `go_regex/`, all programs of a run 80 MiB; 1,000 decimal places
//! in a format.
//!
//! Upstream: `kubernetes/apiserver:pkg/cel/library`, `cel-go:ext`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube_cel::KubeCelExt;
use kube_cel::cel::extractors::{Arguments, This};
use kube_cel::cel::objects::Key;
use kube_cel::cel::{Context, ExecutionError, Value};
use regex_automata::{Match, meta::Regex};

use super::functions::TYPE_NAMES;
use super::mend::{MEMBER, MISSING, TEXT};
use super::meter::{COPIED, COPIES, FORM, NEGATE, PAY, Purse, SEEN};
use crate::schema::go_regex;

/// The cost of compiling a pattern that is not yet in the cache, in addition to its size.
const PATTERN: u64 = 20_000;
/// The number of bytes of a program that cost one unit.
const PROGRAM: u64 = 8;
/// BOUND: the number of decimal places that a format may request.
const MAX_PLACES: usize = 1000;

type List = Arc<Vec<Value>>;
type Outcome = Result<Value, ExecutionError>;

/// A context with the functions of rules, which pay from a purse.
pub(crate) fn context(purse: &Purse) -> Context<'static> {
    let mut context = Context::default().with_all();
    let of = purse.clone();
    context.add_function(PAY, move |steps: i64, result: Value| {
        of.pay_for(&result, COPIES)?;
        of.pay_turn(steps.unsigned_abs())
            .map(|()| Value::Bool(true))
    });
    let of = purse.clone();
    context.add_function(COPIED, move |value: Value| {
        of.pay_for(&value, COPIES).map(|()| value)
    });
    let of = purse.clone();
    context.add_function(SEEN, move |value: Value| {
        of.pay_for(&value, 1).map(|()| value)
    });
    context.add_function(FORM, form_of);
    context.add_function(NEGATE, negate);
    context.add_function(MEMBER, member);
    context.add_function(TEXT, |of: Value| {
        Ok::<_, ExecutionError>(match of {
            Value::Bool(of) => text(if of { "true" } else { "false" }),
            of => of,
        })
    });
    context.add_function(MISSING, |field: Arc<String>| {
        Err::<Value, _>(ExecutionError::NoSuchKey(field))
    });
    texts(&mut context, purse);
    lists(&mut context, purse);
    patterns(&mut context, purse);
    context.add_function("type", |of: Value| Ok::<_, ExecutionError>(type_of(&of)));
    context.add_function("dyn", |of: Value| Ok::<_, ExecutionError>(of));
    for name in TYPE_NAMES {
        context.add_variable_from_value(name, Value::String(Arc::new(format!("type:{name}"))));
    }
    context
}

fn texts(context: &mut Context<'static>, purse: &Purse) {
    let of = purse.clone();
    context.add_function(
        "replace",
        move |this: This<Arc<String>>, with: Arguments| replace(&of, &this.0, &with.0),
    );
    context.add_function("size", |this: This<Value>| size(&this.0));
    context.add_function("split", |this: This<Arc<String>>, with: Arguments| {
        split(&this.0, &with.0)
    });
    let of = purse.clone();
    context.add_function("join", move |this: This<Value>, with: Arguments| {
        join(&of, &this.0, &with.0)
    });
}

/// The number of items, members or bytes; of a text, of its code points. The library counts the
/// bytes of a text.
fn size(of: &Value) -> Outcome {
    let size = match of {
        Value::List(items) => items.len(),
        Value::Map(members) => members.map.len(),
        Value::String(text) => text.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

/// The parts of a text, at most as many as is asked for; the last part is then the rest. The empty
/// separator stands between code points, and in the library also before the first one.
fn split(of: &str, with: &[Value]) -> Outcome {
    let (separator, most) = match with {
        [Value::String(separator)] => (separator, usize::MAX),
        [Value::String(separator), Value::Int(most)] => {
            (separator, usize::try_from(*most).unwrap_or(usize::MAX))
        }
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    let parts: Vec<Value> = match separator.is_empty() {
        false => of.splitn(most, separator.as_str()).map(text).collect(),
        true => {
            let ends = of.char_indices().map(|(at, letter)| at + letter.len_utf8());
            let (mut parts, mut from) = (Vec::new(), 0);
            for end in ends.take(most) {
                let end = if parts.len() + 1 == most {
                    of.len()
                } else {
                    end
                };
                parts.push(text(of.get(from..end).unwrap_or_default()));
                from = end;
            }
            parts
        }
    };
    Ok(Value::List(Arc::new(parts)))
}

fn lists(context: &mut Context<'static>, purse: &Purse) {
    let of = purse.clone();
    context.add_function("lists.range", move |count: i64| {
        let count = count.max(0);
        of.pay(count.unsigned_abs())?;
        Ok(Value::List(Arc::new((0..count).map(Value::Int).collect())))
    });
    let of = purse.clone();
    context.add_function("distinct", move |this: This<List>| distinct(&of, &this.0));
    context.add_function("sum", |this: This<List>| sum(&this.0));
    let of = purse.clone();
    context.add_function("sets.contains", move |a: List, b: List| {
        contains(&of, &a, &b).map(Value::Bool)
    });
    let of = purse.clone();
    context.add_function("sets.equivalent", move |a: List, b: List| {
        Ok::<_, ExecutionError>(Value::Bool(
            contains(&of, &a, &b)? && contains(&of, &b, &a)?,
        ))
    });
    let of = purse.clone();
    context.add_function("sets.intersects", move |a: List, b: List| {
        of.pay(product(&a, &b))?;
        Ok::<_, ExecutionError>(Value::Bool(a.iter().any(|item| b.contains(item))))
    });
}

fn patterns(context: &mut Context<'static>, purse: &Purse) {
    let known = Patterns {
        purse: purse.clone(),
        compiled: Arc::default(),
    };
    let of = known.clone();
    context.add_function(
        "matches",
        move |this: This<Arc<String>>, pattern: Arc<String>| {
            Ok::<_, ExecutionError>(Value::Bool(of.read(&pattern)?.is_match(this.0.as_str())))
        },
    );
    let of = known.clone();
    context.add_function(
        "find",
        move |this: This<Arc<String>>, pattern: Arc<String>| {
            let pattern = of.read(&pattern)?;
            let found = pattern.find(this.0.as_str());
            Ok::<_, ExecutionError>(found.map_or_else(|| text(""), |found| part(&this.0, &found)))
        },
    );
    context.add_function(
        "findAll",
        move |this: This<Arc<String>>, with: Arguments| {
            let (pattern, most) = match with.0.as_slice() {
                [Value::String(pattern)] => (pattern, usize::MAX),
                [Value::String(pattern), Value::Int(most)] => {
                    (pattern, usize::try_from(*most).unwrap_or(usize::MAX))
                }
                _ => return Err(ExecutionError::NoSuchOverload),
            };
            let pattern = known.read(pattern)?;
            let found = pattern.find_iter(this.0.as_str()).take(most);
            let found = found.map(|found| part(&this.0, &found)).collect();
            Ok(Value::List(Arc::new(found)))
        },
    );
}

fn text(text: &str) -> Value {
    Value::String(Arc::new(text.to_owned()))
}

/// Returns the part of a text that a pattern found.
fn part(whole: &str, found: &Match) -> Value {
    text(whole.get(found.range()).unwrap_or_default())
}

/// The patterns of a run, each compiled once.
#[derive(Clone)]
struct Patterns {
    purse: Purse,
    /// BOUND: the number of patterns that the budget pays for.
    compiled: Arc<Mutex<HashMap<Arc<String>, Regex>>>,
}

impl Patterns {
    fn read(&self, pattern: &Arc<String>) -> Result<Regex, ExecutionError> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = compiled.get(pattern) {
            return Ok(known.clone());
        }
        self.purse.pay(PATTERN)?;
        let made = go_regex::compile(pattern);
        let made = made.map_err(|error| ExecutionError::function_error("matches", error))?;
        self.purse.pay(made.memory_usage() as u64 / PROGRAM)?;
        compiled.insert(pattern.clone(), made.clone());
        Ok(made)
    }
}

/// Checks that a format requests no more decimal places than the bound.
fn form_of(form: Value) -> Outcome {
    let Value::String(text) = &form else {
        return Ok(form);
    };
    let is_huge = text.split("%.").skip(1).any(|places| {
        let end = places.find(|c: char| !c.is_ascii_digit());
        let places = &places[..end.unwrap_or(places.len())];
        !places.is_empty()
            && !places
                .parse()
                .is_ok_and(|places: usize| places <= MAX_PLACES)
    });
    match is_huge {
        true => Err(ExecutionError::function_error(
            "format",
            "invalid precision in format string",
        )),
        false => Ok(form),
    }
}

/// Returns a member of a value. Null has no members.
fn member(of: Value, field: Arc<String>) -> Outcome {
    match of {
        Value::Map(map) => {
            let found = map.get(&Key::String(field.clone())).cloned();
            found.ok_or(ExecutionError::NoSuchKey(field))
        }
        Value::Null => Err(ExecutionError::NoSuchKey(field)),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn negate(value: Value) -> Outcome {
    match value {
        Value::Int(number) => {
            let negative = number.checked_neg().map(Value::Int);
            negative.ok_or_else(|| ExecutionError::Overflow("negate", number.into(), Value::Null))
        }
        Value::Float(number) => Ok(Value::Float(-number)),
        Value::Duration(duration) => Ok(Value::Duration(-duration)),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn sum(items: &[Value]) -> Outcome {
    let mut items = items.iter().cloned();
    let first = items.next().unwrap_or(Value::Int(0));
    items.try_fold(first, |sum, item| sum + item)
}

fn product(a: &[Value], b: &[Value]) -> u64 {
    (a.len() as u64).saturating_mul(b.len() as u64)
}

fn contains(purse: &Purse, a: &[Value], b: &[Value]) -> Result<bool, ExecutionError> {
    purse.pay(product(a, b))?;
    Ok(b.iter().all(|item| a.contains(item)))
}

fn distinct(purse: &Purse, items: &[Value]) -> Outcome {
    purse.pay(product(items, items) / COPIES)?;
    let mut kept: Vec<Value> = Vec::new();
    for item in items {
        if !kept.contains(item) {
            kept.push(item.clone());
        }
    }
    Ok(Value::List(Arc::new(kept)))
}

/// Returns a type as a text, so that types can be compared.
fn type_of(value: &Value) -> Value {
    let name = match value {
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Bool(_) => "bool",
        Value::Null => "null_type",
        _ => "type",
    };
    Value::String(Arc::new(format!("type:{name}")))
}

fn replace(purse: &Purse, this: &str, with: &[Value]) -> Outcome {
    let (from, to, most) = match with {
        [Value::String(from), Value::String(to)] => (from, to, usize::MAX),
        [Value::String(from), Value::String(to), Value::Int(most)] => {
            (from, to, usize::try_from(*most).unwrap_or(usize::MAX))
        }
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    let times = this.matches(from.as_str()).count().min(most);
    let length = this.len() as u64 + (times as u64).saturating_mul(to.len() as u64);
    purse.pay(length / 8)?;
    let made = match most {
        usize::MAX => this.replace(from.as_str(), to),
        most => this.replacen(from.as_str(), to, most),
    };
    Ok(Value::String(Arc::new(made)))
}

fn join(purse: &Purse, this: &Value, with: &[Value]) -> Outcome {
    let Value::List(items) = this else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let between = match with {
        [] => "",
        [Value::String(between)] => between.as_str(),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    let mut texts = Vec::with_capacity(items.len());
    for item in items.iter() {
        let Value::String(text) = item else {
            return Err(ExecutionError::NoSuchOverload);
        };
        purse.pay(1 + (text.len() + between.len()) as u64 / 8)?;
        texts.push(text.as_str());
    }
    Ok(Value::String(Arc::new(texts.join(between))))
}
