//! Tokens of service accounts: signed by the server, for an audience and a time.
//!
//! ```text
//! service account + audiences + seconds ──sign──▶ JWT ──verify──▶ User | why not
//! ```
//!
//! Ed25519 signatures are deterministic, so a token is valid if signing it again yields its
//! signature. A token expires with its time, with its account, and with the object that it is bound
//! to. The key is generated with the first token.
//!
//! Upstream: `kubernetes/kubernetes:pkg/serviceaccount/{jwt,claims}.go`.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD as BASE64};
use jiff::Timestamp;
use rcgen::{KeyPair, SigningKey as _};
use serde_json::{Value, json};

use super::{User, same};
use crate::object::{metadata, text};
use crate::random;
use crate::storage::Store;

/// The issuer of the tokens, and their audience if the request names no other.
pub(crate) const AUDIENCE: &str = "https://kubernetes.default.svc";
const PRIVATE: &str = "kubernetes.io";
/// The issuer of tokens that secrets hold, and their claims.
const OF_SECRETS: &str = "kubernetes/serviceaccount";
const NAMESPACE: &str = "kubernetes.io/serviceaccount/namespace";
const SECRET: &str = "kubernetes.io/serviceaccount/secret.name";
const ACCOUNT: &str = "kubernetes.io/serviceaccount/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/serviceaccount/service-account.uid";
const HEADER: &str = r#"{"alg":"EdDSA","kid":"kinform"}"#;
/// BOUND: the size of a token in bytes; longer ones are invalid.
const LONGEST: usize = 16 << 10;

/// Signs tokens.
#[derive(Default)]
pub(crate) struct Signer {
    key: OnceLock<Option<KeyPair>>,
}

/// The contents of a token.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) audiences: Vec<String>,
    pub(crate) bound: Option<Bound>,
    pub(crate) from: Timestamp,
    pub(crate) seconds: i64,
}

/// The object that a token is bound to: the token expires with it.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    /// `pod`, `secret` or `node`.
    pub(crate) what: &'static str,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// The contents of a token that a secret holds.
#[derive(Debug)]
pub(crate) struct TokenSecret<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) secret: &'a str,
    pub(crate) account: &'a str,
    /// The UID of the account.
    pub(crate) uid: &'a str,
}

/// The reason why a token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenError {
    /// This server did not sign it.
    Invalid,
    /// This server signed it, but it is not valid here, for this reason.
    Refused(String),
}

impl std::fmt::Display for TokenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Invalid => f.write_str("invalid bearer token"),
            Self::Refused(why) => write!(f, "[invalid bearer token, {why}]"),
        }
    }
}

impl Signer {
    fn key(&self) -> Option<&KeyPair> {
        let key = || KeyPair::generate_for(&rcgen::PKCS_ED25519).ok();
        self.key.get_or_init(key).as_ref()
    }

    /// Returns a signer with the key of this PEM; `None` if it is malformed.
    #[cfg(feature = "disk")]
    pub(crate) fn from_pem(pem: &str) -> Option<Self> {
        let key = KeyPair::from_pem(pem).ok()?;
        Some(Self {
            key: OnceLock::from(Some(key)),
        })
    }

    /// Returns the private key as PEM.
    #[cfg(feature = "disk")]
    pub(crate) fn pem(&self) -> Option<String> {
        self.key().map(KeyPair::serialize_pem)
    }

    /// Signs a token. Returns `None` if there is no key.
    pub(crate) fn sign(&self, claim: &Claim<'_>) -> Option<String> {
        let from = claim.from.as_second();
        let account = json!({"name": claim.name, "uid": claim.uid});
        let mut private = json!({"namespace": claim.namespace, "serviceaccount": account});
        if let Some(bound) = &claim.bound {
            private[bound.what] = json!({"name": bound.name, "uid": bound.uid});
        }
        let mut payload = json!({
            "aud": claim.audiences,
            "exp": from.saturating_add(claim.seconds),
            "iat": from,
            "nbf": from,
            "iss": AUDIENCE,
            "jti": random::uid(),
            "sub": format!("system:serviceaccount:{}:{}", claim.namespace, claim.name),
        });
        payload[PRIVATE] = private;
        self.signed(&payload)
    }

    /// Signs the token of a secret, which does not expire. Returns `None` if there is no key.
    pub(crate) fn sign_secret(&self, of: &TokenSecret<'_>) -> Option<String> {
        let mut payload = json!({
            "iss": OF_SECRETS,
            "sub": format!("system:serviceaccount:{}:{}", of.namespace, of.account),
        });
        for (claim, value) in [
            (NAMESPACE, of.namespace),
            (SECRET, of.secret),
            (ACCOUNT, of.account),
            (ACCOUNT_UID, of.uid),
        ] {
            payload[claim] = Value::from(value);
        }
        self.signed(&payload)
    }

    fn signed(&self, payload: &Value) -> Option<String> {
        let payload = BASE64.encode(payload.to_string());
        let signed = format!("{}.{payload}", BASE64.encode(HEADER));
        let signature = self.key()?.sign(signed.as_bytes()).ok()?;
        Some(format!("{signed}.{}", BASE64.encode(signature)))
    }

    /// Returns the user of a token, and those of the audiences that the token is for.
    pub(super) fn verify(
        &self,
        store: &Store,
        token: &str,
        audiences: &[&str],
        now: Timestamp,
    ) -> Result<(User, Vec<String>), TokenError> {
        let payload = self.open(token).ok_or(TokenError::Invalid)?;
        if payload["iss"] == OF_SECRETS {
            return of_secret(store, token, audiences, &payload);
        }
        let number = |name| payload.get(name).and_then(Value::as_i64);
        let now = now.as_second();
        if number("exp").is_none_or(|end| end <= now) {
            let why = "service account token has expired";
            return Err(TokenError::Refused(why.to_owned()));
        }
        let said: Vec<&str> = payload["aud"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let shared: Vec<String> = said
            .iter()
            .filter(|audience| audiences.contains(audience))
            .map(|audience| (*audience).to_owned())
            .collect();
        if shared.is_empty() {
            return Err(TokenError::Refused(format!(
                "token audiences {said:?} is invalid for the target audiences {audiences:?}"
            )));
        }
        let private = &payload[PRIVATE];
        let namespace = text(private, &["namespace"]);
        let (name, uid) = (
            text(private, &["serviceaccount", "name"]),
            text(private, &["serviceaccount", "uid"]),
        );
        still_there(store, "serviceaccounts", (namespace, name), uid)?;
        let mut user = User::service_account(namespace, name)
            .with_uid(uid)
            .authenticated();
        let id = format!("JTI={}", text(&payload, &["jti"]));
        user = user.with_extra("authentication.kubernetes.io/credential-id", vec![id]);
        for (what, shelf) in [("pod", "pods"), ("secret", "secrets"), ("node", "nodes")] {
            let Some(bound) = private.get(what) else {
                continue;
            };
            let (name, uid) = (text(bound, &["name"]), text(bound, &["uid"]));
            let within = if what == "node" { "" } else { namespace };
            still_there(store, shelf, (within, name), uid)?;
            if what == "secret" {
                continue;
            }
            let key = |part: &str| format!("authentication.kubernetes.io/{what}-{part}");
            user = user
                .with_extra(key("name"), vec![name.to_owned()])
                .with_extra(key("uid"), vec![uid.to_owned()]);
        }
        Ok((user, shared))
    }

    /// Returns the payload of a token, or `None` if this server did not sign it.
    fn open(&self, token: &str) -> Option<Value> {
        if token.len() > LONGEST {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        if header != BASE64.encode(HEADER) {
            return None;
        }
        // Without a key, no token was ever signed.
        let key = self.key.get()?.as_ref()?;
        let wanted = key.sign(signed.as_bytes()).ok()?;
        let shown = BASE64.decode(signature).ok()?;
        if !same(&wanted, &shown) {
            return None;
        }
        serde_json::from_slice(&BASE64.decode(payload).ok()?).ok()
    }
}

/// Returns the user of a token that a secret holds. Its audience is this server.
fn of_secret(
    store: &Store,
    token: &str,
    audiences: &[&str],
    payload: &Value,
) -> Result<(User, Vec<String>), TokenError> {
    if !audiences.contains(&AUDIENCE) {
        return Err(TokenError::Refused(format!(
            "token audiences {:?} is invalid for the target audiences {audiences:?}",
            [AUDIENCE]
        )));
    }
    let claim = |name| text(payload, &[name]);
    let (namespace, account) = (claim(NAMESPACE), claim(ACCOUNT));
    let key = format!("{namespace}/{}", claim(SECRET));
    let secret = store.get(store.shelf("secrets"), &key).map(|of| of.value());
    let is_held = secret.is_some_and(|secret| {
        let held = STANDARD.decode(text(&secret, &["data", "token"]));
        !metadata::is_terminating(&secret) && held.is_ok_and(|held| same(&held, token.as_bytes()))
    });
    if !is_held {
        let why = "Token has been invalidated".to_owned();
        return Err(TokenError::Refused(why));
    }
    let uid = claim(ACCOUNT_UID);
    still_there(store, "serviceaccounts", (namespace, account), uid)?;
    let user = User::service_account(namespace, account).with_uid(uid);
    Ok((user.authenticated(), vec![AUDIENCE.to_owned()]))
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").finish_non_exhaustive()
    }
}

/// Checks that the object that a token is bound to still exists, with the same UID.
fn still_there(
    store: &Store,
    shelf: &str,
    (namespace, name): (&str, &str),
    uid: &str,
) -> Result<(), TokenError> {
    let key = match namespace {
        "" => name.to_owned(),
        _ => format!("{namespace}/{name}"),
    };
    let found = store.get(store.shelf(shelf), &key);
    let is_good = found
        .is_some_and(|object| object.uid() == uid && !metadata::is_terminating(&object.value()));
    if is_good {
        return Ok(());
    }
    let kind = shelf.trim_end_matches('s');
    Err(TokenError::Refused(format!(
        "{kind} {key:?} has been deleted"
    )))
}
