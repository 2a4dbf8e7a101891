//! What a check wants to know of a field, in eight bytes: its form, its container, the type of what is in it.
//!
//! ```text
//! table of types ─▶ plans, made once ─▶ steps(type) ─▶ [field number] ─▶ Step
//! ```
//!
//! The table tells much more of a field, in several places; the check of a list asks for each field of each object.
//! A number that a type does not have is a step like others: nothing is to be checked of it.
//!
//! Upstream: the generated `Unmarshal` functions, in which all this is code. Complexity: one read.

use std::sync::OnceLock;

use kinform_schema::{Container, Field, FieldType, Type, numbered_type};

/// What is to be checked of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Nothing: the type has no such field.
    Unknown,
    Text,
    Number,
    /// Of the step's type.
    Message,
    Double,
    Bytes,
    /// A message with one text: a quantity, or texts that the table has as one form.
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

/// What is to be checked of a field.
#[derive(Clone, Copy, Debug)]
#[repr(align(8))]
pub(super) struct Step {
    /// Of a list: of each element.
    pub(super) form: Form,
    /// Of a map: of its values; else the same.
    pub(super) inside: Form,
    pub(super) container: Container,
    /// The number of the message's type.
    pub(super) of: u16,
}

/// Of a number that the type does not have: it may come again, and in any wire type.
pub(super) const UNKNOWN: Step = Step {
    form: Form::Unknown,
    inside: Form::Unknown,
    container: Container::List,
    of: 0,
};

/// The steps of all types.
#[derive(Debug)]
pub(super) struct Plans(Vec<Box<[Step]>>);

/// The plans; the first call makes them.
#[inline]
pub(super) fn plans() -> &'static Plans {
    static PLANS: OnceLock<Plans> = OnceLock::new();
    PLANS.get_or_init(Plans::new)
}

impl Plans {
    #[cold]
    fn new() -> Self {
        let types = (0..=u16::MAX).map_while(numbered_type);
        let plans = types.map(|of| {
            let most = of.fields_by_number().next_back().map_or(0, Field::number);
            (0..=most).map(|number| step(of, number)).collect()
        });
        Self(plans.collect())
    }

    /// The steps of a type, by the number of the field.
    #[inline(always)]
    pub(super) fn steps(&self, of: u16) -> &[Step] {
        match self.0.get(usize::from(of)) {
            Some(steps) => steps,
            None => &[],
        }
    }
}

fn step(of: &Type, number: u32) -> Step {
    let Some(field) = of.field_by_number(number) else {
        return UNKNOWN;
    };
    let inside = form(field.field_type());
    let container = field.container();
    Step {
        form: match container {
            Container::Map => Form::Entry,
            Container::Single | Container::List => inside,
        },
        inside,
        container,
        of: field.message().map_or(0, Type::number),
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
                assert_eq!(step.container, field.container(), "{of:?} {}", field.name());
            }
            number += 1;
        }
        assert!(number > 500 && plans().steps(number).is_empty());
    }
}
