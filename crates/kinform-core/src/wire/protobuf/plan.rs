//! The properties of a field that checks and readers need, in eight bytes: its form, its form in
//! JSON, the type in it.
//!
//! ```text
//! table of types ─▶ plans, made once ─▶ Plan of a type ─▶ [field number] ─▶ Step
//! ```
//!
//! The table has many more properties of a field, in several places. But the check of a list looks
//! up each field of each object, and so does a reader. A number that a type does not have has a
//! step, too: its value is neither validated nor shown.
//!
//! Upstream: the generated `Unmarshal` functions, in which this is code. Complexity: one read.

use std::fmt;
use std::sync::OnceLock;

use kinform_schema::{Container, Field, FieldType, Type, numbered_type};

/// The form of a value, which decides how it is validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Not validated: the type has no such field.
    Unknown,
    Text,
    Number,
    /// A message of the step's type.
    Message,
    Double,
    Bytes,
    /// A message with one text: a quantity, or texts that the table treats as one form.
    Texts,
    Time,
    IntOrString,
    /// A message with JSON in it.
    Json,
    SchemaOrBool,
    SchemaOrArray,
    SchemaOrTexts,
    /// An entry of a map.
    Entry,
}

/// The form of a value in JSON: as [`FieldType`], without the type in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// Null: the type has no such field, or no field of the table has its form.
    Nothing,
    Text,
    /// A message of the step's type.
    Message,
    Bool,
    Int32,
    Int64,
    Double,
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// A list of texts in a message.
    Texts,
    /// Any JSON, unchanged.
    Json,
    SchemaOrBool,
    SchemaOrArray,
    SchemaOrTexts,
}

/// The place of a field's value in the JSON of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stands {
    /// It is the value of a member.
    Alone,
    /// Its own members are members of the message.
    Inline,
    InList,
    InMap,
}

impl Stands {
    /// Returns whether there may be several values.
    #[inline(always)]
    pub(super) fn is_repeated(self) -> bool {
        matches!(self, Self::InList | Self::InMap)
    }
}

/// The values that Go's JSON omits, though protobuf has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeftOut {
    Never,
    /// Zero, false, the empty text.
    Zero,
    /// These, and a time that is null.
    ZeroOrNull,
}

/// The instructions for a field.
#[derive(Clone, Copy, Debug)]
#[repr(align(8))]
pub(crate) struct Step {
    /// The form of the value; of a list, of each element.
    pub(super) form: Form,
    /// The form of a map's values; otherwise equal to `form`.
    pub(super) inside: Form,
    /// The form in JSON; of a list or a map, of each value.
    pub(super) shown: Shown,
    pub(super) stands: Stands,
    pub(super) left_out: LeftOut,
    /// The position of the field in its type.
    pub(super) position: u8,
    /// The number of the message's type.
    pub(super) of: u16,
}

/// The step of a number that the type does not have: it may repeat, with any wire type.
pub(super) const UNKNOWN: Step = Step {
    form: Form::Unknown,
    inside: Form::Unknown,
    shown: Shown::Nothing,
    stands: Stands::InList,
    left_out: LeftOut::Never,
    position: 0,
    of: 0,
};

/// The steps of a type.
pub(crate) struct Plan {
    /// Indexed by the number of the field.
    steps: Box<[Step]>,
    fields: &'static [Field],
    /// The positions of the fields that are null in JSON if they are absent in protobuf.
    // INVARIANT: a type has no more than 64 fields.
    pub(super) nulls: u64,
    pub(super) of: &'static Type,
}

impl Plan {
    /// Returns the plan of a type. All types are in the table.
    pub(crate) fn of(of: &Type) -> &'static Self {
        &plans().0[usize::from(of.number())]
    }

    fn new(of: &'static Type) -> Self {
        let most = of.fields_by_number().next_back().map_or(0, Field::number);
        Self {
            steps: (0..=most).map(|number| step(of, number)).collect(),
            fields: of.fields(),
            nulls: of
                .nulls()
                .iter()
                .fold(0, |nulls, at| nulls | 1 << (at % 64)),
            of,
        }
    }

    /// Returns the step of a field's number; `None` if it is larger than those of the type.
    #[inline(always)]
    pub(super) fn step(&self, number: u64) -> Option<Step> {
        self.steps.get(usize::try_from(number).ok()?).copied()
    }

    /// Returns the JSON name of the field at a position.
    #[inline(always)]
    pub(super) fn name(&self, position: u8) -> Option<&'static str> {
        self.fields.get(usize::from(position)).map(Field::name)
    }
}

/// Prints the name only.
impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.of)
    }
}

/// The plans of all types.
#[derive(Debug)]
pub(super) struct Plans(Vec<Plan>);

/// Returns the plans; the first call makes them.
#[inline]
pub(super) fn plans() -> &'static Plans {
    static PLANS: OnceLock<Plans> = OnceLock::new();
    PLANS.get_or_init(Plans::new)
}

impl Plans {
    #[cold]
    fn new() -> Self {
        let types = (0..=u16::MAX).map_while(numbered_type);
        Self(types.map(Plan::new).collect())
    }

    /// Returns the plan of a [number](Type::number); `None` if there is no such type.
    #[inline(always)]
    pub(super) fn plan(&self, of: u16) -> Option<&Plan> {
        self.0.get(usize::from(of))
    }

    /// Returns the steps of a type, indexed by the number of the field.
    #[inline(always)]
    pub(super) fn steps(&self, of: u16) -> &[Step] {
        match self.plan(of) {
            Some(plan) => &plan.steps,
            None => &[],
        }
    }
}

fn step(of: &Type, number: u32) -> Step {
    let Some(field) = of.field_by_number(number) else {
        return UNKNOWN;
    };
    let inside = form(field.field_type());
    let stands = match field.container() {
        Container::Single if field.is_inline() => Stands::Inline,
        Container::Single => Stands::Alone,
        Container::List => Stands::InList,
        Container::Map => Stands::InMap,
    };
    Step {
        form: match stands {
            Stands::InMap => Form::Entry,
            _ => inside,
        },
        inside,
        shown: shown(field.field_type()),
        stands,
        left_out: left_out(field),
        position: of.position(number).unwrap_or_default() as u8,
        of: field.message().map_or(0, Type::number),
    }
}

fn left_out(field: &Field) -> LeftOut {
    if field.is_pointer() || !field.omits_empty() {
        return LeftOut::Never;
    }
    match field.field_type() {
        // In Go these are structs, which are never empty.
        FieldType::IntOrString => LeftOut::Never,
        FieldType::Time | FieldType::MicroTime if field.omits_zero() => LeftOut::ZeroOrNull,
        _ => LeftOut::Zero,
    }
}

fn shown(of: FieldType) -> Shown {
    match of {
        FieldType::String => Shown::Text,
        FieldType::Bool => Shown::Bool,
        FieldType::Int32 => Shown::Int32,
        FieldType::Int64 => Shown::Int64,
        FieldType::Double => Shown::Double,
        FieldType::Bytes => Shown::Bytes,
        FieldType::Strings => Shown::Texts,
        FieldType::Time => Shown::Time,
        FieldType::MicroTime => Shown::MicroTime,
        FieldType::Quantity => Shown::Quantity,
        FieldType::IntOrString => Shown::IntOrString,
        FieldType::FieldsV1 | FieldType::RawExtension | FieldType::Json => Shown::Json,
        FieldType::JsonSchemaPropsOrBool => Shown::SchemaOrBool,
        FieldType::JsonSchemaPropsOrArray => Shown::SchemaOrArray,
        FieldType::JsonSchemaPropsOrStringArray => Shown::SchemaOrTexts,
        FieldType::Message(_) => Shown::Message,
        _ => Shown::Nothing,
    }
}

fn form(of: FieldType) -> Form {
    match of {
        FieldType::String => Form::Text,
        FieldType::Bool | FieldType::Int32 | FieldType::Int64 => Form::Number,
        FieldType::Message(_) => Form::Message,
        FieldType::Double => Form::Double,
        FieldType::Quantity | FieldType::Strings => Form::Texts,
        FieldType::Time | FieldType::MicroTime => Form::Time,
        FieldType::IntOrString => Form::IntOrString,
        FieldType::FieldsV1 | FieldType::RawExtension | FieldType::Json => Form::Json,
        FieldType::JsonSchemaPropsOrBool => Form::SchemaOrBool,
        FieldType::JsonSchemaPropsOrArray => Form::SchemaOrArray,
        FieldType::JsonSchemaPropsOrStringArray => Form::SchemaOrTexts,
        _ => Form::Bytes,
    }
}

#[cfg(test)]
mod tests {
    use kinform_schema::builtin;

    use super::*;

    #[test]
    fn each_type_has_a_step_for_each_of_its_fields_and_nothing_else() {
        assert!(size_of::<Step>() <= 8);
        let mut number = 0;
        while let Some(of) = numbered_type(number) {
            let steps = plans().steps(number);
            for (at, step) in steps.iter().enumerate() {
                let field = of.field_by_number(at as u32);
                assert_eq!(step.form == Form::Unknown, field.is_none(), "{of:?} {at}");
                let is_map = field.is_some_and(|field| field.container() == Container::Map);
                assert_eq!(step.form == Form::Entry, is_map, "{of:?} {at}");
                let message = field.and_then(Field::message);
                assert_eq!(
                    step.inside == Form::Message,
                    message.is_some(),
                    "{of:?} {at}"
                );
                assert_eq!(step.of, message.map_or(0, Type::number), "{of:?} {at}");
            }
            for field in of.fields() {
                let step = steps[field.number() as usize];
                let stands = match (field.container(), field.is_inline()) {
                    (Container::Single, false) => Stands::Alone,
                    (Container::Single, true) => Stands::Inline,
                    (Container::List, _) => Stands::InList,
                    (Container::Map, _) => Stands::InMap,
                };
                assert_eq!(step.stands, stands, "{of:?} {}", field.name());
                let plan = Plan::of(of);
                assert_eq!(plan.name(step.position), Some(field.name()), "{of:?}");
                let is_null = of.nulls().contains(&step.position);
                assert_eq!(plan.nulls >> step.position & 1 == 1, is_null, "{of:?}");
                let is_message = step.shown == Shown::Message;
                assert_eq!(is_message, field.message().is_some(), "{of:?}");
                assert!(is_message || stands != Stands::Inline, "{of:?}");
            }
            assert!(of.fields().len() <= 64, "{of:?}");
            number += 1;
        }
        assert!(number > 500 && plans().steps(number).is_empty());
    }

    #[test]
    fn what_go_leaves_out_is_what_its_tags_say() {
        let check = |kind: &str, path: &str, left_out: LeftOut, is_null: bool| {
            let (mut of, mut last) = (builtin("", "v1", kind).unwrap(), None);
            for name in path.split('.') {
                of = last.and_then(Field::message).unwrap_or(of);
                last = of.field(name);
            }
            let field = last.unwrap();
            let step = Plan::of(of).step(field.number().into()).unwrap();
            assert_eq!(step.left_out, left_out, "{kind}.{path}");
            let nulls = Plan::of(of).nulls >> step.position & 1 == 1;
            assert_eq!(nulls, is_null, "{kind}.{path}");
        };
        check("Pod", "metadata.name", LeftOut::Zero, false);
        check(
            "Pod",
            "metadata.creationTimestamp",
            LeftOut::ZeroOrNull,
            false,
        );
        check("Pod", "metadata.deletionTimestamp", LeftOut::Never, false);
        check("Pod", "spec.containers", LeftOut::Never, true);
        check("Pod", "spec.containers.name", LeftOut::Never, false);
        check("Pod", "spec.priority", LeftOut::Never, false);
        check("Pod", "spec.hostNetwork", LeftOut::Zero, false);
        check("Pod", "status.conditions.status", LeftOut::Never, false);
        check(
            "Pod",
            "status.conditions.lastProbeTime",
            LeftOut::Zero,
            true,
        );
        check("Service", "spec.ports.targetPort", LeftOut::Never, false);
    }
}
