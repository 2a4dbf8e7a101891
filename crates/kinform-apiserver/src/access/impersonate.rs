//! Impersonation: a request that acts as another user.
//!
//! ```text
//! Impersonate-User, -Group, -Uid, -Extra-* ──permission for each part──▶ User | 403
//! ```
//!
//! Each part needs permission to `impersonate` it. The newer, narrower verbs
//! (`impersonate-on:user-info:list`) are not supported: they never allow a request, but a refusal
//! names them first, as upstream's does.
//!
//! Upstream: `apiserver:pkg/endpoints/filters/impersonation`.

use http::{HeaderMap, HeaderValue};
use kinform_api::Status;
use percent_encoding::percent_decode_str;

use super::attributes::{Attributes, ResourceRef};
use super::decision::forbidden;
use super::user::User;

const EXTRA: &str = "impersonate-extra-";

/// Returns the user that the headers impersonate, or `None` without such headers.
///
/// # Errors
/// 400 if the headers name groups, a UID or extra fields but no user.
pub(super) fn wanted(headers: &HeaderMap) -> Result<Option<User>, Box<Status>> {
    // A header value may be in any encoding. A name that is not UTF-8 still impersonates a user.
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let mut user = User::new(first("impersonate-user")).with_uid(first("impersonate-uid"));
    for group in headers.get_all("impersonate-group") {
        user = user.with_group(text(group));
    }
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
            user = user.with_extra(key, vec![text(value)]);
        }
    }
    if !user.name().is_empty() {
        return Ok(Some(user));
    }
    if user == User::default() {
        return Ok(None);
    }
    let groups = shown_list(user.groups());
    let extra: Vec<String> = user
        .extra()
        .iter()
        .map(|(key, values)| format!("{key:?}:{}", shown_list(values)))
        .collect();
    let extra = match extra.is_empty() {
        true => "map[string][]string(nil)".to_owned(),
        false => format!("map[string][]string{{{}}}", extra.join(", ")),
    };
    let message = format!(
        "requested &user.DefaultInfo{{Name:\"\", UID:{:?}, Groups:{groups}, Extra:{extra}}} \
         without impersonating a user name",
        user.uid()
    );
    Err(Box::new(Status::bad_request(message)))
}

fn shown_list(values: &[String]) -> String {
    if values.is_empty() {
        return "[]string(nil)".to_owned();
    }
    let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    format!("[]string{{{}}}", quoted.join(", "))
}

/// Returns the user that the request acts as.
///
/// # Errors
/// 403 if the requester may not impersonate a part of the wanted user.
pub(super) fn become_other(
    may: impl Fn(&Attributes) -> bool,
    user: &User,
    wanted: User,
    asked: &Attributes,
) -> Result<User, Box<Status>> {
    let may = |needed: ResourceRef| may(&Attributes::of("impersonate", needed));
    let account = wanted.as_service_account();
    if !needs(&wanted).into_iter().all(may) {
        let mode = match account {
            Some(_) => "serviceaccount",
            None if wanted.name().starts_with("system:node:") => "arbitrary-node",
            None => "user-info",
        };
        let verb = format!("impersonate-on:{mode}:{}", asked.verb);
        return Err(Box::new(forbidden(user, &asked.with_verb(verb))));
    }
    if wanted.is_anonymous() {
        return Ok(User::anonymous());
    }
    let groups = match account {
        // A user who is named without groups gets the groups of a service account.
        Some((namespace, name)) if wanted.groups().is_empty() => {
            User::service_account(namespace, name).groups().to_vec()
        }
        _ => Vec::new(),
    };
    Ok(groups
        .into_iter()
        .fold(wanted, User::with_group)
        .authenticated())
}

/// Returns the resources that the requester must be allowed to impersonate, one for each part.
fn needs(wanted: &User) -> Vec<ResourceRef> {
    let of = |group: &str, resource: &str, name: &str| ResourceRef {
        group: group.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        ..ResourceRef::default()
    };
    const AUTHENTICATION: &str = "authentication.k8s.io";
    let mut needs = vec![match wanted.as_service_account() {
        Some((namespace, name)) => ResourceRef {
            namespace: namespace.to_owned(),
            ..of("", "serviceaccounts", name)
        },
        None => of("", "users", wanted.name()),
    }];
    needs.extend(wanted.groups().iter().map(|group| of("", "groups", group)));
    if !wanted.uid().is_empty() {
        needs.push(of(AUTHENTICATION, "uids", wanted.uid()));
    }
    for (key, values) in wanted.extra() {
        needs.extend(values.iter().map(|value| ResourceRef {
            subresource: key.clone(),
            ..of(AUTHENTICATION, "userextras", value)
        }));
    }
    needs
}
