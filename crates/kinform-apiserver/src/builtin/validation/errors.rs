//! The errors that a validation has found, within its bounds.
//!
//! ```text
//! checks ──push──▶ Errors { at most 1,000, names of a list, the request's meter } ──found──▶ [FieldError]
//! ```
//!
//! An object that is invalid is refused whatever the rest of it is, so checks stop at the bound, or
//! when the request is late. The writer of a late request gets a timeout, not these errors.
//!
//! Upstream: none; there, all errors are collected.

use std::collections::HashSet;
use std::rc::Rc;

use kinform_api::FieldError;
use serde_json::Value;

use crate::budget::Meter;
use crate::object::metadata::MOST_ERRORS;
use crate::object::text;

/// The errors found so far.
#[derive(Debug)]
pub(super) struct Errors<'m> {
    // BOUND: `MOST_ERRORS`.
    list: Vec<FieldError>,
    meter: &'m Meter,
    /// The names of the items of the list that was looked into last. Many parts of an object refer
    /// to the same list.
    names: Option<(*const Value, Rc<HashSet<String>>)>,
    /// The names of those volumes of the last list that are claims.
    claims: Option<(*const Value, Rc<HashSet<String>>)>,
}

impl<'m> Errors<'m> {
    pub(super) fn new(meter: &'m Meter) -> Self {
        Self {
            list: Vec::new(),
            meter,
            names: None,
            claims: None,
        }
    }

    /// Returns an empty list for a part that is checked by itself.
    pub(super) fn apart(&self) -> Self {
        Self::new(self.meter)
    }

    pub(super) fn push(&mut self, error: FieldError) {
        if self.list.len() < MOST_ERRORS {
            self.list.push(error);
        }
    }

    pub(super) fn extend(&mut self, errors: impl IntoIterator<Item = FieldError>) {
        let room = MOST_ERRORS - self.list.len();
        self.list.extend(errors.into_iter().take(room));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Counts a step. Returns whether the checks end here.
    pub(super) fn is_over(&self) -> bool {
        self.list.len() >= MOST_ERRORS || !self.meter.step(1)
    }

    /// Returns the names of the items of a list.
    pub(super) fn names_in(&mut self, list: Option<&Value>) -> Rc<HashSet<String>> {
        known(&mut self.names, list, |_| true)
    }

    /// Returns the names of those volumes in a list whose source is a claim.
    pub(super) fn claims_in(&mut self, list: Option<&Value>) -> Rc<HashSet<String>> {
        let sources = ["persistentVolumeClaim", "ephemeral"];
        known(&mut self.claims, list, |volume| {
            sources.iter().any(|name| volume.get(name).is_some())
        })
    }

    pub(super) fn found(self) -> Vec<FieldError> {
        self.list
    }
}

/// Returns the names of a list's items, read once.
fn known(
    last: &mut Option<(*const Value, Rc<HashSet<String>>)>,
    list: Option<&Value>,
    is_meant: impl Fn(&Value) -> bool,
) -> Rc<HashSet<String>> {
    let Some(list) = list else {
        return Rc::default();
    };
    // The address identifies the list: the object is borrowed until its validation ends.
    let address = std::ptr::from_ref(list);
    if let Some((known, names)) = last
        && *known == address
    {
        return names.clone();
    }
    let items = list.as_array().into_iter().flatten();
    let names = items.filter(|item| is_meant(item));
    let names = names.map(|item| text(item, &["name"]).to_owned());
    let names: Rc<HashSet<String>> = Rc::new(names.collect());
    *last = Some((address, names.clone()));
    names
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::budget::Deadline;
    use crate::clock;

    #[tokio::test]
    async fn a_validation_whose_server_stops_ends_early() {
        let of = kinform_schema::builtin("", "v1", "Pod").unwrap();
        let container = json!({"image": "x", "terminationMessagePolicy": "File",
            "imagePullPolicy": "Always"});
        let pod = json!({"spec": {"containers": vec![container; 900]}});
        let stopping = CancellationToken::new();
        stopping.cancel();
        let stopped = Meter::until(Deadline {
            at: clock::instant() + Duration::from_secs(60),
            stopping,
        });
        let found = |meter: &Meter| super::super::errors(of, &pod, meter).len();
        let all = found(&Meter::endless());
        assert!(found(&stopped) < all, "{all}");
        assert_eq!(stopped.check().unwrap_err().code, 504);
    }

    #[test]
    fn errors_are_bounded_and_names_are_read_once() {
        let meter = Meter::endless();
        let mut errors = Errors::new(&meter);
        errors.extend((0..5 * MOST_ERRORS).map(|_| FieldError::required("a", "")));
        errors.push(FieldError::required("a", ""));
        assert!(errors.is_over());
        let lists = [json!([{"name": "a"}, {}]), json!([{"name": "b"}])];
        let names = errors.names_in(Some(&lists[0]));
        assert!(names.contains("a") && names.contains(""));
        assert!(Rc::ptr_eq(&names, &errors.names_in(Some(&lists[0]))));
        assert!(!errors.names_in(Some(&lists[1])).contains("a"));
        assert!(errors.names_in(None).is_empty());
        assert_eq!(errors.found().len(), MOST_ERRORS);
    }
}
