//! The files of a kubeconfig, merged into one document.
//!
//! ```text
//! paths ──read (regular, bounded)──▶ text ──▶ document, tidied ──merge: the first of a name wins──▶ Kubeconfig
//! ```
//!
//! A file that the caller names must exist; others may be missing or blank. Files that are not
//! regular (pipes, devices) are refused, since reading them may never end.
//!
//! Upstream counterpart: `client-go:tools/clientcmd/loader.go`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use kube_client::config::Kubeconfig;
use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind};

/// BOUND: a kubeconfig of thousands of clusters with their certificates has some megabytes.
pub(super) const MAX_KUBECONFIG_BYTES: u64 = 16 << 20;

/// The files to read.
#[derive(Debug)]
pub(super) struct Sources {
    paths: Vec<PathBuf>,
    is_explicit: bool,
}

impl Sources {
    /// The file that the caller names, else those of the environment.
    pub(super) fn find(
        explicit: Option<&Path>,
        environment: &(dyn Fn(&str) -> Option<OsString> + Sync),
    ) -> Self {
        if let Some(path) = explicit {
            return Self {
                paths: vec![path.to_owned()],
                is_explicit: true,
            };
        }
        let listed = environment("KUBECONFIG").filter(|list| !list.is_empty());
        let mut paths: Vec<PathBuf> = match listed {
            Some(list) => std::env::split_paths(&list).collect(),
            None => {
                let home = environment("HOME").map(PathBuf::from);
                let home = home.or_else(std::env::home_dir);
                home.map(|home| home.join(".kube").join("config"))
                    .into_iter()
                    .collect()
            }
        };
        paths.retain(|path| !path.as_os_str().is_empty());
        Self {
            paths,
            is_explicit: false,
        }
    }

    pub(super) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Reads and merges the files. Of two clusters, users or contexts of one name the first is
    /// used, and the first current context that is not empty.
    ///
    /// # Errors
    /// A file cannot be read or is not a kubeconfig, or the file that the caller named is missing.
    pub(super) fn read(&self) -> Result<Kubeconfig, Error> {
        let mut merged = Kubeconfig::default();
        for path in &self.paths {
            let wrong = |why: String| {
                Error::new(
                    ErrorKind::Config,
                    format!("kubeconfig {}: {why}", path.display()),
                )
            };
            let text = match read_regular(path, MAX_KUBECONFIG_BYTES) {
                Ok(bytes) => decode(bytes).map_err(|why| wrong(why.to_owned()))?,
                Err(error) if error.kind() == io::ErrorKind::NotFound && !self.is_explicit => {
                    continue;
                }
                Err(error) => return Err(wrong(error.to_string()).with_cause(error)),
            };
            let folder = path.parent().unwrap_or(Path::new(""));
            let next = parse(&text, folder).map_err(wrong)?;
            merge(&mut merged, next);
        }
        Ok(merged)
    }
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// It cannot be read, is not a regular file, or is larger.
pub(in crate::source) fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Looked at before it is opened: opening a pipe waits for its writer.
    if !fs::metadata(path)?.is_file() {
        let message = "it is not a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let message = format!("it is larger than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(bytes)
}

/// Decodes UTF-8 or, with a byte order mark, UTF-16.
fn decode(bytes: Vec<u8>) -> Result<String, &'static str> {
    let utf16 = |of: fn([u8; 2]) -> u16| {
        let (pairs, _) = bytes[2..].as_chunks();
        let units: Vec<u16> = pairs.iter().map(|pair| of(*pair)).collect();
        String::from_utf16(&units).map_err(|_| "it is not UTF-16, as its first bytes say")
    };
    match bytes.as_slice() {
        [0xff, 0xfe, ..] => utf16(u16::from_le_bytes),
        [0xfe, 0xff, ..] => utf16(u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => {
            String::from_utf8(rest.to_vec()).map_err(|_| "it is not UTF-8")
        }
        _ => String::from_utf8(bytes).map_err(|_| "it is not UTF-8"),
    }
}

/// Parses a kubeconfig; paths in it are relative to `folder`.
fn parse(text: &str, folder: &Path) -> Result<Kubeconfig, String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| {
        // The parser quotes the lines around a fault, which may be secrets.
        let error = error.to_string();
        let first = error.lines().next().unwrap_or_default();
        format!("it is not YAML: {first}")
    })?;
    let mut merged = Kubeconfig::default();
    for mut document in documents {
        if document.is_null() {
            continue;
        }
        let Some(root) = document.as_object_mut() else {
            return Err("it is not a mapping".to_owned());
        };
        tidy(root, folder);
        let next = serde_json::from_value(document).map_err(|error| fault(&error.to_string()))?;
        merge(&mut merged, next);
    }
    Ok(merged)
}

/// Names a fault in the form of a kubeconfig without the value, which may be a secret.
fn fault(message: &str) -> String {
    match message.rsplit_once(", expected ") {
        Some((_, expected)) => format!("it has another value where {expected} is expected"),
        None if message.starts_with("missing field ") => format!("it has a {message}"),
        None => "it has not the form of a kubeconfig".to_owned(),
    }
}

/// Brings a document into the form that kube-client parses: null and empty text are absent, data is
/// on one line, paths are absolute, and what kubectl takes as optional may be missing.
fn tidy(root: &mut Map<String, Value>, folder: &Path) {
    drop_blanks(root);
    for (list, part) in [
        ("clusters", "cluster"),
        ("users", "user"),
        ("contexts", "context"),
    ] {
        let Some(Value::Array(entries)) = root.get_mut(list) else {
            continue;
        };
        entries.retain(Value::is_object);
        for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
            entry.entry("name").or_insert_with(|| "".into());
            let Some(inner) = entry.get_mut(part).and_then(Value::as_object_mut) else {
                continue;
            };
            drop_blanks(inner);
            if part == "context" {
                inner.entry("cluster").or_insert_with(|| "".into());
            }
            for (key, value) in inner.iter_mut() {
                let Value::String(text) = value else { continue };
                match key.as_str() {
                    "certificate-authority-data"
                    | "client-certificate-data"
                    | "client-key-data" => text.retain(|c| !c.is_whitespace()),
                    "certificate-authority" | "client-certificate" | "client-key" | "tokenFile" => {
                        *text = absolute(folder, text)
                    }
                    _ => {}
                }
            }
            let command = inner
                .get_mut("exec")
                .and_then(|exec| exec.get_mut("command"));
            // A name without a separator is looked for in PATH.
            if let Some(Value::String(command)) = command
                && command.contains(MAIN_SEPARATOR)
            {
                *command = absolute(folder, command);
            }
        }
    }
}

fn drop_blanks(map: &mut Map<String, Value>) {
    map.retain(|_, value| !value.is_null() && value.as_str() != Some(""));
}

fn absolute(folder: &Path, path: &str) -> String {
    // An absolute path replaces the folder.
    folder.join(path).to_string_lossy().into_owned()
}

/// Adds what `next` has and `merged` does not.
fn merge(merged: &mut Kubeconfig, next: Kubeconfig) {
    add(&mut merged.clusters, next.clusters, |of| &of.name);
    add(&mut merged.auth_infos, next.auth_infos, |of| &of.name);
    add(&mut merged.contexts, next.contexts, |of| &of.name);
    if merged.current_context.is_none() {
        merged.current_context = next.current_context;
    }
}

fn add<T>(merged: &mut Vec<T>, next: Vec<T>, name: fn(&T) -> &String) {
    for item in next {
        if !merged.iter().any(|known| name(known) == name(&item)) {
            merged.push(item);
        }
    }
}
