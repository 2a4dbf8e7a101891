//! The views: replies as pages of rows. Pure.
//!
//! ```text
//! reply, Look (width, styles) ─▶ Page
//! ```
//!
//! A file a view of the inspector. `causes.rs` and `runs.rs` are parts of two of them.
//!
//! Upstream counterpart: the functions of the inspector's page that draw.

mod caches;
mod causes;
mod memory;
mod object;
mod objects;
mod pipeline;
mod problems;
mod queues;
mod runs;

pub(crate) use self::causes::text as cause_text;
use super::page::Page;
use super::paint::Paint;
use super::place::{Form, Place};
use super::reply::Reply;
use super::trends::Trends;

/// The width and the styles of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) width: usize,
    pub(super) paint: Paint,
}

/// The page of a place, by the last reply for it.
pub(super) fn page(place: &Place, reply: &Reply, trends: &Trends, look: Look) -> Page {
    match reply {
        Reply::Pipeline(reply) => pipeline::page(reply, trends, look),
        Reply::Caches(reply) => caches::page(reply, look),
        Reply::Queues(reply) => {
            let controller = match place {
                Place::Queues { controller, .. } => controller.as_deref(),
                _ => None,
            };
            queues::page(reply, controller, look)
        }
        Reply::Objects(reply) => objects::page(reply, look),
        Reply::Object(reply) => match place {
            Place::Object {
                form: Form::Yaml, ..
            } => object::yaml(reply, look),
            _ => object::page(reply, look),
        },
        Reply::Memory(reply) => memory::page(reply, look),
        Reply::Problems(reply) => problems::page(reply, look),
        Reply::Missing => object::missing(),
    }
}
