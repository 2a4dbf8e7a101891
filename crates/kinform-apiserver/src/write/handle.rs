//! From a request to a commit and a reply.
//!
//! ```text
//! WriteRequest -> part, options -> (stored state -> Outcome -> commit) until nobody was faster -> reply
//! ```
//!
//! Upstream: `kubernetes/apiserver:pkg/endpoints/handlers/{create,update,patch,delete}.go`.

use std::sync::Arc;

use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{Method, Response, StatusCode};
use kinform_api::Status;
use serde_json::{Value, json};

use super::apply::{self, Configuration};
use super::body::{decode, media_type};
use super::create::create;
use super::delete::delete;
use super::options::{DeleteOptions, WriteOptions};
use super::patch::Patch;
use super::patch::patch;
use super::request::WriteRequest;
use super::requester;
use super::update::update;
use super::{Action, Answer, Context, Fresh, NamespaceState, Outcome, inert};
use crate::access::rbac::escalation;
use crate::access::{Attributes, ResourceRef, Rights, User, forbidden};
use crate::builtin::names;
use crate::builtin::service_addresses::Taken;
use crate::encode::object_reply;
use crate::encode::table::Table;
use crate::http::body::Body;
use crate::http::negotiate::{self, Form, Look};
use crate::http::reply;
use crate::http::route::Target;
use crate::object::metadata;
use crate::object::part::Part;
use crate::object::text;
use crate::ownership::{self, scale};
use crate::state::State;
use crate::storage::{Draft, Expect, Stored};
use crate::write::collection::Deletes;
use crate::write::commit::Handled;
use crate::write::commit::Written;
use crate::write::namespace_state;

/// The code of a write that made its object.
const CREATED: u16 = 201;
/// BOUND: how often a write is tried again because somebody else was faster.
const TRIES: usize = 64;
/// BOUND: how many generated names are tried.
const NAMES: usize = 8;

/// What a delete of jobs is told that does not say what becomes of their pods.
const ORPHANED_PODS: &str = "child pods are preserved by default when jobs are deleted; set \
     propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this \
     warning";

/// Answers POST, PUT, PATCH and DELETE, and GET of a part.
///
/// # Errors
/// The status that refuses the request.
pub(crate) fn handle<'a>(
    state: &'a State,
    target: &'a Target,
    request: &'a WriteRequest<'a>,
) -> Result<Handled<'a>, Box<Status>> {
    let resource = &target.resource;
    let form = match resource.is_stored() {
        true => negotiate::form(request.headers, resource.is_custom())?,
        false => negotiate::answer_form(request.headers)?,
    }
    .including(request.query)?;
    let part = match target.subresource.as_deref() {
        None => Part::Main,
        Some("status") => Part::Status,
        Some("scale") => Part::Scale,
        Some("ephemeralcontainers") if resource.is_core("pods") => Part::EphemeralContainers,
        Some("resize") if resource.is_core("pods") => Part::Resize,
        Some("approval") if resource.plural == "certificatesigningrequests" => Part::Approval,
        Some("finalize") if resource.is_core("namespaces") => Part::Finalize,
        Some(_) => return Err(Box::new(Status::no_such_resource())),
    };
    let is_named = target.name.is_some();
    let verb = target.verb(request.method, false);
    let fits = match *request.method {
        Method::POST => !is_named,
        Method::DELETE => part == Part::Main,
        Method::PUT | Method::PATCH => is_named,
        Method::GET | Method::HEAD => part != Part::Main,
        _ => false,
    };
    let served = resource.subresource(target.subresource.as_deref().unwrap_or_default());
    let has_verb = match (part, served) {
        (Part::Main, _) => resource.has_verb(verb),
        (_, Some(part)) => part.verbs.contains(&verb),
        (_, None) => false,
    };
    if !fits || !has_verb {
        return Err(Box::new(Status::method_not_allowed()));
    }
    if !resource.is_stored() {
        return Err(Box::new(Status::method_not_supported(
            &resource.group_resource(),
            verb,
        )));
    }
    let write = Write {
        state,
        target,
        part,
        form,
        user: request.user,
    };
    match *request.method {
        Method::POST => write.create(request).map(Handled::Written),
        Method::PUT => write.update(request).map(Handled::Written),
        Method::PATCH => write.patch(request).map(Handled::Written),
        Method::DELETE if is_named => write.delete(request),
        Method::DELETE => Deletes::begin(write, request),
        _ => write.get().map(Handled::Reply),
    }
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Write<'a> {
    pub(super) state: &'a State,
    pub(super) target: &'a Target,
    pub(super) part: Part,
    pub(super) form: Form,
    pub(super) user: &'a User,
}

impl Write<'_> {
    /// The context of one try.
    pub(super) fn context<'a>(&'a self, options: &'a WriteOptions, fresh: Fresh) -> Context<'a> {
        Context {
            resource: &self.target.resource,
            namespace: self.target.namespace.as_deref(),
            options,
            now: jiff::Timestamp::now(),
            fresh,
        }
    }

    /// What a try that writes may need. Of services, all are looked at.
    fn fresh(&self) -> Fresh {
        Fresh {
            uid: uuid::Uuid::new_v4().to_string(),
            suffix: names::random_suffix(rand::random()),
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
        Taken::of(services, rand::random())
    }

    fn name(&self) -> &str {
        self.target.name.as_deref().unwrap_or_default()
    }

    fn current(&self) -> Option<Arc<Stored>> {
        let key = self.target.key().unwrap_or_default();
        self.state.store.get(self.target.resource.shelf, &key)
    }

    fn get(&self) -> Result<Response<Body>, Box<Status>> {
        let resource = &self.target.resource;
        let Some(current) = self.current() else {
            return Err(Box::new(Status::not_found(
                &resource.group_resource(),
                self.name(),
            )));
        };
        match self.part {
            Part::Scale => scale::check(resource, &current.value()).map(|()| {
                reply::value(
                    StatusCode::OK,
                    self.form.encoding,
                    &scale::scale_of(resource, &current.value()),
                )
            }),
            _ => Ok(object_reply(StatusCode::OK, resource, &current, self.form)),
        }
    }

    fn create(&self, request: &WriteRequest<'_>) -> Result<Written, Box<Status>> {
        let options = WriteOptions::from_query(request.query, "CreateOptions")?;
        let options = by(request, options);
        let resource = &self.target.resource;
        let body = decode(
            &self.context(&options, Fresh::default()),
            self.part,
            (content_type(request), &request.body),
        )?;
        let is_generated = text(&body.object, &["metadata", "name"]).is_empty();
        let mut last = String::new();
        for _ in 0..if is_generated { NAMES } else { 1 } {
            let namespace = self.namespace_state();
            let mut outcome = create(
                &self.context(&options, self.fresh()),
                body.clone(),
                namespace,
            )?;
            requester::put(resource, self.user, &mut outcome);
            self.admit(&outcome, None)?;
            if let Action::Create(object) = &outcome.action {
                last = text(object, &["metadata", "name"]).to_owned();
            }
            if let Some(written) = self.commit(outcome, None) {
                return Ok(written);
            }
        }
        let group_resource = resource.group_resource();
        Err(Box::new(if is_generated {
            Status::generate_name_conflict(&group_resource, &last, 1)
        } else {
            let taken = Status::already_exists(&group_resource, &last);
            self.of_one_that_leaves(taken, &last)
        }))
    }

    /// A name that is taken by an object on its way out: worth another try soon.
    fn of_one_that_leaves(&self, taken: Status, name: &str) -> Status {
        let namespace = self.target.namespace.as_deref();
        let key = namespace.map_or_else(|| name.to_owned(), |of| format!("{of}/{name}"));
        let found = self.state.store.get(self.target.resource.shelf, &key);
        let leaves = |object: &Arc<Stored>| {
            !text(&object.value(), &["metadata", "deletionTimestamp"]).is_empty()
        };
        let message = match found.as_ref().is_some_and(leaves) {
            true => format!("object is being deleted: {}", taken.message),
            false => taken.message.clone(),
        };
        Status { message, ..taken }
    }

    fn update(&self, request: &WriteRequest<'_>) -> Result<Written, Box<Status>> {
        let options = WriteOptions::from_query(request.query, "UpdateOptions")?;
        let options = by(request, options);
        let body = decode(
            &self.context(&options, Fresh::default()),
            self.part,
            (content_type(request), &request.body),
        )?;
        self.until_committed(|current| {
            let state = (current, self.namespace_state());
            update(
                &self.context(&options, self.fresh()),
                self.name(),
                self.part,
                body.clone(),
                state,
            )
        })
    }

    fn patch(&self, request: &WriteRequest<'_>) -> Result<Written, Box<Status>> {
        let content_type = content_type(request);
        let options = by(
            request,
            WriteOptions::for_patch(request.query, content_type)?,
        );
        if media_type(content_type) == apply::MEDIA_TYPE {
            let configuration = Configuration::read(&request.body)?;
            return self.until_committed(|current| {
                let state = (current, self.namespace_state());
                let cx = self.context(&options, self.fresh());
                apply::apply(&cx, self.name(), self.part, &configuration, state)
            });
        }
        let change = Patch::read(&self.target.resource, content_type, &request.body)?;
        self.until_committed(|current| {
            patch(
                &self.context(&options, self.fresh()),
                self.name(),
                self.part,
                &change,
                current,
            )
        })
    }

    fn delete<'b>(&self, request: &WriteRequest<'_>) -> Result<Handled<'b>, Box<Status>> {
        let body = (content_type(request), &*request.body);
        let options = DeleteOptions::read(request.query, body)?;
        let write = WriteOptions::default();
        let done = self.until_committed(|current| {
            delete(
                &self.context(&write, Fresh::default()),
                self.name(),
                &options,
                current,
            )
        });
        match (done, self.warning_of_orphans(&options)) {
            (Ok(mut written), Some(warning)) => {
                reply::warn(&mut written.reply, warning);
                Ok(Handled::Written(written))
            }
            (Err(status), Some(warning)) => Ok(Handled::Reply(warned(request, &status, warning))),
            (done, None) => done.map(Handled::Written),
        }
    }

    /// The warning for a client that deletes an object whose dependents stay by default, without saying
    /// what becomes of them. Upstream sends it with a refusal, too.
    ///
    /// Upstream: `WarningsOnDelete` of `pkg/registry/batch/job`.
    pub(super) fn warning_of_orphans(&self, options: &DeleteOptions) -> Option<&'static str> {
        let resource = &self.target.resource;
        let is_job = resource.group == "batch" && resource.plural == "jobs";
        (is_job && options.propagation.is_none()).then_some(ORPHANED_PODS)
    }

    /// Asks with the stored state, and again if it changed before the commit.
    fn until_committed(
        &self,
        ask: impl Fn(Option<&Value>) -> Result<Outcome, Box<Status>>,
    ) -> Result<Written, Box<Status>> {
        for _ in 0..TRIES {
            let current = self.current();
            let resource = &self.target.resource;
            let value = current.as_ref().map(|it| resource.to_shown(it.value()));
            let mut outcome = ask(value.as_ref())?;
            if outcome.code == CREATED && value.is_none() {
                self.may_create()?;
                requester::put(resource, self.user, &mut outcome);
            }
            self.admit(&outcome, value.as_ref())?;
            if let Some(written) = self.commit(outcome, current) {
                return Ok(written);
            }
        }
        Err(Box::new(Status::modified(
            &self.target.resource.group_resource(),
            self.name(),
        )))
    }

    /// Refuses an update that creates from who may only update.
    ///
    /// Upstream: `withAuthorization` of `pkg/endpoints/handlers/create.go`.
    fn may_create(&self) -> Result<(), Box<Status>> {
        let resource = &self.target.resource;
        let asked = Attributes::of(
            "create",
            ResourceRef {
                namespace: self.target.namespace.clone().unwrap_or_default(),
                group: resource.group.clone(),
                resource: resource.plural.clone(),
                subresource: String::new(),
                name: self.name().to_owned(),
            },
        );
        let access = &self.state.access;
        match access
            .decide(&self.state.store, self.user, &asked)
            .is_allowed
        {
            true => Ok(()),
            false => Err(Box::new(forbidden(self.user, &asked))),
        }
    }

    /// Refuses what this user may not write, and what this server would not act on.
    fn admit(&self, outcome: &Outcome, old: Option<&Value>) -> Result<(), Box<Status>> {
        let object = match (&outcome.action, &outcome.answer) {
            (Action::Create(object) | Action::Replace(object), _) => object,
            // A dry run.
            (Action::Nothing, Answer::Object(object)) => object,
            _ => return Ok(()),
        };
        let resource = &self.target.resource;
        if old != Some(object) && !self.state.keeps_inert {
            inert::refuse(resource, object)?;
        }
        if self.state.access.rights == Rights::Everything {
            return Ok(());
        }
        escalation::check(&self.state.store, self.user, resource, (object, old))
    }

    /// Carries out an outcome; `None` if the stored state is not the one that it was made for.
    pub(super) fn commit(&self, outcome: Outcome, current: Option<Arc<Stored>>) -> Option<Written> {
        let (store, resource) = (&self.state.store, &self.target.resource);
        let shelf = resource.shelf;
        let expect = current
            .as_ref()
            .map_or(Expect::Absent, |now| Expect::Revision(now.revision()));
        let is_new = matches!(outcome.action, Action::Create(_));
        let stored = match outcome.action {
            Action::Nothing => current,
            Action::Create(object) | Action::Replace(object) => {
                let draft = Draft::new(&resource.fields, resource.to_stored(object))?;
                Some(store.put(shelf, draft, expect).ok()?.object)
            }
            Action::Remove => {
                let key = current.as_ref().map(|stored| stored.key().to_owned())?;
                Some(store.remove(shelf, &key, expect).ok()?.object)
            }
        };
        let code = StatusCode::from_u16(outcome.code).unwrap_or(StatusCode::OK);
        let mut reply = match (outcome.answer, &stored) {
            (Answer::Stored, Some(stored)) => object_reply(code, resource, stored, self.form),
            (Answer::StoredScale, Some(stored)) => {
                let scale = scale::scale_of(resource, &stored.value());
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

    /// A value that is not stored as it is shown.
    fn shown(&self, code: StatusCode, mut value: Value) -> Response<Body> {
        let resource = &self.target.resource;
        if value.get("kind").is_some() {
            return reply::value(code, self.form.encoding, &value);
        }
        if let Look::Table(look) = self.form.look {
            let table = Table::new(resource, look).of_value(&value);
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
    fn namespace_state(&self) -> NamespaceState {
        namespace_state(&self.state.store, self.target.namespace.as_deref())
    }
}

/// A refusal that comes with a warning.
pub(super) fn warned(request: &WriteRequest<'_>, status: &Status, warning: &str) -> Response<Body> {
    let mut reply = reply::status(status, negotiate::error_encoding(request.headers));
    reply::warn(&mut reply, warning);
    reply
}

pub(super) fn content_type<'a>(request: &WriteRequest<'a>) -> Option<&'a str> {
    request
        .headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
}

/// Options that say who writes.
pub(crate) fn by(request: &WriteRequest<'_>, options: WriteOptions) -> WriteOptions {
    let agent = request.headers.get(USER_AGENT);
    let agent = agent.and_then(|agent| agent.to_str().ok());
    WriteOptions {
        manager: ownership::manager(&options.manager, agent.unwrap_or_default()),
        ..options
    }
}
