//! The patterns and rules of a schema, compiled once.
//!
//! ```text
//! schema -> Compiled { patterns, rules }
//! ```
//!
//! The schema is compiled when the first object is checked, and the result is kept until it
//! changes.
//!
//! Upstream: `kubernetes/apiextensions-apiserver:pkg/apiserver/customresource_handler.go` (`crdInfo`).

use serde_json::Value;

use super::rules::Rules;
use crate::budget::Meter;
use crate::schema::old_value::Before;
use crate::schema::patterns::Patterns;
use crate::schema::validate;
use crate::schema::validate::embedded;
use kinform_api::FieldError;

/// A schema's patterns and rules.
#[derive(Debug, Default)]
pub(crate) struct Compiled {
    pub(crate) patterns: Patterns,
    pub(crate) rules: Option<Rules>,
}

impl Compiled {
    /// Compiles the patterns and rules of the schema of a complete object.
    pub(crate) fn of(schema: &Value) -> Self {
        Self::with(schema, Rules::of(schema))
    }

    /// Compiles the patterns and rules of a part of a schema.
    pub(crate) fn of_part(schema: &Value) -> Self {
        Self::with(schema, Rules::of_part(schema))
    }

    fn with(schema: &Value, rules: Option<Rules>) -> Self {
        let mut patterns = Patterns::default();
        patterns.collect(schema);
        Self { patterns, rules }
    }

    /// Checks a value by a part of the schema.
    pub(crate) fn check(
        &self,
        schema: &Value,
        value: &Value,
        before: Before<'_>,
        meter: &Meter,
    ) -> Vec<FieldError> {
        let checker = validate::Checker {
            patterns: &self.patterns,
            meter,
        };
        checker.check(schema, value, "", before).errors
    }

    /// Validates a default of the schema; returns its errors.
    pub(crate) fn default_errors(
        &self,
        schema: &Value,
        default: &Value,
        path: &str,
    ) -> Vec<FieldError> {
        let mut errors = within(
            self.check(schema, default, Before::NOTHING, &Meter::endless()),
            path,
        );
        if errors.is_empty() {
            errors = within(embedded::errors(schema, default), path);
        }
        if let (true, Some(rules)) = (errors.is_empty(), &self.rules) {
            let said = rules.run_part(schema, default, path);
            errors.extend(said.errors);
        }
        errors
    }
}

/// Returns the errors of a part with paths below its path.
pub(crate) fn within(errors: Vec<FieldError>, path: &str) -> Vec<FieldError> {
    let place = |error: FieldError| match (path, error.field()) {
        ("<nil>", field) if !field.is_empty() => error,
        _ => error.within(path),
    };
    errors.into_iter().map(place).collect()
}
