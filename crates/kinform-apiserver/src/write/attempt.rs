//! A write request under way: the context of each attempt, and the commit.
//!
//! ```text
//! state + target + part + form + user -> context of a try, stored state -> Outcome -> commit -> Written
//! ```

use super::options::{DeleteOptions, WriteOptions};
use super::request::WriteRequest;
use super::{Action, Answer, Context, Fresh, NamespaceState, Ready};
use crate::builtin::deletion;
use crate::builtin::names;
use crate::builtin::service_addresses::Taken;
use crate::encode::table::Table;
use crate::encode::{object_reply, shown_reply};
use crate::http::body::Body;
use crate::http::negotiate::{self, Form, Look};
use crate::http::reply;
use crate::http::route::Target;
use crate::object::metadata;
use crate::object::part::Part;
use crate::ownership::scale;
use crate::random;
use crate::state::State;
use crate::storage::{Draft, Expect, Stored};
use crate::write::commit::Written;
use crate::write::namespace_state;
use http::{Response, StatusCode};
use kinform_api::Status;
use serde_json::{Value, json};
use std::sync::Arc;

/// A request under way.
#[derive(Debug)]
pub(super) struct Write<'a> {
    pub(super) state: &'a State,
    pub(super) target: &'a Target,
    pub(super) part: Part,
    pub(super) form: Form,
    pub(super) request: &'a WriteRequest<'a>,
}

impl Write<'_> {
    /// The context of one attempt.
    pub(super) fn context<'a>(&'a self, options: &'a WriteOptions, fresh: Fresh) -> Context<'a> {
        Context {
            resource: &self.target.resource,
            namespace: self.target.namespace.as_deref(),
            options,
            now: self.state.clock.now(),
            fresh,
            meter: &self.request.meter,
        }
    }

    /// Generated values for an attempt that writes. For services, all services are read.
    pub(crate) fn fresh(&self) -> Fresh {
        Fresh {
            uid: random::uid(),
            suffix: names::random_suffix(random::suffix()),
            versions: self.target.resource.conversion().map(|_| Arc::default()),
            taken: self.taken(),
        }
    }

    /// The addresses and ports that services have, if a service is written.
    fn taken(&self) -> Taken {
        let resource = &self.target.resource;
        if !resource.is_core("services") {
            return Taken::default();
        }
        let view = self.state.store.view(resource.shelf);
        let services = view.snapshot.iter().map(|service| service.value());
        Taken::of(services, (random::number() >> 32) as u32)
    }

    pub(crate) fn name(&self) -> &str {
        self.target.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn current(&self) -> Option<Arc<Stored>> {
        let key = self.target.key().unwrap_or_default();
        self.state.store.get(self.target.resource.shelf, &key)
    }

    /// The warning for a client that deletes an object whose dependents stay by default, without a
    /// propagation policy. Upstream sends it with a refusal, too.
    ///
    /// Upstream: `WarningsOnDelete` of `pkg/registry/batch/job`.
    pub(super) fn warning_of_orphans(&self, options: &DeleteOptions) -> Option<&'static str> {
        deletion::warning(&self.target.resource, options.propagation)
    }

    /// Commits an outcome; returns `None` if the stored state has changed since the outcome was
    /// made.
    pub(super) fn commit(&self, ready: Ready, current: Option<Arc<Stored>>) -> Option<Written> {
        let Ready { outcome, shown } = ready;
        let (store, resource) = (&self.state.store, &self.target.resource);
        let shelf = resource.shelf;
        let expect = current
            .as_ref()
            .map_or(Expect::Absent, |now| Expect::Revision(now.revision()));
        let is_new = matches!(outcome.action, Action::Create(_));
        let stored = match outcome.action {
            Action::Nothing => current,
            Action::Create(object) | Action::Replace(object) => {
                let draft = Draft::new(&resource.fields, object)?;
                Some(store.put(shelf, draft, expect).ok()?.object)
            }
            Action::Remove => {
                let key = current.as_ref().map(|stored| stored.key().to_owned())?;
                Some(store.remove(shelf, &key, expect).ok()?.object)
            }
        };
        let code = StatusCode::from_u16(outcome.code).unwrap_or(StatusCode::OK);
        let how = (self.form, self.state.clock);
        let converted = shown.zip(stored.as_ref()).and_then(|(shown, stored)| {
            let draft = Draft::new(&resource.fields, shown)?;
            Some(draft.seal(stored.revision()))
        });
        let mut reply = match (outcome.answer, &stored) {
            (Answer::Stored, Some(stored)) => match &converted {
                Some(shown) => shown_reply(code, resource, shown, how),
                None => object_reply(code, resource, stored, how),
            },
            (Answer::StoredScale, Some(stored)) => {
                let object = converted.as_ref().unwrap_or(stored).value();
                let scale = scale::scale_of(resource, &object);
                reply::value(code, self.form.encoding, &scale)
            }
            (Answer::Object(value), _) => self.shown(code, value),
            (Answer::Status(status), _) => reply::status(&status, self.form.encoding),
            (Answer::Stored | Answer::StoredScale, None) => return None,
        };
        reply::warn_of_all(&mut reply, &outcome.warnings);
        Some(Written {
            resource: resource.clone(),
            object: stored,
            is_new,
            reply,
        })
    }

    /// Reply with a value that differs from the stored one.
    fn shown(&self, code: StatusCode, mut value: Value) -> Response<Body> {
        let resource = &self.target.resource;
        if value.get("kind").is_some() {
            return reply::value(code, self.form.encoding, &value);
        }
        if let Look::Table(look) = self.form.look {
            let table = Table::new(resource, look, self.state.clock).of_value(&value);
            return reply::value(code, self.form.encoding, &table);
        }
        if self.form.look == Look::Metadata {
            let metadata = metadata::of(&mut value).clone();
            return reply::value(
                code,
                self.form.encoding,
                &json!({
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": metadata,
                }),
            );
        }
        value["apiVersion"] = Value::from(resource.api_version());
        value["kind"] = Value::from(resource.kind.as_str());
        reply::value(code, self.form.encoding, &value)
    }

    /// The state of the namespace that the request's object belongs to.
    pub(crate) fn namespace_state(&self) -> NamespaceState {
        namespace_state(&self.state.store, self.target.namespace.as_deref())
    }
}

/// A refusal that comes with a warning.
pub(crate) fn warned(request: &WriteRequest<'_>, status: &Status, warning: &str) -> Response<Body> {
    let mut reply = reply::status(status, negotiate::error_encoding(request.headers));
    reply::warn(&mut reply, warning);
    reply
}
