//! Authentication, impersonation and authorization of requests.
//!
//! ```text
//! token | certificate | neither ─▶ User ─impersonation─▶ User ─attributes, rules─▶ go on | 401/403
//! ```
//!
//! Every authenticated user may do everything, unless the server uses the stored roles (`rbac/`).
//! The anonymous user may read health and version only. Credentials are neither logged nor repeated
//! in a reply.
//!
//! * `user.rs`: users; `credential.rs`: static tokens; `service_account.rs`: tokens that the server
//!   signs;
//! * `attributes.rs`: the attributes of a request; `decision.rs`: the decision; `impersonate.rs`:
//!   impersonation;
//! * `rbac/`: roles and bindings; `review.rs`: reviews of access, of rules and of tokens.
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
pub(crate) use self::service_account::{AUDIENCE, Bound, Claim, Signer, TokenError, TokenSecret};
pub use self::user::User;

/// Paths that the anonymous user may read.
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Authenticates and authorizes requests.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) tokens: Tokens,
    pub(crate) rights: Rights,
    pub(crate) signer: Arc<Signer>,
    /// The clock that decides whether a token has expired.
    pub(crate) clock: Clock,
}

/// The rules that authorize requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rights {
    /// An authenticated user may do everything.
    #[default]
    Everything,
    /// The stored roles and bindings.
    Rbac,
}

/// The sender of a request, by its connection and its credentials.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// An authenticated user, or the anonymous one.
    User(Arc<User>),
    /// The request has a credential that is invalid.
    Unknown,
}

impl Caller {
    /// Returns whether the sender has shown a valid credential.
    pub(crate) fn is_known(&self) -> bool {
        matches!(self, Self::User(user) if !user.is_anonymous())
    }
}

impl Access {
    /// Identifies the sender of these headers, on a connection with or without a client
    /// certificate.
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

    /// Returns the user of a token, and those of the audiences that the token is for.
    pub(crate) fn bearer(
        &self,
        store: &Store,
        token: &str,
        audiences: &[&str],
    ) -> Result<(Arc<User>, Vec<String>), TokenError> {
        let known = self.tokens.user(token);
        match known {
            // A static token is for this server, whatever audiences are named.
            Some(user) if audiences.contains(&AUDIENCE) => Ok((user, vec![AUDIENCE.to_owned()])),
            Some(_) => Err(TokenError::Invalid),
            None => self
                .signer
                .verify(store, token, audiences, self.clock.now())
                .map(|(user, of)| (Arc::new(user), of)),
        }
    }

    /// Authorizes a request and returns the user that it acts as.
    ///
    /// # Errors
    /// 401 for an invalid credential, 403 if the user is not allowed to do this, 400 for an
    /// incomplete impersonation.
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

    /// Admits only users who may do everything.
    ///
    /// # Errors
    /// The errors of [`Self::admit`].
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

    /// Decides whether a user may do this.
    pub(crate) fn decide(&self, store: &Store, user: &User, asked: &Attributes) -> Decision {
        self.rights.decide(store, user, asked)
    }
}

impl Rights {
    /// Decides whether a user may do this.
    pub(crate) fn decide(self, store: &Store, user: &User, asked: &Attributes) -> Decision {
        if user.is_privileged() {
            return Decision::yes();
        }
        match self {
            Self::Rbac => rbac::decide(store, user, asked),
            Self::Everything if !user.is_anonymous() => Decision::yes(),
            Self::Everything => Decision {
                is_allowed: asked.is_read_of_path(&PUBLIC),
                reason: String::new(),
            },
        }
    }
}
