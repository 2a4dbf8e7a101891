//! Estimates the cost of a rule in the worst case, before it ever runs.
//!
//! ```text
//! expression + schema of what it names ──▶ steps × sizes of the lists that its loops go over
//! ```
//!
//! Units and factors are upstream's: a name or a member is 1, a call 1 unless it reads texts, of
//! which ten bytes are 1, a list 10, a map 30. Where upstream knows no bound of a size and would
//! refuse, this estimate takes 1, so it never refuses more.
//!
//! Complexity: linear in the expression, times the properties of the objects that it names.
//!
//! Upstream: `google/cel-go:checker/cost.go`, `apiserver:pkg/cel/library/cost.go`.

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators,
};
use serde_json::Value;

use crate::schema::cel::types;

/// The assumed size of a list or map without a bound: a request of its smallest items.
const UNBOUND: f64 = 1_048_576.0;
/// The assumed size of a text without a bound: a request of 3 MiB, without quotes.
const UNBOUND_TEXT: f64 = 3_145_726.0;
/// The cost of a byte of a text.
const BYTE: f64 = 0.1;
/// The cost of a byte of a regular expression.
const PATTERN_BYTE: f64 = 0.25;
const LIST: f64 = 10.0;
const MAP: f64 = 30.0;
/// The most bytes of a character.
const WIDEST: f64 = 4.0;

/// Returns the maximum number of items or members that a node can have.
pub(crate) fn times(schema: &Value, bound: &str) -> f64 {
    schema
        .get(bound)
        .and_then(Value::as_f64)
        .unwrap_or(UNBOUND)
        .min(UNBOUND)
}

/// Estimates the cost of a rule about a value of this schema.
pub(super) fn estimate(schema: &Value, expression: &IdedExpr) -> f64 {
    let mut scope = vec![
        ("self".to_owned(), Some(schema)),
        ("oldSelf".to_owned(), Some(schema)),
    ];
    walk(expression, &mut scope).cost
}

type Scope<'a> = Vec<(String, Option<&'a Value>)>;

/// An expression in the worst case.
#[derive(Clone, Copy, Debug, Default)]
struct Worst<'a> {
    cost: f64,
    /// Bytes of a text, items of a list; 1 for a computed flag or number, 0 for one of the object.
    /// `None` if it is not known.
    size: Option<f64>,
    is_text: bool,
    /// The schema of a part of the object.
    schema: Option<&'a Value>,
}

impl<'a> Worst<'a> {
    fn of_part(cost: f64, schema: Option<&'a Value>) -> Self {
        Self {
            cost,
            size: schema.and_then(schema_size),
            is_text: schema.is_some_and(is_text_type),
            schema,
        }
    }

    fn of_size(cost: f64, size: Option<f64>) -> Self {
        Self {
            cost,
            size,
            ..Self::default()
        }
    }
}

fn walk<'a>(expression: &IdedExpr, scope: &mut Scope<'a>) -> Worst<'a> {
    match &expression.expr {
        Expr::Ident(name) => {
            let known = scope.iter().rev().find(|(known, _)| known == name);
            Worst::of_part(1.0, known.and_then(|(_, schema)| *schema))
        }
        Expr::Select(select) => {
            let operand = walk(&select.operand, scope);
            match select.test {
                // `has(a.b)` reads the member that it asks about for nothing.
                true => Worst::of_size(operand.cost, Some(1.0)),
                false => {
                    let part = operand.schema.and_then(|of| member(of, &select.field));
                    Worst::of_part(1.0 + operand.cost, part)
                }
            }
        }
        Expr::List(list) => {
            let cost = list.elements.iter().map(|of| walk(of, scope).cost);
            Worst::of_size(LIST + cost.sum::<f64>(), Some(length(list.elements.len())))
        }
        Expr::Map(map) => {
            let cost = map.entries.iter().map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    walk(&entry.key, scope).cost + walk(&entry.value, scope).cost
                }
                EntryExpr::StructField(field) => walk(&field.value, scope).cost,
            });
            Worst::of_size(MAP + cost.sum::<f64>(), Some(length(map.entries.len())))
        }
        Expr::Literal(LiteralValue::String(text)) => Worst {
            size: Some(length(text.inner().len())),
            is_text: true,
            ..Worst::default()
        },
        Expr::Literal(_) => Worst::of_size(0.0, Some(1.0)),
        Expr::Call(call) => walk_call(call, scope),
        Expr::Comprehension(of) => Worst::of_size(walk_loop(of, scope), None),
        _ => Worst::default(),
    }
}

fn walk_loop(of: &ComprehensionExpr, scope: &mut Scope<'_>) -> f64 {
    let range = walk(&of.iter_range, scope);
    let (size, item) = match range.schema {
        Some(schema) if schema.get("additionalProperties").is_some() => {
            (times(schema, "maxProperties"), None)
        }
        Some(schema) => (times(schema, "maxItems"), schema.get("items")),
        // The parts of a text, or the result of a loop: their sizes are not known here.
        None => (1.0, None),
    };
    let outside = range.cost + walk(&of.accu_init, scope).cost;
    scope.push((of.accu_var.clone(), None));
    scope.push((of.iter_var.clone(), item));
    let inside = walk(&of.loop_cond, scope).cost + walk(&of.loop_step, scope).cost;
    scope.pop();
    let result = walk(&of.result, scope).cost;
    scope.pop();
    outside + size * inside + result
}

fn walk_call<'a>(call: &CallExpr, scope: &mut Scope<'a>) -> Worst<'a> {
    // The receiver of a method is its first operand.
    let operands = call.target.as_deref().into_iter().chain(&call.args);
    let operands: Vec<Worst<'a>> = operands.map(|of| walk(of, scope)).collect();
    let all: f64 = operands.iter().map(|of| of.cost).sum();
    let name = call.func_name.as_str();
    let size = |at: usize| operands.get(at).and_then(|of| of.size);
    let first = operands.first().copied().unwrap_or_default();
    match (name, &operands[..]) {
        (operators::CONDITIONAL, [test, then, or]) => Worst {
            cost: test.cost + then.cost.max(or.cost),
            is_text: then.is_text && or.is_text,
            ..Worst::default()
        },
        (operators::INDEX, [of, _]) => {
            let part = of.schema.and_then(|schema| {
                let items = schema.get("items");
                items.or_else(|| schema.get("additionalProperties"))
            });
            Worst::of_part(all + 1.0, part.filter(|of| of.is_object()))
        }
        (operators::ADD, [a, b]) if a.is_text || b.is_text => Worst {
            cost: all + (bytes(a.size) * BYTE + bytes(b.size) * BYTE).ceil(),
            size: a.size.zip(b.size).map(|(a, b)| a + b),
            is_text: true,
            schema: None,
        },
        ("lowerAscii" | "upperAscii" | "trim" | "substring", _) => Worst {
            cost: all + read(first.size),
            size: first.size,
            is_text: true,
            schema: None,
        },
        ("string" | "replace" | "join" | "format", _) => {
            let own = if name == "replace" {
                2.0 * read(size(0))
            } else {
                1.0
            };
            Worst {
                cost: all + own,
                is_text: true,
                ..Worst::default()
            }
        }
        _ => {
            let result = is_scalar(name).then_some(1.0);
            Worst::of_size(all + own_cost(name, &operands), result)
        }
    }
}

/// Returns the cost of a function whose result is no text, without its operands'.
fn own_cost(name: &str, operands: &[Worst<'_>]) -> f64 {
    let size = |at: usize| operands.get(at).and_then(|of| of.size);
    let schema = |at: usize| operands.get(at).and_then(|of| of.schema);
    match name {
        operators::LOGICAL_AND | operators::LOGICAL_OR => 0.0,
        operators::EQUALS | operators::NOT_EQUALS => compared(operands),
        operators::LESS
        | operators::LESS_EQUALS
        | operators::GREATER
        | operators::GREATER_EQUALS
            if operands.iter().any(|of| of.is_text) =>
        {
            compared(operands)
        }
        operators::IN => match schema(1) {
            Some(schema) if schema.get("items").is_some() => times(schema, "maxItems"),
            _ => 1.0,
        },
        "startsWith" | "endsWith" => read(size(1)),
        "contains" => read(size(0)) * read(size(1)),
        "matches" => {
            let pattern = (bytes(size(1)) * PATTERN_BYTE).ceil();
            ((bytes(size(0)) + 1.0) * BYTE).ceil() * pattern
        }
        "split" => read(size(0)),
        "isSorted" | "sum" | "max" | "min" => {
            let item = schema(0).and_then(|schema| schema.get("items"));
            let item = item.and_then(schema_size).unwrap_or(0.0);
            bytes(size(0)) * (item * BYTE).ceil().max(1.0)
        }
        _ => 1.0,
    }
}

fn bytes(size: Option<f64>) -> f64 {
    size.unwrap_or(1.0)
}

/// Returns the cost of reading a text.
fn read(size: Option<f64>) -> f64 {
    (bytes(size) * BYTE).ceil()
}

/// Returns the cost of comparing two values: of as much as the smaller one has.
fn compared(operands: &[Worst<'_>]) -> f64 {
    let sizes = operands.iter().filter_map(|of| of.size);
    sizes
        .reduce(f64::min)
        .map_or(1.0, |least| (least * BYTE).ceil())
}

/// Returns whether the result of a function is a flag or a number.
fn is_scalar(name: &str) -> bool {
    matches!(
        name,
        "size"
            | "int"
            | "uint"
            | "double"
            | "bool"
            | "indexOf"
            | "lastIndexOf"
            | "startsWith"
            | "endsWith"
            | "contains"
            | "matches"
            | operators::SUBSTRACT
            | operators::MULTIPLY
            | operators::DIVIDE
            | operators::MODULO
            | operators::ADD
            | operators::NEGATE
            | operators::EQUALS
            | operators::NOT_EQUALS
            | operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS
            | operators::IN
            | operators::LOGICAL_AND
            | operators::LOGICAL_OR
            | operators::LOGICAL_NOT
    )
}

fn length(count: usize) -> f64 {
    u32::try_from(count).map_or(UNBOUND_TEXT, f64::from)
}

fn is_text_type(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("string")
}

/// Returns the largest size of a value of a schema.
fn schema_size(schema: &Value) -> Option<f64> {
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => Some(text_size(schema)),
        Some("array") => Some(times(schema, "maxItems")),
        Some("object") if schema.get("additionalProperties").is_some() => {
            Some(times(schema, "maxProperties"))
        }
        Some("integer" | "number" | "boolean") => Some(0.0),
        Some(_) => None,
        None => Some(UNBOUND_TEXT),
    }
}

fn text_size(schema: &Value) -> f64 {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let lengths = values
            .iter()
            .filter_map(Value::as_str)
            .map(str::len)
            .map(length);
        return lengths.fold(0.0, f64::max);
    }
    match schema.get("format").and_then(Value::as_str) {
        Some("date") => 12.0,
        Some("date-time") => 37.0,
        Some("duration") => 32.0,
        _ => schema
            .get("maxLength")
            .and_then(Value::as_f64)
            .map_or(UNBOUND_TEXT, |most| most * WIDEST),
    }
}

/// Returns the schema of a member, by the name that rules use.
fn member<'a>(of: &'a Value, field: &str) -> Option<&'a Value> {
    let properties = of.get("properties").and_then(Value::as_object);
    let mut named = properties.into_iter().flatten();
    let found = named.find(|(name, _)| types::escape(name).as_deref() == Some(field));
    found
        .map(|(_, of)| of)
        .or_else(|| of.get("additionalProperties").filter(|of| of.is_object()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::Whole;
    use crate::schema::cel::program::Program;
    use crate::schema::cel::types::Type;

    fn text(most: u32) -> Value {
        json!({"type": "string", "maxLength": most})
    }

    fn list(most: u32, items: &Value) -> Value {
        json!({"l": {"type": "array", "maxItems": most, "items": items}})
    }

    /// The limit of a rule.
    const LIMIT: f64 = 10_000_000.0;

    /// Checks by what factor a real server says that the limit is exceeded; below 1.0 it says
    /// nothing.
    fn check(properties: &Value, rule: &str, factor: f64) {
        let schema = json!({"type": "object", "properties": properties});
        let of = Type::of(&schema, Whole::No).unwrap();
        let (program, _) = Program::compile(rule, super::super::named(of.clone(), of)).unwrap();
        let found = estimate(&schema, program.expression()) / LIMIT;
        if factor < 1.0 {
            assert!(found < 1.0, "{rule}: {found}");
        } else {
            let tenths = |of: f64| (of * 10.0).round() / 10.0;
            assert!(
                (tenths(found) - factor).abs() < 0.01,
                "{rule}: {found}, {factor}"
            );
        }
    }

    // kube-apiserver 1.37 names these factors in its refusals.
    #[test]
    fn rules_cost_what_a_real_server_says() {
        let number = json!({"type": "integer"});
        let (numbers, texts) = (list(3000, &number), list(1500, &text(20)));
        for (properties, rule, factor) in [
            (&texts, "x == y", 2.9),
            (&numbers, "x == y", 4.5),
            (&texts, "x != y || x < 'abc'", 3.4),
            (&texts, "x.startsWith(y)", 2.9),
            (&texts, "x.contains(y)", 15.5),
            (&texts, "x.matches('^[a-z]+$') || y == x", 7.2),
            (&texts, "x + y == 'abc'", 5.0),
            (&texts, "x == 'abc' && y == 'defghijklmnopq'", 1.8),
            (&texts, "x.lowerAscii() == y", 4.7),
            (&numbers, "x > 1 ? y > 2 : y + x + 3 > 3", 9.0),
            (&numbers, "[x, y].size() == 2", 15.3),
            (&numbers, "{'a': x}.size() == 2", 32.4),
        ] {
            let rule = format!("self.l.all(x, self.l.all(y, {rule}))");
            check(properties, &rule, factor);
        }
        for (rule, factor) in [
            ("self.l.all(x, self.l.exists(y, x < y))", 6.3),
            ("self.l.all(x, self.l.exists_one(y, x == y))", 3.6),
            ("self.l.all(x, self.l.filter(y, x == y).size() == 1)", 13.5),
            ("self.l.map(x, self.l.map(y, y + x)).size() > 0", 13.5),
        ] {
            check(&numbers, rule, factor);
        }
    }

    #[test]
    fn sizes_come_from_the_schema() {
        let twice = "self.l.all(x, self.l.all(y, x == y))";
        let words = json!({"type": "string", "enum": ["aaaaaaaaaaaa", "b"]});
        check(&list(1500, &words), twice, 1.6);
        let time = json!({"type": "string", "format": "date-time"});
        check(&list(1500, &time), twice, 2.0);
        let items = json!({"type": "array", "maxItems": 20, "items": {"type": "integer"}});
        check(&list(800, &items), twice, 0.0);
        let object = json!({"type": "object", "properties": {
            "a": {"type": "string", "maxLength": 10}, "b": {"type": "boolean"}}});
        let rule = "self.l.all(x, self.l.all(y, x.a == y.a || has(x.b)))";
        check(&list(3000, &object), rule, 10.8);
        check(&list(30_000, &text(20)), "self.l.all(x, x in self.l)", 90.0);
        check(&list(1500, &text(20)), "self.l.all(x, x in self.l)", 0.0);
        let numbers = json!({"type": "object", "maxProperties": 3000,
            "additionalProperties": {"type": "integer"}});
        let rule = "self.m.all(k, self.m.all(j, self.m[k] <= self.m[j]))";
        check(&json!({"m": numbers}), rule, 10.8);
        let mut short = list(1500, &text(20));
        short["n"] = text(5);
        check(&short, "self.l.all(x, self.l.all(y, self.n == x))", 1.8);
        let endless = json!({"l": {"type": "array", "items": {"type": "string"}}});
        check(&endless, "self.l.all(x, x == 'a')", 0.0);
        check(&endless, "self.l.all(x, x.size() < 5)", 0.0);
    }
}
