//! Validation of content against definitions and schemas.
//!
//! ```text
//! custom object -> its schema    definition -> its checks    built-in -> warnings: builtin/validation has the errors
//! ```

use serde_json::Value;

use crate::budget::Meter;
use crate::builtin::warnings;
use crate::definition::{check, custom_object};
use crate::object::part::Part;
use crate::resource::{ResourceInfo, Shape};
use crate::schema::rules::Said;

/// Errors of an object against its definition and schema.
pub(crate) fn content(
    resource: &ResourceInfo,
    part: Part,
    (new, old): (&Value, Option<&Value>),
    meter: &Meter,
) -> Said {
    match (&resource.shape, old) {
        (Shape::Custom(custom), None) => custom_object::errors(custom, new, meter),
        (Shape::Custom(custom), Some(old)) => {
            custom_object::change(custom, part, (new, old), meter)
        }
        (Shape::Builtin(_), old) if !resource.is_definition() => Said {
            errors: Vec::new(),
            warnings: match part {
                Part::Main => warnings::warnings(resource, new, old),
                _ => Vec::new(),
            },
        },
        (_, _) if part == Part::Status => Said {
            errors: check::status_errors(new),
            warnings: Vec::new(),
        },
        (_, old) => Said {
            errors: check::errors(new, old, meter),
            warnings: check::warnings(new, old),
        },
    }
}
