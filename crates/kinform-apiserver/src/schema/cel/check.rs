//! Type-checks a rule: its names exist, and its operators and functions fit their values.
//!
//! ```text
//! expression + type of self -> type of the result | mistake and its position
//! ```
//!
//! The parser keeps no positions, so the checker finds them again. It walks the expression in the
//! order of its text, so the nth operator, name or call is the nth one in the text.
//!
//! Functions of libraries are checked by name, and the most common ones also by their arguments.
//!
//! BOUND: the recursion is as deep as the expression, whose depth `program.rs` limits.
//!
//! Upstream: `cel-go:checker/checker.go`.

use std::collections::{BTreeSet, HashMap};

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, StructExpr, operators,
};

use super::functions;
use super::tokens::Tokens;
use super::types::{OBJECT, Type, field_of_message};
use crate::object::duration::seconds;
use crate::schema::go_regex;

/// A type error in an expression.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(crate) text: String,
    /// The offset of the mistake in the text, in bytes.
    pub(crate) place: usize,
}

/// Walks one expression.
pub(crate) struct Checker<'t, 'a> {
    tokens: &'t Tokens,
    seen: HashMap<String, usize>,
    variables: Vec<(String, Type<'a>)>,
    /// The variables that the expression names.
    pub(crate) named: BTreeSet<String>,
    /// The first constant pattern or duration that is invalid. Type errors come first.
    pub(crate) bad_constant: Option<Mistake>,
}

impl<'t, 'a> Checker<'t, 'a> {
    /// Returns a checker of an expression with these tokens and these types of its variables.
    pub(crate) fn new(tokens: &'t Tokens, variables: Vec<(String, Type<'a>)>) -> Self {
        Self {
            tokens,
            seen: HashMap::new(),
            variables,
            named: BTreeSet::new(),
            bad_constant: None,
        }
    }

    /// Returns the position of the next such token.
    fn place(&mut self, token: &str) -> usize {
        let seen = self.seen.entry(token.to_owned()).or_default();
        *seen += 1;
        self.tokens.nth(token, *seen)
    }

    /// Returns the type of an expression.
    ///
    /// # Errors
    /// The first mistake in it.
    pub(crate) fn check(&mut self, expression: &IdedExpr) -> Result<Type<'a>, Mistake> {
        match &expression.expr {
            Expr::Literal(literal) => Ok(literal_type(literal)),
            Expr::Ident(name) => self.name(name),
            Expr::Select(select) => {
                let operand = self.check(&select.operand)?;
                let place = self.tokens.before(self.place(&select.field), ".");
                operand
                    .member(&select.field)
                    .ok_or_else(|| Mistake {
                        text: match operand {
                            Type::Object(..)
                            | Type::Builtin(_)
                            | Type::Metadata
                            | Type::Fields(_) => {
                                format!("undefined field '{}'", select.field)
                            }
                            other => format!("type '{other}' does not support field selection"),
                        },
                        place,
                    })
                    .map(|of| if select.test { Type::Bool } else { of })
            }
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let mut of = Type::Dynamic;
                for element in &list.elements {
                    let element = self.check(element)?;
                    of = if of.takes(&element) {
                        of.or(element)
                    } else {
                        Type::Dynamic
                    };
                }
                Ok(Type::List(Box::new(of)))
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.check(&entry.key)?;
                        self.check(&entry.value)?;
                    }
                }
                Ok(Type::Map(Box::new(Type::Dynamic), Box::new(Type::Dynamic)))
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(of) => self.message(of),
            Expr::Unspecified => Ok(Type::Dynamic),
        }
    }

    /// Checks a message, whose name begins with that of a declared one.
    fn message(&mut self, of: &StructExpr) -> Result<Type<'a>, Mistake> {
        let name = of.type_name.trim_start_matches('.');
        let mut place = 0;
        for part in name.split('.') {
            place = self.place(part);
        }
        let root = name.split('.').next().unwrap_or_default();
        let is_declared = |(known, of): &(String, Type<'_>)| {
            known == root && matches!(of, Type::Message(_)) && (name == root || root == OBJECT)
        };
        if !self.variables.iter().any(is_declared) {
            let place = self.tokens.after(place, "{");
            let text = format!("undeclared reference to '{name}' (in container '')");
            return Err(Mistake { text, place });
        }
        for entry in &of.entries {
            let EntryExpr::StructField(field) = &entry.expr else {
                continue;
            };
            let place = self.tokens.after(self.place(&field.field), ":");
            let given = self.check(&field.value)?;
            let wanted = field_of_message(name, &field.field);
            let fits = wanted.as_ref().is_some_and(|of| of.takes(&given)) || field.optional;
            if !fits {
                let wanted = wanted.map_or_else(String::new, |of| of.to_string());
                let text = format!(
                    "expected type of field '{}' is '{wanted}' but provided type is '{given}'",
                    field.field
                );
                return Err(Mistake { text, place });
            }
        }
        Ok(Type::Message(name.to_owned()))
    }

    fn name(&mut self, name: &str) -> Result<Type<'a>, Mistake> {
        let is_made = name.starts_with(['@', '_']);
        let place = if is_made { 0 } else { self.place(name) };
        if let Some((_, of)) = self.variables.iter().rev().find(|(known, _)| known == name) {
            let of = of.clone();
            self.named.insert(name.to_owned());
            return Ok(of);
        }
        if functions::is_type_name(name) {
            return Ok(Type::Meta);
        }
        if is_made {
            return Ok(Type::Dynamic);
        }
        let text = format!("undeclared reference to '{name}' (in container '')");
        Err(Mistake { text, place })
    }

    fn comprehension(&mut self, of: &ComprehensionExpr) -> Result<Type<'a>, Mistake> {
        let range = self.check(&of.iter_range)?;
        let item = match range {
            Type::List(item) => *item,
            Type::Map(key, _) => *key,
            Type::Dynamic => Type::Dynamic,
            other => {
                let text = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, \
                     map, or dynamic)"
                );
                return Err(Mistake { text, place: 0 });
            }
        };
        // The variable is written once, before the expression that uses it.
        self.place(&of.iter_var);
        let accumulated = self.check(&of.accu_init)?;
        let before = self.variables.len();
        self.variables.push((of.iter_var.clone(), item));
        self.variables
            .push((of.accu_var.clone(), accumulated.clone()));
        let step = self.check(&of.loop_step)?;
        self.variables.truncate(before);
        self.variables
            .push((of.accu_var.clone(), accumulated.or(step)));
        let result = self.check(&of.result);
        self.variables.truncate(before);
        result
    }

    fn call(&mut self, call: &CallExpr) -> Result<Type<'a>, Mistake> {
        let name = call.func_name.as_str();
        if let Some(target) = &call.target {
            return self.member_call(call, target);
        }
        if let Some(sign) = functions::sign(name) {
            return self.operator(call, sign);
        }
        let place = match name.starts_with('@') {
            true => 0,
            false => self.tokens.after(self.place(name), "("),
        };
        let arguments = self.all(&call.args)?;
        self.check_duration(call, place);
        functions::result(name, None, &arguments).map_err(|text| Mistake { text, place })
    }

    fn member_call(&mut self, call: &CallExpr, target: &IdedExpr) -> Result<Type<'a>, Mistake> {
        let name = call.func_name.as_str();
        // A library's name before the function's: `math.abs(x)`.
        if let Expr::Ident(library) = &target.expr
            && !self.variables.iter().any(|(known, _)| known == library)
        {
            let qualified = format!("{library}.{name}");
            let place = self.tokens.after(self.place(name), "(");
            if functions::is_known(&qualified) {
                let arguments = self.all(&call.args)?;
                let result = functions::result(&qualified, None, &arguments);
                return result.map_err(|text| Mistake { text, place });
            }
            return self.check(target);
        }
        let this = self.check(target)?;
        let place = self.tokens.after(self.place(name), "(");
        let arguments = self.all(&call.args)?;
        self.check_pattern(call, place);
        functions::result(name, Some(&this), &arguments).map_err(|text| Mistake { text, place })
    }

    /// Checks a constant pattern of a call, whose arguments begin after a place.
    fn check_pattern(&mut self, call: &CallExpr, place: usize) {
        if let ("matches", [pattern]) = (call.func_name.as_str(), call.args.as_slice())
            && let Expr::Literal(LiteralValue::String(pattern)) = &pattern.expr
            && self.bad_constant.is_none()
            && go_regex::compile(pattern.inner()).is_err()
        {
            self.bad_constant = Some(Mistake {
                text: "invalid matches argument".to_owned(),
                place: self.tokens.next(place),
            });
        }
    }

    /// Checks a constant duration of a call, whose argument begins after a place.
    fn check_duration(&mut self, call: &CallExpr, place: usize) {
        if let ("duration", [given]) = (call.func_name.as_str(), call.args.as_slice())
            && let Expr::Literal(LiteralValue::String(text)) = &given.expr
            && self.bad_constant.is_none()
            && seconds(text.inner()).is_none()
        {
            self.bad_constant = Some(Mistake {
                text: "invalid duration argument".to_owned(),
                place: self.tokens.next(place),
            });
        }
    }

    fn all(&mut self, arguments: &[IdedExpr]) -> Result<Vec<Type<'a>>, Mistake> {
        arguments.iter().map(|of| self.check(of)).collect()
    }

    /// Checks an operator. Its position is between its operands, or before its only one.
    fn operator(&mut self, call: &CallExpr, sign: &str) -> Result<Type<'a>, Mistake> {
        let mut types = Vec::with_capacity(call.args.len());
        let mut place = 0;
        // Arguments that macros generate are not in the text.
        let is_written = !call.args.iter().any(is_made);
        for (at, argument) in call.args.iter().enumerate() {
            let is_before = call.args.len() == 1;
            if is_written && at == usize::from(!is_before) {
                place = self.place(sign);
            }
            if call.func_name == operators::OPT_SELECT && at == 1 {
                let Expr::Literal(LiteralValue::String(field)) = &argument.expr else {
                    return Ok(Type::Dynamic);
                };
                self.place(field.inner());
                let Some(of) = types
                    .first()
                    .and_then(|of: &Type<'a>| of.member(field.inner()))
                else {
                    let text = format!("undefined field '{}'", field.inner());
                    return Err(Mistake { text, place });
                };
                return Ok(match of {
                    Type::Optional(of) => Type::Optional(of),
                    of => Type::Optional(Box::new(of)),
                });
            }
            types.push(self.check(argument)?);
        }
        functions::operator(&call.func_name, &types).map_err(|text| Mistake { text, place })
    }
}

/// Returns whether an expression is a name that a macro generated.
fn is_made(expression: &IdedExpr) -> bool {
    matches!(&expression.expr, Expr::Ident(name) if name.starts_with(['@', '_']))
}

fn literal_type<'a>(literal: &LiteralValue) -> Type<'a> {
    match literal {
        LiteralValue::Boolean(_) => Type::Bool,
        LiteralValue::Bytes(_) => Type::Bytes,
        LiteralValue::Double(_) => Type::Double,
        LiteralValue::Int(_) => Type::Int,
        LiteralValue::Null => Type::Null,
        LiteralValue::String(_) => Type::Text,
        LiteralValue::UInt(_) => Type::Uint,
    }
}
