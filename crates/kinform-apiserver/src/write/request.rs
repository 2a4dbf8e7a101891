//! A write from the router: its head, its user and its body.

use bytes::Bytes;
use http::{HeaderMap, Method};

use crate::access::User;
use crate::admission::{Annotations, Warnings};
use crate::budget::Meter;
use crate::http::query::Query;

/// A request that writes.
#[derive(Debug)]
pub(crate) struct WriteRequest<'a> {
    pub(crate) method: &'a Method,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: &'a Query,
    pub(crate) user: &'a User,
    pub(crate) body: Bytes,
    /// The bytes and steps that the request has left.
    pub(crate) meter: Meter,
    /// Warnings for the client, whatever the reply.
    pub(crate) warnings: Warnings,
    /// Annotations of the request's record.
    pub(crate) annotations: Annotations,
}
