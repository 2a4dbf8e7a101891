//! The operators and functions of rules: their names, parameter types and result types.
//!
//! ```text
//! name + types of its arguments -> type of the result | no such function, no such overload
//! ```
//!
//! Upstream: `cel-go:checker/decls`, `kubernetes/apiserver:pkg/cel/library`.

use kube_cel::cel::common::ast::operators;

use super::types::{AUTHORIZER, DECISION, GROUP_CHECK, PATH_CHECK, RESOURCE_CHECK, Type};

/// Functions whose result type is known only when the rule runs, or that are checked when they run.
const LOOSE: [&str; 92] = [
    "add",
    "asApproximateFloat",
    "asInteger",
    "base64.decode",
    "base64.encode",
    "cidr",
    "compareTo",
    "containsCIDR",
    "containsIP",
    "distinct",
    "first",
    "flatten",
    "format",
    "format.byte",
    "format.date",
    "format.datetime",
    "format.dns1035Label",
    "format.dns1035LabelPrefix",
    "format.dns1123Label",
    "format.dns1123LabelPrefix",
    "format.dns1123Subdomain",
    "format.dns1123SubdomainPrefix",
    "format.labelValue",
    "format.named",
    "format.qualifiedName",
    "format.uri",
    "format.uuid",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getEscapedPath",
    "getFullYear",
    "getHost",
    "getHostname",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getPort",
    "getQuery",
    "getScheme",
    "getSeconds",
    "indexOf",
    "ip",
    "isSorted",
    "jsonpatch.escapeKey",
    "last",
    "lastIndexOf",
    "lists.range",
    "masked",
    "math.abs",
    "math.bitAnd",
    "math.bitNot",
    "math.bitOr",
    "math.bitShiftLeft",
    "math.bitShiftRight",
    "math.bitXor",
    "math.ceil",
    "math.floor",
    "math.greatest",
    "math.isFinite",
    "math.isInf",
    "math.isNaN",
    "math.least",
    "math.round",
    "math.sign",
    "math.sqrt",
    "math.trunc",
    "max",
    "min",
    "optional.none",
    "optional.of",
    "optional.ofNonZeroValue",
    "or",
    "prefixLength",
    "quantity",
    "reverse",
    "semver",
    "slice",
    "sort",
    "strings.quote",
    "sub",
    "sum",
    "validate",
    "value",
    "orValue",
    "bytes",
    "dyn",
    "major",
    "minor",
    "patch",
];
/// Functions that return a boolean.
const QUESTIONS: [&str; 26] = [
    "hasValue",
    "ip.isCanonical",
    "isCIDR",
    "isCIDRv4",
    "isCIDRv6",
    "isGlobalUnicast",
    "isGreaterThan",
    "isIP",
    "isIPv4",
    "isIPv6",
    "isInteger",
    "isLessThan",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isLoopback",
    "isQuantity",
    "isSemver",
    "isURL",
    "isUnspecified",
    "sets.contains",
    "sets.equivalent",
    "sets.intersects",
    "@not_strictly_false",
    "isSorted",
    "contains",
    "matches",
];
/// Functions of the authorizer: name, type of its owner, number of texts, type of the result.
const AUTHORIZATION: [(&str, &str, usize, Type<'static>); 15] = [
    ("path", AUTHORIZER, 1, Type::Library(PATH_CHECK)),
    ("group", AUTHORIZER, 1, Type::Library(GROUP_CHECK)),
    ("serviceAccount", AUTHORIZER, 2, Type::Library(AUTHORIZER)),
    ("resource", GROUP_CHECK, 1, Type::Library(RESOURCE_CHECK)),
    (
        "subresource",
        RESOURCE_CHECK,
        1,
        Type::Library(RESOURCE_CHECK),
    ),
    (
        "namespace",
        RESOURCE_CHECK,
        1,
        Type::Library(RESOURCE_CHECK),
    ),
    ("name", RESOURCE_CHECK, 1, Type::Library(RESOURCE_CHECK)),
    (
        "fieldSelector",
        RESOURCE_CHECK,
        1,
        Type::Library(RESOURCE_CHECK),
    ),
    (
        "labelSelector",
        RESOURCE_CHECK,
        1,
        Type::Library(RESOURCE_CHECK),
    ),
    ("check", PATH_CHECK, 1, Type::Library(DECISION)),
    ("check", RESOURCE_CHECK, 1, Type::Library(DECISION)),
    ("allowed", DECISION, 0, Type::Bool),
    ("errored", DECISION, 0, Type::Bool),
    ("reason", DECISION, 0, Type::Text),
    ("error", DECISION, 0, Type::Text),
];
/// Functions of texts with one text as their argument.
const TEXT_QUESTIONS: [&str; 4] = ["startsWith", "endsWith", "contains", "matches"];
/// Functions that return a text.
const TEXT_MAKERS: [&str; 9] = [
    "charAt",
    "lowerAscii",
    "upperAscii",
    "replace",
    "substring",
    "trim",
    "join",
    "find",
    "string",
];

/// Returns whether there is a function of this name.
pub(crate) fn is_known(name: &str) -> bool {
    AUTHORIZATION.iter().any(|(known, ..)| *known == name)
        || LOOSE.contains(&name)
        || QUESTIONS.contains(&name)
        || TEXT_QUESTIONS.contains(&name)
        || TEXT_MAKERS.contains(&name)
        || matches!(
            name,
            "size"
                | "int"
                | "uint"
                | "double"
                | "bool"
                | "duration"
                | "timestamp"
                | "type"
                | "url"
                | "split"
                | "findAll"
                | "family"
                | "sign"
        )
}

/// Returns whether a name is the name of a type.
pub(crate) fn is_type_name(name: &str) -> bool {
    TYPE_NAMES.contains(&name)
}

/// The names of types that a rule may compare with.
pub(crate) const TYPE_NAMES: [&str; 10] = [
    "int",
    "uint",
    "double",
    "bool",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
];

/// Returns the sign of an operator, or `None` if the name is not an operator's.
pub(crate) fn sign(name: &str) -> Option<&'static str> {
    Some(match name {
        operators::CONDITIONAL => "?",
        operators::LOGICAL_AND => "&&",
        operators::LOGICAL_OR => "||",
        operators::LOGICAL_NOT => "!",
        operators::SUBSTRACT | operators::NEGATE => "-",
        operators::ADD => "+",
        operators::MULTIPLY => "*",
        operators::DIVIDE => "/",
        operators::MODULO => "%",
        operators::EQUALS => "==",
        operators::NOT_EQUALS => "!=",
        operators::GREATER_EQUALS => ">=",
        operators::LESS_EQUALS => "<=",
        operators::GREATER => ">",
        operators::LESS => "<",
        operators::INDEX => "[",
        operators::OPT_INDEX => "[?",
        operators::OPT_SELECT => "?.",
        operators::IN => "in",
        _ => return None,
    })
}

fn list(types: &[Type<'_>]) -> String {
    let texts: Vec<String> = types.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

/// Returns the type of an operator's result.
///
/// # Errors
/// There is no such operator for these values.
pub(crate) fn operator<'a>(name: &str, types: &[Type<'a>]) -> Result<Type<'a>, String> {
    let given = match (name, types) {
        (operators::CONDITIONAL, [condition, then, otherwise]) => (Type::Bool.takes(condition)
            && then.takes(otherwise))
        .then(|| then.clone().or(otherwise.clone())),
        (operators::LOGICAL_AND | operators::LOGICAL_OR, _) | (operators::LOGICAL_NOT, [_]) => {
            types
                .iter()
                .all(|of| Type::Bool.takes(of))
                .then_some(Type::Bool)
        }
        (operators::NEGATE, [of]) => of.is_number().then(|| of.clone()),
        (operators::EQUALS | operators::NOT_EQUALS, [a, b]) => a.takes(b).then_some(Type::Bool),
        (
            operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS,
            [a, b],
        ) => is_ordered(a, b).then_some(Type::Bool),
        (operators::ADD, [a, b]) => sum(a, b),
        (operators::SUBSTRACT, [a, b]) => difference(a, b),
        (operators::MULTIPLY | operators::DIVIDE, [a, b]) => {
            (a.is_number() && a.takes(b)).then(|| a.clone().or(b.clone()))
        }
        (operators::MODULO, [a, b]) => {
            let whole = matches!(a, Type::Int | Type::Uint | Type::Dynamic);
            (whole && a.takes(b)).then(|| a.clone().or(b.clone()))
        }
        (operators::IN, [item, within]) => match within {
            Type::List(of) => of.takes(item),
            Type::Map(key, _) => key.takes(item),
            Type::Dynamic => true,
            _ => false,
        }
        .then_some(Type::Bool),
        (operators::INDEX | operators::OPT_INDEX, [of, at]) => {
            index(of, at).map(|found| match name {
                operators::OPT_INDEX => Type::Optional(Box::new(found)),
                _ => found,
            })
        }
        _ => Some(Type::Dynamic),
    };
    given.ok_or_else(|| no_overload(name, &format!("({})", list(types))))
}

fn no_overload(name: &str, given: &str) -> String {
    format!("found no matching overload for '{name}' applied to '{given}'")
}

fn is_ordered(a: &Type<'_>, b: &Type<'_>) -> bool {
    let comparable = |of: &Type<'_>| {
        of.is_number()
            || matches!(
                of,
                Type::Bool | Type::Text | Type::Bytes | Type::Duration | Type::Timestamp
            )
    };
    // Numbers of different types may be compared.
    comparable(a) && comparable(b) && (a.takes(b) || (a.is_number() && b.is_number()))
}

fn sum<'a>(a: &Type<'a>, b: &Type<'a>) -> Option<Type<'a>> {
    Some(match (a, b) {
        (Type::Timestamp, Type::Duration) | (Type::Duration, Type::Timestamp) => Type::Timestamp,
        (Type::Timestamp, Type::Timestamp) | (Type::Bool, Type::Bool) => return None,
        (Type::Map(..) | Type::Object(..), _) | (_, Type::Map(..) | Type::Object(..)) => {
            return None;
        }
        (a, b) if a.takes(b) => a.clone().or(b.clone()),
        _ => return None,
    })
}

fn difference<'a>(a: &Type<'a>, b: &Type<'a>) -> Option<Type<'a>> {
    Some(match (a, b) {
        (Type::Timestamp, Type::Timestamp) | (Type::Duration, Type::Duration) => Type::Duration,
        (Type::Timestamp, Type::Duration) => Type::Timestamp,
        (a, b) if a.is_number() && a.takes(b) => a.clone().or(b.clone()),
        (Type::Timestamp | Type::Duration, Type::Dynamic) => Type::Dynamic,
        _ => return None,
    })
}

fn index<'a>(of: &Type<'a>, at: &Type<'a>) -> Option<Type<'a>> {
    match of {
        Type::List(item) => Type::Int.takes(at).then(|| (**item).clone()),
        Type::Map(key, item) => key.takes(at).then(|| (**item).clone()),
        Type::Optional(inner) => index(inner, at),
        Type::Dynamic => Some(Type::Dynamic),
        _ => None,
    }
}

/// Returns the type of a result of the authorizer's functions.
fn authorization(
    name: &str,
    this: Option<&Type<'_>>,
    arguments: &[Type<'_>],
) -> Option<Type<'static>> {
    let fits = |(known, owner, texts, _): &&(&str, &str, usize, Type<'static>)| {
        let fits_owner = match this {
            Some(Type::Library(of)) => of == owner,
            Some(Type::Dynamic) => true,
            _ => false,
        };
        let are_texts = || arguments.iter().all(|argument| Type::Text.takes(argument));
        *known == name && fits_owner && arguments.len() == *texts && are_texts()
    };
    AUTHORIZATION.iter().find(fits).map(|(.., of)| of.clone())
}

/// Returns the type of a conversion's result.
fn converted<'a>(name: &str, all: &[&Type<'a>]) -> Option<Type<'a>> {
    match (name, all) {
        ("int" | "family" | "sign", [_, ..]) => Some(Type::Int),
        ("uint", [_]) => Some(Type::Uint),
        ("double", [_]) => Some(Type::Double),
        ("bool", [_]) => Some(Type::Bool),
        ("duration", [of]) => {
            let fits = matches!(of, Type::Text | Type::Duration | Type::Dynamic);
            fits.then_some(Type::Duration)
        }
        ("timestamp", [of]) => {
            let fits = matches!(of, Type::Text | Type::Int | Type::Timestamp | Type::Dynamic);
            fits.then_some(Type::Timestamp)
        }
        ("type", [_]) => Some(Type::Meta),
        _ => None,
    }
}

/// Returns the type of a function's result.
///
/// # Errors
/// There is no such function, or it has no overload for these types.
pub(crate) fn result<'a>(
    name: &str,
    this: Option<&Type<'a>>,
    arguments: &[Type<'a>],
) -> Result<Type<'a>, String> {
    if !is_known(name) {
        return Err(format!(
            "undeclared reference to '{name}' (in container '')"
        ));
    }
    let given = match this {
        Some(this) => format!("{this}.({})", list(arguments)),
        None => format!("({})", list(arguments)),
    };
    let all: Vec<&Type<'a>> = this.into_iter().chain(arguments).collect();
    let fits = match (name, all.as_slice()) {
        (name, _) if AUTHORIZATION.iter().any(|(known, ..)| *known == name) => {
            authorization(name, this, arguments)
        }
        ("size", [of]) => {
            let sized = matches!(
                of,
                Type::Text | Type::Bytes | Type::List(_) | Type::Map(..) | Type::Dynamic
            );
            sized.then_some(Type::Int)
        }
        ("size", _) => None,
        ("contains", [Type::List(_) | Type::Library(_), _]) => Some(Type::Bool),
        (name, all) if TEXT_QUESTIONS.contains(&name) => {
            let [this, argument] = all else {
                return Err(no_overload(name, &given));
            };
            (Type::Text.takes(this) && Type::Text.takes(argument)).then_some(Type::Bool)
        }
        ("hasValue", [of]) => matches!(of, Type::Optional(_) | Type::Dynamic).then_some(Type::Bool),
        ("value", [Type::Optional(of)]) => Some((**of).clone()),
        ("value", [of]) => matches!(of, Type::Dynamic).then_some(Type::Dynamic),
        ("orValue", [Type::Optional(of), other]) => {
            of.takes(other).then(|| (**of).clone().or((*other).clone()))
        }
        ("optional.of" | "optional.ofNonZeroValue", [of]) => {
            Some(Type::Optional(Box::new((*of).clone())))
        }
        ("optional.none", []) => Some(Type::Optional(Box::new(Type::Dynamic))),
        (
            "int" | "family" | "sign" | "uint" | "double" | "bool" | "duration" | "timestamp"
            | "type",
            all,
        ) => converted(name, all),
        ("split" | "findAll", [_, _, ..]) => Some(Type::List(Box::new(Type::Text))),
        ("isSorted", [_]) => Some(Type::Bool),
        ("url", [of]) => Type::Text
            .takes(of)
            .then_some(Type::Library("kubernetes.URL")),
        ("quantity", [of]) => Type::Text
            .takes(of)
            .then_some(Type::Library("kubernetes.Quantity")),
        ("cidr", [of]) => Type::Text.takes(of).then_some(Type::Library("net.CIDR")),
        (name, [_, ..]) if QUESTIONS.contains(&name) => Some(Type::Bool),
        (name, [_, ..]) if TEXT_MAKERS.contains(&name) => Some(Type::Text),
        (name, [_, ..]) if LOOSE.contains(&name) => Some(Type::Dynamic),
        _ => None,
    };
    fits.ok_or_else(|| no_overload(name, &given))
}
