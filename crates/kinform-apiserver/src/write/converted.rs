//! Objects of a write between the version of its request and the one in which they are stored.
//!
//! ```text
//! stored object ──▶ object of the request's version      Outcome ──▶ Ready: the stored form, and the reply's
//! ```
//!
//! A conversion webhook is called before the commit in both directions, so that a write that it fails
//! stores nothing. Nothing is called, and nothing awaits, for a version that is stored.
//!
//! Upstream: `apiextensions-apiserver:pkg/apiserver/customresource_handler.go` (the codecs).

use std::sync::Arc;

use kinform_api::Status;
use serde_json::Value;

use super::attempt::Write;
use super::{Action, Answer, Context, Outcome, Ready};
use crate::budget::Meter;
use crate::conversion;
use crate::object::{at, metadata};
use crate::resource::Shape;
use crate::storage::Stored;

impl Write<'_> {
    /// Returns a stored object in the version of the request.
    ///
    /// # Errors
    /// 500 about the conversion webhook.
    pub(super) async fn current_value(&self, stored: &Arc<Stored>) -> Result<Value, Box<Status>> {
        let resource = &self.target.resource;
        if !resource.is_converted() {
            return Ok(resource.to_shown(stored.value(), &Meter::of_object()));
        }
        Ok(self.converted(stored).await?.value())
    }

    /// Returns a stored object in the version of the request, converted.
    ///
    /// # Errors
    /// 500 about the conversion webhook.
    pub(super) async fn converted(&self, stored: &Arc<Stored>) -> Result<Arc<Stored>, Box<Status>> {
        let (state, resource) = (self.state, &self.target.resource);
        // As upstream, a write begins from the cache, if that has this very object.
        match conversion::at_hand(state, resource, stored) {
            Some(known) => Ok(known),
            None => conversion::read(state, resource, stored).await,
        }
    }

    /// Brings the object of an outcome into its stored form.
    ///
    /// # Errors
    /// 500 about the conversion webhook.
    pub(super) async fn ready(&self, mut outcome: Outcome) -> Result<Ready, Box<Status>> {
        let (state, resource) = (self.state, &self.target.resource);
        if !resource.is_converted() {
            if let Action::Create(object) | Action::Replace(object) = &mut outcome.action {
                *object = resource.to_stored(object.take());
            }
            return Ok(outcome.into());
        }
        let dry_run = self.request.query.get("dryRun").is_some();
        match (&mut outcome.action, &mut outcome.answer) {
            (Action::Create(object) | Action::Replace(object), _) => {
                let (stored, shown) = conversion::stored(state, resource, object.take()).await?;
                *object = stored;
                Ok(Ready {
                    outcome,
                    shown: Some(shown),
                })
            }
            (Action::Nothing, Answer::Object(object))
                if dry_run && object.get("kind").is_none() =>
            {
                let (_, shown) = conversion::stored(state, resource, object.take()).await?;
                *object = shown;
                Ok(outcome.into())
            }
            _ => Ok(outcome.into()),
        }
    }

    /// Brings the outcome of a delete, whose object has its stored form, into the version of the
    /// request.
    ///
    /// # Errors
    /// 500 about the conversion webhook.
    pub(super) async fn ready_to_delete(
        &self,
        mut outcome: Outcome,
        current: Option<&Arc<Stored>>,
    ) -> Result<Ready, Box<Status>> {
        let (state, resource) = (self.state, &self.target.resource);
        let (Some(current), true) = (current, resource.is_converted()) else {
            if let Answer::Object(object) = &mut outcome.answer {
                *object = resource.to_shown(object.take(), &Meter::of_object());
            }
            return Ok(outcome.into());
        };
        let shown = conversion::read(state, resource, current).await?.value();
        let marked = |object: &Value| with_metadata_of(object, shown.clone());
        if let Answer::Object(object) = &mut outcome.answer {
            *object = marked(object);
        }
        let shown = match &outcome.action {
            Action::Replace(object) => Some(marked(object)),
            _ => None,
        };
        Ok(Ready { outcome, shown })
    }

    /// Converts the objects that ownership lacks in other versions. Returns whether there were some.
    ///
    /// # Errors
    /// 500 about the conversion webhook.
    pub(super) async fn convert_missing(&self, cx: &Context<'_>) -> Result<bool, Box<Status>> {
        let Some(versions) = cx.versions() else {
            return Ok(false);
        };
        let missing = versions.take_missing();
        let is_any = !missing.is_empty();
        for missing in missing {
            let to = missing.version.clone();
            let object = missing.object.clone();
            let converted = conversion::to_version(self.state, cx.resource, &to, object).await?;
            versions.know(missing, converted);
        }
        Ok(is_any)
    }

    /// Makes an update that changes nothing a write, if it brings the object into the version in which
    /// objects are stored now.
    pub(super) fn migrate(&self, outcome: &mut Outcome, current: Option<&Arc<Stored>>) {
        let Shape::Custom(custom) = &self.target.resource.shape else {
            return;
        };
        let dry_run = self.request.query.get("dryRun").is_some();
        let is_old = |stored: &Arc<Stored>| custom.stored.of(&stored.value()) != custom.stored.now;
        if custom.stored.is_only || dry_run || !current.is_some_and(is_old) {
            return;
        }
        if let (Action::Nothing, Answer::Object(object)) = (&outcome.action, &mut outcome.answer)
            && object.get("kind").is_none()
        {
            let mut object = object.take();
            metadata::of(&mut object).remove("resourceVersion");
            outcome.action = Action::Replace(object);
            outcome.answer = Answer::Stored;
        }
    }
}

/// Returns an object with the metadata of another one, but for its labels and annotations.
fn with_metadata_of(object: &Value, mut shown: Value) -> Value {
    let mut kept = at(object, &["metadata"]).cloned().unwrap_or_default();
    for member in ["labels", "annotations"] {
        match at(&shown, &["metadata", member]) {
            Some(value) => kept[member] = value.clone(),
            None => drop(kept.as_object_mut().and_then(|of| of.remove(member))),
        }
    }
    shown["metadata"] = kept;
    shown
}
