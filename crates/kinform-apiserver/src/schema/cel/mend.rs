//! Rewrites an expression where the interpreter differs from upstream's.
//!
//! ```text
//! a.?b, a.?b.c            -> a[?"b"], a[?"b"][?"c"]    a missing member is no error
//! size(a), string(a)      -> a.size(), @text(a).string()  an error of `a` stays that error
//! variables.a             -> @variable("a")            computed apart, may be an error
//! authorizer.requestResource -> one variable
//! Object{a: 1}            -> {"a": 1}                  the interpreter makes no messages
//! object.a, a.b.c         -> null has no members: an error, not `false`
//! ```
//!
//! `before` runs before the meter is inserted, `after` afterwards: what it adds costs nothing.
//!
//! BOUND: the recursion is as deep as the expression, whose depth `program.rs` limits.
//!
//! Upstream: `cel-go:interpreter/attributes.go`,
//! `kubernetes/apiserver:pkg/admission/plugin/cel/composition.go`.

use std::collections::BTreeSet;

use kube_cel::cel::common::ast::{
    CallExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, LiteralValue, MapEntryExpr, MapExpr,
    operators,
};

use super::types::unescaped;

/// The function that returns a variable of a policy.
pub(crate) const VARIABLE: &str = "@variable";
/// The function that returns a member of a value that has members.
pub(crate) const MEMBER: &str = "@member";
/// The function that turns a boolean into a text, and no other value.
pub(crate) const TEXT: &str = "@text";
/// The function that fails for a member of null.
pub(crate) const MISSING: &str = "@missing";
/// The variable for the resource of a request.
pub(crate) const REQUEST_RESOURCE: &str = "authorizer.requestResource";
/// Functions of one value that may be called as methods.
const METHODS: [&str; 5] = ["double", "int", "size", "string", "uint"];
/// The variables that may be null.
const NULLABLE: [&str; 4] = ["object", "oldObject", "params", "namespaceObject"];

/// Rewrites an expression. Returns the names of a policy's variables in it.
pub(crate) fn before(expression: &mut IdedExpr) -> BTreeSet<String> {
    let mut composed = BTreeSet::new();
    each(expression, &mut |of| before_one(of, &mut composed));
    composed
}

fn before_one(of: &mut IdedExpr, composed: &mut BTreeSet<String>) {
    if let Expr::Struct(message) = &mut of.expr {
        of.expr = Expr::Map(map_of(std::mem::take(&mut message.entries)));
        return;
    }
    if let Expr::Call(call) = &mut of.expr {
        if call.func_name == operators::OPT_SELECT {
            operators::OPT_INDEX.clone_into(&mut call.func_name);
        }
        turn(call);
        return;
    }
    let Expr::Select(select) = &of.expr else {
        return;
    };
    let field = select.field.clone();
    match &select.operand.expr {
        Expr::Ident(name) if name == "variables" && !select.test => {
            composed.insert(field.clone());
            *of = call(VARIABLE, vec![text(&field)]);
        }
        Expr::Ident(name) if name == "authorizer" && field == "requestResource" => {
            of.expr = Expr::Ident(REQUEST_RESOURCE.to_owned());
        }
        Expr::Call(inner) if inner.func_name == operators::OPT_INDEX && !select.test => {
            let operand = (*select.operand).clone();
            *of = call(operators::OPT_INDEX, vec![operand, text(&field)]);
        }
        _ => {}
    }
}

/// Returns the fields of a message as the members of a map.
fn map_of(mut entries: Vec<IdedEntryExpr>) -> MapExpr {
    for entry in &mut entries {
        if let EntryExpr::StructField(field) = &mut entry.expr {
            entry.expr = EntryExpr::MapEntry(MapEntryExpr {
                key: text(&unescaped(&field.field)),
                value: std::mem::take(&mut field.value),
                optional: field.optional,
            });
        }
    }
    MapExpr { entries }
}

/// Turns a function of one value into a method: the interpreter replaces the errors of arguments.
fn turn(of: &mut CallExpr) {
    let is_method = of.target.is_some() || of.args.len() != 1;
    if is_method || !METHODS.contains(&of.func_name.as_str()) {
        return;
    }
    if let Some(argument) = of.args.pop() {
        let target = match of.func_name.as_str() {
            "string" => call(TEXT, vec![argument]),
            _ => argument,
        };
        of.target = Some(Box::new(target));
    }
}

/// Returns whether a variable is one of admission. In rules of definitions, types exclude null.
pub(crate) fn is_of_admission(name: &str) -> bool {
    NULLABLE.contains(&name) || matches!(name, "request" | "variables")
}

/// Rewrites a metered expression.
pub(crate) fn after(expression: &mut IdedExpr) {
    each(expression, &mut after_one);
}

fn after_one(of: &mut IdedExpr) {
    let Expr::Select(select) = &of.expr else {
        return;
    };
    if select.test {
        return;
    }
    let field = text(&select.field);
    match &select.operand.expr {
        Expr::Ident(name) if NULLABLE.contains(&name.as_str()) => {
            let null = ided(Expr::Literal(LiteralValue::Null));
            let is_null = call(operators::EQUALS, vec![(*select.operand).clone(), null]);
            let missing = call(MISSING, vec![field]);
            let member = std::mem::take(of);
            *of = call(operators::CONDITIONAL, vec![is_null, missing, member]);
        }
        Expr::Ident(_) => {}
        _ => *of = call(MEMBER, vec![(*select.operand).clone(), field]),
    }
}

/// Calls a function for all parts of an expression, from the inside to the outside.
fn each(expression: &mut IdedExpr, change: &mut impl FnMut(&mut IdedExpr)) {
    match &mut expression.expr {
        Expr::Call(call) => {
            if let Some(target) = &mut call.target {
                each(target, change);
            }
            call.args.iter_mut().for_each(|of| each(of, change));
        }
        Expr::Select(select) => each(&mut select.operand, change),
        Expr::List(list) => list.elements.iter_mut().for_each(|of| each(of, change)),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    each(&mut entry.key, change);
                    each(&mut entry.value, change);
                }
            }
        }
        Expr::Struct(of) => {
            for entry in &mut of.entries {
                if let EntryExpr::StructField(field) = &mut entry.expr {
                    each(&mut field.value, change);
                }
            }
        }
        Expr::Comprehension(of) => {
            let parts = [
                &mut of.iter_range,
                &mut of.accu_init,
                &mut of.loop_cond,
                &mut of.loop_step,
                &mut of.result,
            ];
            parts.into_iter().for_each(|of| each(of, change));
        }
        _ => {}
    }
    change(expression);
}

fn ided(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

fn text(text: &str) -> IdedExpr {
    ided(Expr::Literal(LiteralValue::String(text.into())))
}

fn call(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    ided(Expr::Call(CallExpr {
        func_name: name.to_owned(),
        target: None,
        args,
    }))
}

#[cfg(test)]
mod tests {
    use kube_cel::cel::Value;
    use kube_cel::cel::objects::Key;

    use crate::schema::cel::environment::Environment;
    use crate::schema::cel::meter::Purse;
    use crate::schema::cel::paid;
    use crate::schema::cel::program::words;

    fn map(name: &str, value: Value) -> Value {
        let key = Key::String(name.to_owned().into());
        std::collections::HashMap::from([(key, value)]).into()
    }

    #[test]
    fn members_of_null_and_of_absent_values_are_as_upstream() {
        let text = |text: &str| Value::String(text.to_owned().into());
        let mut context = paid::context(&Purse::default());
        let object = map("data", map("a", text("1")));
        context.add_variable_from_value("object", object);
        context.add_variable_from_value("oldObject", Value::Null);
        let run = |source: &str| {
            let (program, _) = Environment::new().compile(source).unwrap();
            program.run(&context).map_err(|error| words(&error))
        };
        let yes = Ok(Value::Bool(true));
        for source in [
            "object.data.a == '1' && oldObject == null",
            "object.?data.b.orValue('d') == 'd'",
            "object.?data.?a.orValue('d') == '1'",
            "object.?none.a.hasValue() == false",
            "string(object.data.a == '1') + string(2) == 'true2'",
            "int(object.data.a) == 1 && size(object.data) == 1",
            "has(object.data.a) && !has(object.data.b)",
        ] {
            assert_eq!(run(source), yes, "{source}");
        }
        for (source, error) in [
            ("oldObject.data.a == '1'", "no such key: data"),
            ("size(oldObject.data) == 1", "no such key: data"),
            ("string(object.data.none) == ''", "no such key: none"),
            ("object.data.a.b == '1'", "no such overload"),
        ] {
            assert_eq!(run(source), Err(error.to_owned()), "{source}");
        }
    }
}
