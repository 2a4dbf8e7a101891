//! Manifests and dumps: objects in files, written by people or dumped by servers.
//!
//! ```text
//! --load ──files──▶ texts ──server's reader──▶ YAML or JSON documents ──list──▶ [Document] ──load──▶ server
//! ```
//!
//! An object without a uid is a manifest's: it is created by a request to the server, and a refusal
//! is an error that names the file and the object. One with a uid comes from another server: it is
//! stored as it is, with its uid, times, owners and status. Frames of a watch are applied in order.
//! Namespaces and definitions go first, and a namespace that is only referred to is created.
//!
//! Upstream counterpart: `cli-runtime:pkg/resource` (`Builder`, `FileVisitor`,
//! `FlattenListVisitor`), whose files are read alike.

mod files;
mod list;
mod load;

use std::path::PathBuf;

use kinform_apiserver::{MANIFEST_STACK, YamlError, parse_documents};
use serde_json::Value;

pub(crate) use self::files::Folders;
pub(crate) use self::load::{Existing, create, create_namespace, load};
use crate::exit::Failure;

/// One object, its action, and its place in the files.
#[derive(Debug)]
pub(crate) struct Document {
    /// The name of its file, for messages.
    file: String,
    object: Value,
    act: Act,
}

/// The effect of a document on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Create,
    Restore,
    Remove,
}

/// Reads the objects of files, of folders and, for `-`, of stdin, in this order. Lists are split
/// into items, empty documents are left out.
///
/// # Errors
/// A file cannot be read, or is neither YAML nor JSON of objects; a folder has no manifest.
pub(crate) async fn read(paths: Vec<PathBuf>, folders: Folders) -> Result<Vec<Document>, Failure> {
    let (sender, done) = tokio::sync::oneshot::channel();
    // A thread of its own: stdin may never end, and the parser needs more stack than a worker has.
    std::thread::Builder::new()
        .name("manifests".to_owned())
        .stack_size(MANIFEST_STACK)
        .spawn(move || sender.send(read_all(&paths, folders)))?;
    done.await
        .unwrap_or_else(|_| Err(Failure::new("the manifests could not be read")))
}

fn read_all(paths: &[PathBuf], folders: Folders) -> Result<Vec<Document>, Failure> {
    let mut documents = Vec::new();
    for path in paths {
        for source in files::find(path, folders)? {
            let text = source.read()?;
            let file = source.name();
            let wrong = |what: String| Failure::new(format!("{file}: {what}"));
            let read = parse_documents(&text).map_err(|error| wrong(in_full(&error)))?;
            for document in read {
                if let Some(doubled) = &document.duplicate {
                    let (line, key) = (doubled.line, &doubled.key);
                    crate::progress!(
                        "{file}: line {line}: key {key:?} is there twice; the last one counts"
                    );
                }
                let value = document.value;
                if list::is_kustomization(&value) {
                    crate::progress!("{file}: skipped, it is for `kubectl kustomize`");
                    continue;
                }
                for (act, object) in list::steps(value) {
                    if object.get("kind").and_then(Value::as_str).is_none() {
                        return Err(wrong("a document has no kind".to_owned()));
                    }
                    let file = file.clone();
                    documents.push(Document { file, object, act });
                }
            }
        }
    }
    Ok(documents)
}

/// The parser's own words: the file is its user's.
fn in_full(error: &YamlError) -> String {
    let detail = &error.detail;
    match error.line {
        Some(line) => format!("line {line}: {detail}"),
        None => detail.clone(),
    }
}

impl Document {
    fn text(&self, pointer: &str) -> &str {
        let found = self.object.pointer(pointer).and_then(Value::as_str);
        found.unwrap_or_default()
    }

    /// The file, the object, and a statement about them.
    fn says(&self, what: &str) -> String {
        let (kind, name) = (self.text("/kind"), self.text("/metadata/name"));
        format!("{}: {kind} {name}: {what}", self.file)
    }
}
