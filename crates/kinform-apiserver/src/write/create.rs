//! Create: the proposal of a new object from its body.
//!
//! ```text
//! body -> name and namespace of the URL, owners of its fields -> Proposal
//! ```
//!
//! Upstream: `kubernetes/apiserver:pkg/endpoints/handlers/create.go`.

use kinform_api::Status;

use super::Context;
use super::body::{Decoded, match_url};
use super::proposal::{Owners, Proposal};
use crate::ownership;

/// Proposes a new object.
///
/// # Errors
/// 400 for a body with another namespace than the URL's.
pub(crate) fn propose(cx: &Context<'_>, body: Decoded) -> Result<Proposal, Box<Status>> {
    let Decoded {
        mut object,
        warnings,
    } = body;
    match_url(cx, None, &mut object)?;
    ownership::created(&cx.writer(), &mut object);
    Ok(Proposal {
        object,
        warnings,
        owners: Owners::Spared,
    })
}
