//! The last reply for the place that is shown.
//!
//! ```text
//! place ─ask─▶ Reply
//! ```
//!
//! Upstream counterpart: none.

use kinform_operator::inspect::{
    Caches, Head, Manager, Memory, ObjectView, Objects, Pipeline, Problems, Queues,
};

use super::place::{Form, Place};
use crate::attach::{Attach, Trouble};

/// A reply of the program.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    Pipeline(Box<Pipeline>),
    Caches(Box<Caches>),
    Queues(Box<Queues>),
    Objects(Box<Objects>),
    Object(Box<ObjectView>),
    Memory(Box<Memory>),
    Problems(Box<Problems>),
    /// The program does not have the object.
    Missing,
}

impl Reply {
    /// Asks for what a place shows. `known` are the managers of the object's fields, which are read
    /// once.
    ///
    /// # Errors
    /// As of [`Attach::ask`], but for an object that is not there.
    ///
    /// # Cancel safety
    /// The request is given up.
    pub(super) async fn ask(
        attach: &Attach,
        place: &Place,
        known: Option<Vec<Manager>>,
    ) -> Result<Self, Trouble> {
        let (view, mut query) = (place.view(), place.query());
        Ok(match place {
            Place::Pipeline => Self::Pipeline(attach.ask(view, &query).await?),
            Place::Caches => Self::Caches(attach.ask(view, &query).await?),
            Place::Queues { .. } => Self::Queues(attach.ask(view, &query).await?),
            Place::Objects { .. } => Self::Objects(attach.ask(view, &query).await?),
            Place::Memory { .. } => Self::Memory(attach.ask(view, &query).await?),
            Place::Problems => Self::Problems(attach.ask(view, &query).await?),
            Place::Object { form, .. } => {
                if *form == Form::Managers && known.is_none() {
                    query.push(("managers", "1"));
                }
                let asked: Result<Box<ObjectView>, Trouble> = attach.ask(view, &query).await;
                match asked {
                    Err(Trouble::NotThere) => Self::Missing,
                    Err(trouble) => return Err(trouble),
                    Ok(mut object) => {
                        // Managers that could not be read are not asked for again and again.
                        let is_asked = *form == Form::Managers && known.is_none();
                        if is_asked {
                            object.managers.get_or_insert_default();
                        } else {
                            object.managers = known;
                        }
                        Self::Object(object)
                    }
                }
            }
        })
    }

    /// The managers of the object's fields, if they were read.
    pub(super) fn managers(&self) -> Option<Vec<Manager>> {
        match self {
            Self::Object(object) => object.managers.clone(),
            _ => None,
        }
    }

    /// Name and time.
    pub(super) fn head(&self) -> Option<&Head> {
        Some(match self {
            Self::Pipeline(reply) => &reply.head,
            Self::Caches(reply) => &reply.head,
            Self::Queues(reply) => &reply.head,
            Self::Objects(reply) => &reply.head,
            Self::Object(reply) => &reply.head,
            Self::Memory(reply) => &reply.head,
            Self::Problems(reply) => &reply.head,
            Self::Missing => return None,
        })
    }
}
