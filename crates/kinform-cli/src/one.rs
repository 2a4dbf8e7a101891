//! One object by its type and name: the word that names it, and the object itself.
//!
//! ```text
//! "deploy/web" ──▶ type, name        type, name ──GET──▶ JSON │ Failure with a hint
//! ```
//!
//! The right to get the object is enough. A request that a server puts off is made again, within a
//! bound; no other is.

use std::time::Duration;

use kinform::source::{SourceError, SourceErrorKind, fetch as read};
use kinform_api::Scope;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::args::cluster::SelectArgs;
use crate::args::looking::ObjectArgs;
use crate::catalogue::ResourceEntry;
use crate::connect::Connection;
use crate::exit::Failure;

/// BOUND: the size of one object as JSON; a server stores 1.5 MiB, and escapes may multiply it.
const MAX_OBJECT: usize = 64 << 20;
/// BOUND: requests for an object that a server puts off.
const MAX_TRIES: usize = 10;
/// BOUND: the wait between two of them.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// An object that a command looks at.
#[derive(Debug)]
pub(crate) struct One {
    pub(crate) connection: Connection,
    pub(crate) entry: ResourceEntry,
    pub(crate) select: SelectArgs,
    pub(crate) name: String,
    /// The object at the start.
    pub(crate) object: Value,
}

impl One {
    /// Finds the object of the flags.
    ///
    /// # Errors
    /// The word is no TYPE/NAME, the server does not answer, or the object does not exist.
    ///
    /// # Cancel safety
    /// Dropping the future loses no data.
    pub(crate) async fn find(args: &ObjectArgs) -> Result<Self, Failure> {
        let (kind, name) = parse(&args.object)?;
        let connection = Connection::open(&args.cluster).await?;
        let mut entries = connection.resolve(&[kind]).await?;
        let select = SelectArgs {
            namespace: args.namespace.clone(),
            ..SelectArgs::default()
        };
        let entry = entries.remove(0);
        let object = fetch(&connection, &entry, &select, &name).await?;
        Ok(Self {
            connection,
            entry,
            select,
            name,
            object,
        })
    }

    /// The namespace of the object; `None` if it belongs to the cluster.
    pub(crate) fn namespace(&self) -> Option<String> {
        self.connection
            .info(&self.entry, &self.select, None)
            .namespace
    }

    /// The failure of a command whose object went away.
    pub(crate) fn gone(&self) -> Failure {
        let message = format!("{} {:?} was deleted", self.entry.title(), self.name);
        Failure::new(message)
            .with_hint("`kinform wait --for=create` waits until there is one again")
    }
}

/// A text of the object, or an empty one.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// `TYPE/NAME`.
fn parse(word: &str) -> Result<(String, String), Failure> {
    match word.split_once('/') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((kind.to_owned(), name.to_owned()))
        }
        _ => Err(Failure::usage(format!(
            "{word:?}: TYPE/NAME expected, as deploy/web"
        ))),
    }
}

/// Fetches one object.
///
/// # Errors
/// The name cannot be one, the object does not exist, or the server refuses.
pub(crate) async fn fetch(
    connection: &Connection,
    entry: &ResourceEntry,
    select: &SelectArgs,
    name: &str,
) -> Result<Value, Failure> {
    let title = entry.title();
    // kubectl: path.IsValidPathSegmentName
    if matches!(name, "." | "..") || name.contains(['/', '%']) {
        return Err(Failure::usage(format!(
            "{title} {name:?}: this cannot be a name"
        )));
    }
    let info = connection.info(entry, select, None);
    let namespace = info.namespace.filter(|_| entry.scope == Scope::Namespaced);
    let path = path(entry, namespace.as_deref(), name);
    let mut tries = 0;
    let body = loop {
        tries += 1;
        let error = match read(&connection.client, &path, MAX_OBJECT).await {
            Ok(body) => break body,
            Err(error) => error,
        };
        match error.retry_after() {
            Some(wait) if tries < MAX_TRIES => tokio::time::sleep(wait.min(MAX_WAIT)).await,
            _ => return Err(refused(&title, &error)),
        }
    };
    serde_json::from_slice(&body)
        .map_err(|error| Failure::new(format!("{title}: GET {path} is not JSON: {error}")))
}

/// The path of an object.
pub(crate) fn path(entry: &ResourceEntry, namespace: Option<&str>, name: &str) -> String {
    let name = utf8_percent_encode(name, NON_ALPHANUMERIC);
    format!("{}/{name}", entry.gvr.path(namespace))
}

fn refused(title: &str, error: &SourceError) -> Failure {
    let words = error.status().map(|status| status.message.clone());
    let words = words.filter(|words| !words.is_empty());
    let failure = Failure::new(match (error.is_not_found(), words) {
        // The server names type and object.
        (true, Some(words)) => words,
        (_, words) => format!("{title}: {}", words.unwrap_or_else(|| error.to_string())),
    });
    match error.kind() {
        _ if error.is_unauthorized() => {
            failure.with_hint("the token or certificate is wrong or has expired")
        }
        _ if error.is_forbidden() => {
            failure.with_hint("this needs the right to get the object; choose another user with --context, --user or --token")
        }
        _ if error.is_not_found() => failure.with_hint(format!(
            "`kinform get {title}` lists those that exist; -n chooses another namespace"
        )),
        SourceErrorKind::NotKubernetes => failure.with_hint("a proxy or login page in between?"),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_is_named_by_its_type_and_name() {
        for (word, is_named) in [
            ("deploy/web", true),
            ("foos.example.com/a", true),
            ("deploy", false),
            ("deploy/", false),
            ("/web", false),
            ("a/b/c", false),
            ("", false),
        ] {
            assert_eq!(parse(word).is_ok(), is_named, "{word}");
        }
    }
}
