//! Admission around a write: from a proposal or an outcome to the chain, and back.
//!
//! ```text
//! Proposal ──as clients of its version see it──▶ chain, mutating ──read again, defaults──▶ Proposal
//! Outcome, or the object of a delete ──────────▶ chain, validating ──▶ go on | Status
//! ```
//!
//! A request about which the chain has no say never awaits, and copies nothing. Nothing is locked
//! while the chain is asked: the commit finds out whether the stored state changed meanwhile.
//!
//! An object that admission changed is read again as a body would be: unknown fields are dropped,
//! and defaults fill what a hook added. Field owners were recorded before, as on a real server: what
//! admission adds belongs to no manager.
//!
//! Upstream: `kubernetes/apiserver:pkg/endpoints/handlers/{create,update,patch,delete}.go`,
//! `pkg/admission/plugin/webhook/mutating/dispatcher.go`.

use std::sync::Arc;

use kinform_api::{Status, mutant};
use serde_json::{Value, json};

use super::attempt::Write;
use super::body::{Decoded, Doubled, Refusal, match_url, read_value};
use super::complete;
use super::options::{DeleteOptions, FieldValidation, WriteOptions};
use super::proposal::Proposal;
use super::{Action, Answer, Context, Fresh, NamespaceState, Outcome};
use crate::admission::plugins::{self, quota, quota::Reserved};
use crate::admission::{self, Kind, Objects, Operation, Question};
use crate::http::query::Query;
use crate::object::metadata;
use crate::object::part::Part;
use crate::object::text;
use crate::object::typed::Voice;
use crate::ownership::scale;
use crate::resource::{Propagation, ResourceInfo};
use crate::storage::Stored;

impl Write<'_> {
    /// Returns whether anything is asked about an operation before its commit.
    pub(super) fn asks_about(&self, operation: Operation) -> bool {
        let target = self.target;
        let part = target.subresource.as_deref().unwrap_or_default();
        admission::asks(self.state, &target.resource, (part, operation))
    }

    /// Asks the mutating part of the chain about a proposal.
    ///
    /// # Errors
    /// The refusal of a plugin, a policy or a webhook; 500 for a result that is no object of its
    /// kind, 400 for one of another name or namespace.
    pub(super) async fn mutate(
        &self,
        cx: &Context<'_>,
        mut proposal: Proposal,
        (current, namespace): (Option<&Value>, NamespaceState),
    ) -> Result<Proposal, Box<Status>> {
        let operation = match current {
            None => Operation::Create,
            Some(_) => Operation::Update,
        };
        let resource = &self.target.resource;
        let is_new = operation == Operation::Create && self.part == Part::Main;
        let has_plugins = is_new && plugins::changes(self.state.plugins, resource);
        let asks = self.asks_about(operation);
        if !has_plugins && !asks {
            return Ok(proposal);
        }
        if current.is_none() {
            complete::check_place(cx, &proposal.object, namespace)?;
        }
        let name = text(&proposal.object, &["metadata", "name"]).to_owned();
        let options = || of_query(self.request.query, operation);
        let question = self.question(operation, &name, (&options, cx.options.dry_run));
        if has_plugins {
            plugins::mutate(&question, &mut proposal.object)?;
        }
        if !asks {
            return Ok(proposal);
        }
        let old = current.map(|old| self.seen(old));
        let asked = self.seen(&proposal.object);
        let answer = admission::mutate(&question, asked, old.as_ref()).await?;
        self.goes_on()?;
        let Some(changed) = answer else {
            return Ok(proposal);
        };
        let mut object = match (self.part, current) {
            (Part::Scale, Some(current)) => {
                let read = scale::read(changed).map_err(|error| internal(&error.0))?;
                scale::into_object(resource, &read, current)?
            }
            _ => self.read_again(cx, changed, &name)?,
        };
        if has_plugins {
            // What a webhook added may lack what plugins set.
            plugins::mutate(&question, &mut object)?;
        }
        Ok(Proposal { object, ..proposal })
    }

    /// Reads an object that admission changed.
    fn read_again(
        &self,
        cx: &Context<'_>,
        changed: Value,
        name: &str,
    ) -> Result<Value, Box<Status>> {
        let options = WriteOptions {
            field_validation: FieldValidation::Ignore,
            ..cx.options.clone()
        };
        let again = Context {
            resource: cx.resource,
            namespace: cx.namespace,
            options: &options,
            now: cx.now,
            fresh: Fresh::default(),
            meter: cx.meter,
        };
        // The object was charged when its body was read; this is the same one again.
        cx.meter.start_over();
        let read = read_value(
            &again,
            self.part,
            changed,
            (Doubled::Told(Vec::new()), Voice::Decoder),
        );
        cx.meter.check()?;
        let Decoded { mut object, .. } = read.map_err(|refusal| match refusal {
            Refusal::Status(status) => internal(&status.message),
            Refusal::Type(what) | Refusal::Strict(what) => internal(&what),
        })?;
        let url = self.target.name.as_deref().map(|_| name);
        match_url(&again, url, &mut object)?;
        if object["metadata"]["managedFields"] == json!([]) {
            metadata::of(&mut object).remove("managedFields");
        }
        Ok(object)
    }

    /// Asks the validating part of the chain about an outcome; returns what it reserved in quotas,
    /// to be kept once the outcome is committed.
    ///
    /// # Errors
    /// The refusal of a plugin, a policy or a webhook, and of a quota.
    pub(super) async fn validate(
        &self,
        outcome: &Outcome,
        old: Option<&Value>,
    ) -> Result<Reserved<'_>, Box<Status>> {
        let operation = match old {
            None => Operation::Create,
            Some(_) => Operation::Update,
        };
        let resource = &self.target.resource;
        let subresource = self.target.subresource.as_deref().unwrap_or_default();
        let part = (subresource, operation);
        let checks = plugins::checks(self.state.plugins, resource, part);
        let counts = quota::counts(self.state, resource, part);
        let asks = self.asks_about(operation);
        let object = match (&outcome.action, &outcome.answer) {
            (Action::Create(object) | Action::Replace(object), _) => object,
            // Nothing changes, or a dry run.
            (_, Answer::Object(object)) => object,
            _ => return Ok(Reserved::nothing(self.state)),
        };
        if mutant!("S14") || !(checks || counts || asks) {
            return Ok(Reserved::nothing(self.state));
        }
        let name = text(object, &["metadata", "name"]);
        let options = || of_query(self.request.query, operation);
        let dry_run = self.request.query.get("dryRun").is_some();
        let question = self.question(operation, name, (&options, dry_run));
        let plain = Objects {
            object: Some(object),
            old,
        };
        if checks {
            plugins::validate(&question, plain)?;
        }
        if asks {
            let is_scale = self.part == Part::Scale && object.get("kind").is_some();
            let seen = match is_scale {
                true => object.clone(),
                false => self.seen(object),
            };
            let old = old.map(|old| self.seen(old));
            let objects = Objects {
                object: Some(&seen),
                old: old.as_ref(),
            };
            admission::validate(&question, objects).await?;
            self.goes_on()?;
        }
        match counts {
            true => quota::reserve(self.state, &question, plain),
            false => Ok(Reserved::nothing(self.state)),
        }
    }

    /// Asks the chain about a delete of this object. A delete of many names no object.
    ///
    /// # Errors
    /// The refusal of a plugin, a policy or a webhook.
    pub(super) async fn may_delete(
        &self,
        options: &DeleteOptions,
        (name, stored): (&str, &Arc<Stored>),
    ) -> Result<(), Box<Status>> {
        if !self.asks_about(Operation::Delete) {
            return Ok(());
        }
        let resource = &self.target.resource;
        let old = self.seen(&self.current_value(stored).await?);
        let shown = || of_delete(options, resource, stored.uid());
        let mut question = self.question(Operation::Delete, name, (&shown, options.dry_run));
        question.namespace = stored.namespace();
        admission::delete(&question, &old).await?;
        self.goes_on()
    }

    /// Refuses a write whose server was stopped while admission was asked: nothing is committed after
    /// a stop.
    fn goes_on(&self) -> Result<(), Box<Status>> {
        match self.state.stopping.is_cancelled() {
            false => Ok(()),
            true => Err(Box::new(Status::service_unavailable(
                "apiserver is shutting down",
            ))),
        }
    }

    fn question<'q>(
        &'q self,
        operation: Operation,
        name: &'q str,
        (options, dry_run): (&'q (dyn Fn() -> Value + Sync), bool),
    ) -> Question<'q> {
        let resource = &*self.target.resource;
        let kind = match self.part {
            Part::Scale => Kind::new("autoscaling", "v1", "Scale"),
            _ => Kind::of(resource),
        };
        Question {
            state: self.state,
            user: self.request.user,
            resource,
            subresource: self.target.subresource.as_deref().unwrap_or_default(),
            kind,
            operation,
            namespace: self.target.namespace.as_deref(),
            name,
            options,
            dry_run,
            meter: &self.request.meter,
            warnings: &self.request.warnings,
            annotations: &self.request.annotations,
        }
    }

    /// Returns an object as the client sees it: of the kind of the request, a scale for the scale
    /// subresource.
    fn seen(&self, object: &Value) -> Value {
        let resource = &self.target.resource;
        match self.part {
            Part::Scale => scale::scale_of(resource, object),
            _ => with_kind(resource, object.clone()),
        }
    }
}

pub(crate) fn with_kind(resource: &ResourceInfo, mut object: Value) -> Value {
    object["apiVersion"] = Value::from(resource.api_version());
    object["kind"] = Value::from(resource.kind.as_str());
    object
}

/// The options of a create or an update, as a review shows them.
pub(crate) fn of_query(query: &Query, operation: Operation) -> Value {
    let kind = match operation {
        Operation::Create => "CreateOptions",
        _ => "UpdateOptions",
    };
    let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    for name in ["fieldManager", "fieldValidation"] {
        if let Some(value) = query.get(name).filter(|value| !value.is_empty()) {
            options[name] = Value::from(value);
        }
    }
    if query.get("dryRun").is_some() {
        options["dryRun"] = json!(["All"]);
    }
    options
}

/// The options of a delete, as a review shows them.
pub(crate) fn of_delete(options: &DeleteOptions, resource: &ResourceInfo, uid: &str) -> Value {
    let mut shown = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
    if let Some(seconds) = options.grace_period_seconds {
        shown["gracePeriodSeconds"] = Value::from(seconds);
    }
    if let Some(policy) = options.propagation {
        shown["propagationPolicy"] = Value::from(match policy {
            Propagation::Foreground => "Foreground",
            Propagation::Background => "Background",
            Propagation::Orphan => "Orphan",
        });
    }
    // The registry of namespaces deletes the very object that it read.
    let is_pinned = resource.is_core("namespaces");
    let given = options.uid.as_deref();
    if let Some(uid) = given.or_else(|| is_pinned.then_some(uid)) {
        shown["preconditions"]["uid"] = Value::from(uid);
    }
    if let Some(version) = &options.resource_version {
        shown["preconditions"]["resourceVersion"] = Value::from(version.as_str());
    }
    if options.dry_run {
        shown["dryRun"] = json!(["All"]);
    }
    shown
}

fn internal(why: &str) -> Box<Status> {
    Box::new(Status::internal_error(why))
}
