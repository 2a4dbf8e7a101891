//! Callers, and the names that each of them may see.
//!
//! ```text
//! Authorization: Bearer .. ─▶ Gate ─┬─ token of this start ─▶ Sight::everything
//!                                   └─ reviews (operator) ──▶ Sight of the types and namespaces listed
//! ```
//!
//! A name is shown only to a caller that may list its type, everywhere or in its namespace. Numbers
//! without names are shown to every caller that may read the inspector.
//! BOUND: reviews for one caller are cached for a minute; of a type that it may not list everywhere,
//! 64 namespaces are reviewed, and the others count as hidden.
//! Never: a token in a log or an error.
//!
//! Upstream counterpart: `controller-runtime:pkg/metrics/filters`.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use http::{Request, StatusCode};
use k8s_openapi::api::authentication::v1::UserInfo;
use kinform::{GroupVersionResource, ResourceInfo};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::time::Instant;

use super::program::Program;
use crate::access::{Access, Refusal, bearer};

/// The time for which a caller's sight holds.
const HOLDS: Duration = Duration::from_secs(60);
/// BOUND: callers whose sight is kept.
const CALLERS: usize = 64;
/// BOUND: namespaces of a type that are reviewed for a caller.
const NAMESPACES: usize = 64;
/// BOUND: reviews at a time.
const AT_ONCE: usize = 8;
/// Random bytes of a token.
const TOKEN: usize = 32;

/// The names that a caller may see.
#[derive(Clone, Debug, Default)]
pub(super) struct Sight {
    sees_all: bool,
    types: HashMap<Type, Extent>,
}

/// Group and plural name: versions of a resource have one right.
type Type = (String, String);

#[derive(Clone, Debug)]
enum Extent {
    All,
    // BOUND: `NAMESPACES`.
    Namespaces(BTreeSet<String>),
}

impl Sight {
    /// The sight of a caller that sees everything.
    pub(super) fn everything() -> Self {
        Self {
            sees_all: true,
            types: HashMap::new(),
        }
    }

    /// A sight of some namespaces of a type, all if there are none: for tests.
    #[cfg(test)]
    pub(super) fn of(types: &[(&str, &[&str])]) -> Self {
        let extent = |namespaces: &[&str]| match namespaces {
            [] => Extent::All,
            some => Extent::Namespaces(some.iter().map(|&one| one.to_owned()).collect()),
        };
        let of = |&(name, namespaces): &(&str, &[&str])| {
            ((String::new(), name.to_owned()), extent(namespaces))
        };
        Self {
            sees_all: false,
            types: types.iter().map(of).collect(),
        }
    }

    /// Returns whether objects of a type may be named, in this namespace or of the cluster.
    pub(super) fn sees(&self, of: &GroupVersionResource, namespace: Option<&str>) -> bool {
        match self.extent(of) {
            _ if self.sees_all => true,
            Some(Extent::All) => true,
            Some(Extent::Namespaces(seen)) => namespace.is_some_and(|one| seen.contains(one)),
            None => false,
        }
    }

    /// Returns whether all objects of a type may be named.
    pub(super) fn sees_all(&self, of: &GroupVersionResource) -> bool {
        self.sees_all || matches!(self.extent(of), Some(Extent::All))
    }

    /// Returns whether some objects of a type may be named.
    pub(super) fn sees_some(&self, of: &GroupVersionResource) -> bool {
        self.sees_all || self.extent(of).is_some()
    }

    /// Returns whether an informer may be named: some of its objects may.
    pub(super) fn sees_cache(&self, info: &ResourceInfo) -> bool {
        match &info.namespace {
            Some(namespace) => self.sees(&info.resource, Some(namespace)),
            None => self.sees_some(&info.resource),
        }
    }

    fn extent(&self, of: &GroupVersionResource) -> Option<&Extent> {
        // A look-up by borrowed parts would need a type of its own; there are a few types.
        let mut types = self.types.iter();
        let found = types.find(|((group, name), _)| *group == of.group && *name == of.resource);
        found.map(|(_, extent)| extent)
    }
}

/// Decides about callers.
pub(super) enum Gate {
    /// The holder of this start's token sees everything. Only its digest is kept.
    Token([u8; 32]),
    /// The API server decides.
    Reviews(Box<Reviews>),
}

pub(super) struct Reviews {
    access: Access,
    program: Program,
    known: Mutex<HashMap<u64, (Arc<Sight>, Instant)>>,
    keys: RandomState,
}

impl Gate {
    /// A gate with a new token, which is returned and not kept.
    pub(super) fn with_token() -> Result<(Self, String), ring::error::Unspecified> {
        let mut bytes = [0; TOKEN];
        SystemRandom::new().fill(&mut bytes)?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok((Self::Token(sha256(token.as_bytes())), token))
    }

    /// A gate whose callers the API server knows.
    pub(super) fn with_reviews(access: Access, program: Program) -> Self {
        Self::Reviews(Box::new(Reviews {
            access,
            program,
            known: Mutex::default(),
            keys: RandomState::new(),
        }))
    }

    /// The sight of a caller.
    ///
    /// # Errors
    /// The reply to the caller.
    pub(super) async fn sight<B>(&self, request: &Request<B>) -> Result<Arc<Sight>, Refusal> {
        match self {
            Self::Token(expected) => {
                let unauthorized = || Refusal {
                    status: StatusCode::UNAUTHORIZED,
                    message: "Unauthorized\n".to_owned(),
                };
                let token = bearer(request).ok_or_else(unauthorized)?;
                // Of digests: the time of the comparison tells nothing about the token.
                if sha256(token.as_bytes()) != *expected {
                    return Err(unauthorized());
                }
                Ok(Arc::new(Sight::everything()))
            }
            Self::Reviews(reviews) => reviews.sight(request).await,
        }
    }
}

impl Reviews {
    async fn sight<B>(&self, request: &Request<B>) -> Result<Arc<Sight>, Refusal> {
        let user = self.access.caller(request).await?;
        let caller = self.keys.hash_one(format!("{user:?}"));
        if let Some(known) = self.known(caller) {
            return Ok(known);
        }
        let sight = Arc::new(self.review(&user).await?);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CALLERS {
            known.clear();
        }
        known.insert(caller, (Arc::clone(&sight), Instant::now() + HOLDS));
        Ok(sight)
    }

    fn known(&self, caller: u64) -> Option<Arc<Sight>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (sight, until) = known.get(&caller)?;
        if *until <= Instant::now() {
            known.remove(&caller);
            return None;
        }
        Some(Arc::clone(sight))
    }

    async fn review(&self, user: &UserInfo) -> Result<Sight, Refusal> {
        let mut namespaces: HashMap<Type, (GroupVersionResource, BTreeSet<String>)> =
            HashMap::new();
        for cache in self.program.caches() {
            let info = cache.informer.resource();
            let key = (info.resource.group.clone(), info.resource.resource.clone());
            let entry = namespaces
                .entry(key)
                .or_insert_with(|| (info.resource.clone(), BTreeSet::new()));
            entry.1.extend(info.namespace.clone());
            let values = cache.informer.snapshot().index_values("namespace");
            let found = values.unwrap_or_default().into_keys();
            let found = found.filter_map(|value| value.as_str().map(str::to_owned));
            let left = NAMESPACES.saturating_sub(entry.1.len());
            entry
                .1
                .extend(found.filter(|name| !name.is_empty()).take(left));
        }
        let types = stream::iter(
            namespaces
                .into_iter()
                .map(|(key, (resource, all))| async move {
                    let extent = self.extent(user, &resource, all).await?;
                    Ok::<_, Refusal>(extent.map(|extent| (key, extent)))
                }),
        );
        let types: Vec<_> = types.buffer_unordered(AT_ONCE).try_collect().await?;
        Ok(Sight {
            sees_all: false,
            types: types.into_iter().flatten().collect(),
        })
    }

    async fn extent(
        &self,
        user: &UserInfo,
        resource: &GroupVersionResource,
        namespaces: BTreeSet<String>,
    ) -> Result<Option<Extent>, Refusal> {
        if self.access.may_list(user, resource, None).await? {
            return Ok(Some(Extent::All));
        }
        let mut seen = BTreeSet::new();
        for namespace in namespaces {
            if self
                .access
                .may_list(user, resource, Some(&namespace))
                .await?
            {
                seen.insert(namespace);
            }
        }
        Ok(Some(seen)
            .filter(|seen| !seen.is_empty())
            .map(Extent::Namespaces))
    }
}

/// The digest of a text.
pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut found = [0; 32];
    found.copy_from_slice(digest(&SHA256, bytes).as_ref());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> GroupVersionResource {
        GroupVersionResource {
            group: String::new(),
            version: "v1".into(),
            resource: name.into(),
        }
    }

    #[test]
    fn a_name_is_seen_only_where_its_type_may_be_listed() {
        let sight = Sight::of(&[("pods", &["a"]), ("nodes", &[])]);
        assert!(sight.sees(&of("pods"), Some("a")) && !sight.sees(&of("pods"), Some("b")));
        assert!(!sight.sees(&of("pods"), None) && !sight.sees_all(&of("pods")));
        assert!(sight.sees(&of("nodes"), None) && sight.sees_all(&of("nodes")));
        assert!(!sight.sees_some(&of("secrets")));
        assert!(Sight::everything().sees(&of("secrets"), Some("a")));
        assert!(!Sight::default().sees_some(&of("pods")));
    }

    #[tokio::test]
    async fn only_the_token_of_this_start_opens_the_gate() {
        let (gate, token) = Gate::with_token().unwrap();
        let (_, other) = Gate::with_token().unwrap();
        assert_eq!((token.len(), token != other), (64, true));
        for (header, is_open) in [
            (format!("Bearer {token}"), true),
            (format!("bearer {token}"), true),
            (format!("Bearer {other}"), false),
            (format!("Basic {token}"), false),
            ("Bearer ".to_owned(), false),
            (format!("Bearer {}", &token[..63]), false),
        ] {
            let request = Request::get("/").header("authorization", &header);
            let sight = gate.sight(&request.body(()).unwrap()).await;
            assert_eq!(sight.is_ok(), is_open, "{header}");
        }
        assert!(gate.sight(&Request::new(())).await.is_err());
    }
}
