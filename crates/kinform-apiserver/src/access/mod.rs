//! Who asks, and whether they may.
//!
//! ```text
//! token | certificate | nothing ──▶ User ──impersonation──▶ User ──attributes, rules──▶ go on | 401, 403
//! ```
//!
//! Everybody who is known may do everything, unless the server goes by the stored roles (`rbac/`). Who is
//! nobody reads health and version, and no more. Nothing of a credential is logged or repeated in a reply.
//!
//! * `user.rs`: who; `credential.rs`: what they show; `service_account.rs`: tokens that the server signs;
//! * `attributes.rs`: what is asked, read from the path alone; `decision.rs`: the answer; `impersonate.rs`: asking as somebody else;
//! * `rbac/`: roles and bindings; `review.rs`: questions about all of this.
//!
//! Upstream: `apiserver:pkg/{authentication,authorization}`, `pkg/endpoints/filters`.

mod attributes;
mod credential;
mod decision;
mod impersonate;
pub(crate) mod rbac;
pub(crate) mod review;
mod service_account;
mod user;

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;
use kinform_api::Status;

use crate::clock::Clock;
use crate::http::query::Query;
use crate::storage::Store;

pub(crate) use self::attributes::{Attributes, ResourceRef};
pub use self::credential::TokenFileError;
pub(crate) use self::credential::{Tokens, same};
pub(crate) use self::decision::{Decision, forbidden};
pub(crate) use self::service_account::{AUDIENCE, Bound, Claim, Signer, TokenError};
pub use self::user::User;

/// Paths that anybody may read.
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Who is let in, and what they may do.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) tokens: Tokens,
    pub(crate) rights: Rights,
    pub(crate) signer: Arc<Signer>,
    /// By which tokens end.
    pub(crate) clock: Clock,
}

/// By what rights are decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Whoever is known may do everything.
    #[default]
    Everything,
    /// Roles and bindings that are stored.
    Rbac,
}

/// Who a request comes from, as its connection and its credentials say.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// Somebody known, or nobody in particular.
    User(Arc<User>),
    /// A credential was shown that is not ours.
    Unknown,
}

impl Access {
    /// Who shows these headers, on a connection that showed a certificate or none.
    pub(crate) fn authenticate(
        &self,
        store: &Store,
        headers: &HeaderMap,
        certificate: Option<&Arc<User>>,
    ) -> Caller {
        if let Some(user) = certificate {
            return Caller::User(user.clone());
        }
        let anonymous = || Caller::User(Arc::new(User::anonymous()));
        let Some(shown) = headers.get(AUTHORIZATION) else {
            return anonymous();
        };
        let token = shown.to_str().unwrap_or_default().split_once(' ');
        match token {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                match self.bearer(store, token.trim(), &[AUDIENCE]) {
                    Ok((user, _)) => Caller::User(user),
                    Err(_) => Caller::Unknown,
                }
            }
            _ => anonymous(),
        }
    }

    /// Whose token this is, and for which of the audiences.
    pub(crate) fn bearer(
        &self,
        store: &Store,
        token: &str,
        audiences: &[&str],
    ) -> Result<(Arc<User>, Vec<String>), TokenError> {
        let known = self.tokens.user(token);
        match known {
            // Such a token is for this server, whoever else is named.
            Some(user) if audiences.contains(&AUDIENCE) => Ok((user, vec![AUDIENCE.to_owned()])),
            Some(_) => Err(TokenError::Invalid),
            None => self
                .signer
                .verify(store, token, audiences, self.clock.now())
                .map(|(user, of)| (Arc::new(user), of)),
        }
    }

    /// Who the request is to be answered as.
    ///
    /// # Errors
    /// 401 for a credential that is not ours, 403 for what the user may not do, 400 for half a request
    /// to be somebody else.
    pub(crate) fn admit(
        &self,
        store: &Store,
        caller: Caller,
        head: &Parts,
        query: &Query,
    ) -> Result<Arc<User>, Box<Status>> {
        let Caller::User(user) = caller else {
            return Err(Box::new(Status::unauthorized()));
        };
        let asked = Attributes::read(&head.method, head.uri.path(), query);
        let user = match impersonate::wanted(&head.headers)? {
            Some(wanted) => {
                let may = |asked: &Attributes| self.decide(store, &user, asked).is_allowed;
                Arc::new(impersonate::become_other(may, &user, wanted, &asked)?)
            }
            None => user,
        };
        if self.decide(store, &user, &asked).is_allowed {
            Ok(user)
        } else {
            Err(Box::new(forbidden(&user, &asked)))
        }
    }

    /// Lets nobody in but who may do everything.
    ///
    /// # Errors
    /// As [`Self::admit`].
    pub(crate) fn admit_administrator(
        &self,
        store: &Store,
        caller: Caller,
        head: &Parts,
        query: &Query,
    ) -> Result<(), Box<Status>> {
        let user = self.admit(store, caller, head, query)?;
        if user.is_privileged() {
            return Ok(());
        }
        let asked = Attributes::read(&head.method, head.uri.path(), query);
        Err(Box::new(forbidden(&user, &asked)))
    }

    /// Whether a user may do this.
    pub(crate) fn decide(&self, store: &Store, user: &User, asked: &Attributes) -> Decision {
        if user.is_privileged() {
            return Decision::yes();
        }
        match self.rights {
            Rights::Rbac => rbac::decide(store, user, asked),
            Rights::Everything if !user.is_anonymous() => Decision::yes(),
            Rights::Everything => Decision {
                is_allowed: asked.is_read_of_path(&PUBLIC),
                reason: String::new(),
            },
        }
    }
}
