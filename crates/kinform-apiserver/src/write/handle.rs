//! From a write request to a commit and a reply.
//!
//! ```text
//! WriteRequest -> part, options
//!   -> (stored state -> Proposal -> mutate -> Outcome -> validate -> commit) until a commit wins
//!   -> reply
//! ```
//!
//! Upstream: `kubernetes/apiserver:pkg/endpoints/handlers/{create,update,patch,delete}.go`.

use std::sync::Arc;

use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{Method, Response, StatusCode};
use kinform_api::Status;
use serde_json::Value;

use super::apply::{self, Configuration};
use super::body::{decode, media_type};
use super::complete::complete;
use super::delete::delete;
use super::options::{DeleteOptions, WriteOptions};
use super::patch::Patch;
use super::proposal::Proposal;
use super::request::WriteRequest;
use super::requester;
use super::{Action, Answer, Context, Fresh, Outcome, inert};
use super::{create, patch, update};
use crate::access::rbac::escalation;
use crate::access::{Attributes, ResourceRef, Rights, forbidden};
use crate::admission::Operation;
use crate::conversion;
use crate::encode::{object_reply, shown_reply};
use crate::http::body::Body;
use crate::http::list_options::ReadOptions;
use crate::http::negotiate::{self};
use crate::http::reply;
use crate::http::route::Target;
use crate::object::part::Part;
use crate::object::text;
use crate::ownership::{self, scale};
use crate::state::State;
use crate::storage::Stored;
use crate::write::attempt::Write;
pub(crate) use crate::write::attempt::warned;
use crate::write::collection::Deletes;
use crate::write::commit::{TRIES, Written};

/// The code of a write that created its object.
const CREATED: u16 = 201;
/// BOUND: generated names that a create tries.
const NAMES: usize = 8;

/// The result of a write request.
#[derive(Debug)]
pub(crate) enum Handled<'a> {
    /// A reply to a request that wrote nothing.
    Reply(Response<Body>),
    /// A write that was committed.
    Written(Written),
    /// A delete of many, to be carried out one object at a time.
    Deletes(Deletes<'a>),
}

/// Answers POST, PUT, PATCH and DELETE, and GET of a subresource.
///
/// # Errors
/// The status that refuses the request.
pub(crate) async fn handle<'a>(
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
        request,
    };
    match *request.method {
        Method::POST => write.create(request).await.map(Handled::Written),
        Method::PUT => write.update(request).await.map(Handled::Written),
        Method::PATCH => write.patch(request).await.map(Handled::Written),
        Method::DELETE if is_named => write.delete(request).await,
        Method::DELETE => delete_collection(write, request),
        _ => write.get().await.map(Handled::Reply),
    }
}

impl Write<'_> {
    async fn get(&self) -> Result<Response<Body>, Box<Status>> {
        let resource = &self.target.resource;
        let Some(current) = self.current() else {
            return Err(Box::new(Status::not_found(
                &resource.group_resource(),
                self.name(),
            )));
        };
        let is_converted = resource.is_converted();
        let current = match is_converted {
            true => conversion::read(self.state, resource, &current).await?,
            false => current,
        };
        let how = (self.form, self.state.clock);
        match self.part {
            Part::Scale => scale::check(resource, &current.value()).map(|()| {
                reply::value(
                    StatusCode::OK,
                    self.form.encoding,
                    &scale::scale_of(resource, &current.value()),
                )
            }),
            _ if is_converted => Ok(shown_reply(StatusCode::OK, resource, &current, how)),
            _ => Ok(object_reply(StatusCode::OK, resource, &current, how)),
        }
    }

    async fn create(&self, request: &WriteRequest<'_>) -> Result<Written, Box<Status>> {
        let options = WriteOptions::from_query(request.query, "CreateOptions")?;
        let options = by(request, options);
        let resource = &self.target.resource;
        let read = || {
            let cx = self.context(&options, Fresh::default());
            decode(&cx, self.part, (content_type(request), &request.body))
        };
        // A try takes the object; another one reads the body again, so that there is no copy.
        let mut body = Some(read()?);
        let is_generated = body
            .as_ref()
            .is_some_and(|body| text(&body.object, &["metadata", "name"]).is_empty());
        let mut last = String::new();
        let mut mutated: Option<Proposal> = None;
        for tried in 0..if is_generated { NAMES } else { 1 } {
            if tried > 0 {
                self.request.meter.start_over();
            }
            let namespace = self.namespace_state();
            let cx = self.context(&options, self.fresh());
            let proposal = match mutated.take() {
                Some(proposal) => proposal,
                None => {
                    let proposal = create::propose(&cx, body.take().map_or_else(&read, Ok)?)?;
                    self.mutate(&cx, proposal, (None, namespace)).await?
                }
            };
            if is_generated && self.asks_about(Operation::Create) {
                // Mutating hooks are asked once, whatever number of names is tried.
                mutated = Some(proposal.clone());
            }
            let mut outcome = complete(&cx, Part::Main, proposal, (None, namespace))?;
            requester::put(resource, self.request.user, &mut outcome);
            self.permit(&mut outcome, None)?;
            let reserved = self.validate(&outcome, None).await?;
            if let Action::Create(object) = &outcome.action {
                last = text(object, &["metadata", "name"]).to_owned();
            }
            let ready = self.ready(outcome).await?;
            if let Some(written) = self.commit(ready, None) {
                reserved.keep();
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

    /// Error for a name that a terminating object holds: a retry may succeed soon.
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

    async fn update(&self, request: &WriteRequest<'_>) -> Result<Written, Box<Status>> {
        let options = WriteOptions::from_query(request.query, "UpdateOptions")?;
        let options = by(request, options);
        let read = || {
            let cx = self.context(&options, Fresh::default());
            decode(&cx, self.part, (content_type(request), &request.body))
        };
        let mut body = Some(read()?);
        self.until_committed(&options, |cx, current| {
            let body = body.take().map_or_else(&read, Ok)?;
            update::propose(cx, self.name(), self.part, body, current)
        })
        .await
    }

    async fn patch(&self, request: &WriteRequest<'_>) -> Result<Written, Box<Status>> {
        let content_type = content_type(request);
        let options = by(
            request,
            WriteOptions::for_patch(request.query, content_type)?,
        );
        if media_type(content_type) == apply::MEDIA_TYPE {
            let read = || Configuration::read(&request.body);
            let mut first = Some(read()?);
            return self
                .until_committed(&options, |cx, current| {
                    let configuration = first.take().map_or_else(read, Ok)?;
                    apply::propose(cx, self.name(), self.part, configuration, current)
                })
                .await;
        }
        let read = || Patch::read(&self.target.resource, content_type, &request.body);
        let mut first = Some(read()?);
        self.until_committed(&options, |cx, current| {
            let change = first.take().map_or_else(read, Ok)?;
            patch::propose(cx, self.name(), self.part, change, current)
        })
        .await
    }

    async fn delete<'b>(&self, request: &WriteRequest<'_>) -> Result<Handled<'b>, Box<Status>> {
        let body = (content_type(request), &*request.body);
        let options = DeleteOptions::read(request.query, body)?;
        let done = self.until_deleted(&options).await;
        match (done, self.warning_of_orphans(&options)) {
            (Ok(mut written), Some(warning)) => {
                reply::warn(&mut written.reply, warning);
                Ok(Handled::Written(written))
            }
            (Err(status), Some(warning)) => Ok(Handled::Reply(warned(request, &status, warning))),
            (done, None) => done.map(Handled::Written),
        }
    }

    /// Proposes and commits, again if the stored state changed before the commit.
    async fn until_committed(
        &self,
        options: &WriteOptions,
        mut propose: impl FnMut(&Context<'_>, Option<&Value>) -> Result<Proposal, Box<Status>>,
    ) -> Result<Written, Box<Status>> {
        for tried in 0..TRIES {
            if tried > 0 {
                self.request.meter.start_over();
            }
            let current = self.current();
            let resource = &self.target.resource;
            let value = match &current {
                Some(stored) => Some(self.current_value(stored).await?),
                None => None,
            };
            let state = (value.as_ref(), self.namespace_state());
            let cx = self.context(options, self.fresh());
            let mut proposal = propose(&cx, value.as_ref());
            // An owner of another version may be known only after objects were converted to it.
            while self.convert_missing(&cx).await? {
                self.request.meter.start_over();
                proposal = propose(&cx, value.as_ref());
            }
            let proposal = proposal?;
            let proposal = self.mutate(&cx, proposal, state).await?;
            let mut outcome = complete(&cx, self.part, proposal, state)?;
            self.migrate(&mut outcome, current.as_ref());
            if outcome.code == CREATED && value.is_none() {
                self.may_create()?;
                requester::put(resource, self.request.user, &mut outcome);
            }
            self.permit(&mut outcome, value.as_ref())?;
            let reserved = self.validate(&outcome, value.as_ref()).await?;
            let ready = self.ready(outcome).await?;
            if let Some(written) = self.commit(ready, current) {
                reserved.keep();
                return Ok(written);
            }
        }
        Err(self.lost())
    }

    /// Deletes, again if the stored state changed before the commit. The object keeps its stored
    /// form, without defaults that its definition got since; the reply shows them.
    async fn until_deleted(&self, options: &DeleteOptions) -> Result<Written, Box<Status>> {
        let write = WriteOptions::default();
        let context = self.context(&write, Fresh::default());
        for _ in 0..TRIES {
            let current = self.current();
            let value = current.as_ref().map(|it| it.value());
            let mut outcome = delete(&context, self.name(), options, value.as_ref())?;
            if let Some(stored) = &current {
                self.may_delete(options, (self.name(), stored)).await?;
            }
            self.permit(&mut outcome, value.as_ref())?;
            let ready = self.ready_to_delete(outcome, current.as_ref()).await?;
            if let Some(written) = self.commit(ready, current) {
                return Ok(written);
            }
        }
        Err(self.lost())
    }

    /// The refusal of a write that lost every race.
    fn lost(&self) -> Box<Status> {
        Box::new(Status::modified(
            &self.target.resource.group_resource(),
            self.name(),
        ))
    }

    /// Refuses an update that creates, for users that may only update.
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
            .decide(&self.state.store, self.request.user, &asked)
            .is_allowed
        {
            true => Ok(()),
            false => Err(Box::new(forbidden(self.request.user, &asked))),
        }
    }

    /// Refuses writes that this user is not authorized for, and objects that this server would not
    /// act on; a server that keeps these warns.
    fn permit(&self, outcome: &mut Outcome, old: Option<&Value>) -> Result<(), Box<Status>> {
        let object = match (&outcome.action, &outcome.answer) {
            (Action::Create(object) | Action::Replace(object), _) => object,
            // A dry run.
            (Action::Nothing, Answer::Object(object)) => object,
            _ => return Ok(()),
        };
        let resource = &self.target.resource;
        if old != Some(object) {
            match self.state.keeps_inert {
                true => outcome.warnings.extend(inert::warning(resource, object)),
                false => inert::refuse(resource, object)?,
            }
        }
        if self.state.access.rights == Rights::Everything {
            return Ok(());
        }
        escalation::check(
            &self.state.store,
            self.request.user,
            resource,
            (object, old),
        )
    }
}

/// Begins a delete of the objects that a request selects.
fn delete_collection<'a>(
    write: Write<'a>,
    request: &'a WriteRequest<'a>,
) -> Result<Handled<'a>, Box<Status>> {
    let body = (content_type(request), &*request.body);
    let options = DeleteOptions::read(request.query, body)?;
    let selected = ReadOptions::read(request.query, false)
        .and_then(|read| write.state.selection(write.target, &read));
    match (selected, write.warning_of_orphans(&options)) {
        (Ok(selection), _) => Ok(Handled::Deletes(Deletes::new(
            write, request, options, selection,
        ))),
        (Err(status), Some(warning)) => Ok(Handled::Reply(warned(request, &status, warning))),
        (Err(status), None) => Err(Box::new(status)),
    }
}

pub(super) fn content_type<'a>(request: &WriteRequest<'a>) -> Option<&'a str> {
    request
        .headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
}

/// Options with the field manager of the request.
pub(crate) fn by(request: &WriteRequest<'_>, options: WriteOptions) -> WriteOptions {
    let agent = request.headers.get(USER_AGENT);
    let agent = agent.and_then(|agent| agent.to_str().ok());
    WriteOptions {
        manager: ownership::manager(&options.manager, agent.unwrap_or_default()),
        ..options
    }
}
