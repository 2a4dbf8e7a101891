//! The bytes that all subjects read, made once from a seed and kept in files.
//!
//! ```text
//! embedded server, planted ──list, pages, stream; JSON and protobuf──▶ DIR/COLLECTION/before.*
//!            └── 1% changed ─────────────────────────────────────────▶ DIR/COLLECTION/after.*
//!            └── each changed once ──────────────────────────────────▶ DIR/COLLECTION/events.*
//! ```
//!
//! Pods are those of `kinform serve --pods`: API-server field order, about 8 KB, two fifths of it
//! managedFields; other shapes are in `shape.rs`. The embedded server encodes the objects; its own
//! tests compare the encoding with a real server's bytes. A page is a file of its own, so that the
//! replay server needs no knowledge of the content. Only requested files are made: those of 300,000
//! pods are some gigabytes each.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::StreamExt;
use http::Request;
use kinform_apiserver::{Draft, Expect, Found, Server};
use serde::Deserialize;
use serde_json::json;

use crate::shape::{Collection, Shape};

/// Items in a page, as client-go and kube-rs ask for them.
pub const PAGE: usize = 500;

/// A file of a collection, or all its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recipe {
    /// One list.
    List(Encoding, Content),
    /// Pages of 500, in JSON.
    Pages(Content),
    /// A streaming list, up to its bookmark.
    Stream(Encoding),
    /// The list after this share of the objects changed, in JSON.
    Changed(Share),
    /// The same in pages of 500.
    ChangedPages(Share),
    /// A watch event for each object, in JSON.
    Events,
}

/// The share of a list's objects that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Share {
    /// One of 100.
    Hundredth,
    /// One of 10.
    Tenth,
}

/// JSON or protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// `application/json`
    Json,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
}

/// The part of each object that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// All.
    Full,
    /// `PartialObjectMetadata`.
    Metadata,
}

/// A corpus on disk.
#[derive(Clone, Debug)]
pub struct Corpus {
    /// The directory that holds the files.
    pub directory: PathBuf,
    /// The shape of the objects.
    pub shape: Shape,
    /// The number of objects over all collections.
    pub objects: usize,
    seed: u64,
}

impl Share {
    fn one_of(self) -> usize {
        match self {
            Self::Hundredth => 100,
            Self::Tenth => 10,
        }
    }
}

impl Encoding {
    /// Its media type.
    #[must_use]
    pub fn media(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    fn ending(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Protobuf => "pb",
        }
    }
}

impl Content {
    fn accept(self, encoding: Encoding) -> String {
        let media = encoding.media();
        match self {
            Self::Full => media.to_owned(),
            Self::Metadata => format!("{media};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
        }
    }
}

impl Recipe {
    /// The file's name; of pages, the first one's.
    #[must_use]
    pub fn file(self) -> String {
        match self {
            Self::List(encoding, Content::Full) => format!("list.{}", encoding.ending()),
            Self::List(encoding, Content::Metadata) => format!("metadata.{}", encoding.ending()),
            Self::Pages(_) | Self::ChangedPages(_) => self.page_file(0),
            Self::Stream(encoding) => format!("stream.{}", encoding.ending()),
            Self::Changed(share) => format!("changed-1-of-{}.json", share.one_of()),
            Self::Events => "events.json".to_owned(),
        }
    }

    /// The name of a page's file; empty for a recipe without pages.
    #[must_use]
    pub fn page_file(self, number: usize) -> String {
        match self {
            Self::Pages(Content::Full) => format!("page-{number}.json"),
            Self::Pages(Content::Metadata) => format!("metadata-page-{number}.json"),
            Self::ChangedPages(share) => {
                format!("changed-1-of-{}-page-{number}.json", share.one_of())
            }
            Self::List(..) | Self::Stream(_) | Self::Changed(_) | Self::Events => String::new(),
        }
    }

    /// The name of the file with the tokens of pages, a line each: the first page's token leads to
    /// the second page.
    #[must_use]
    pub fn tokens_file(self) -> String {
        self.file().replace("page-0.json", "pages.tokens")
    }

    /// Returns whether the recipe is sent in pages.
    #[must_use]
    pub fn is_paged(self) -> bool {
        matches!(self, Self::Pages(_) | Self::ChangedPages(_))
    }

    /// The share of the objects changed before this recipe is written; `None` for the first state.
    fn share(self) -> Option<Share> {
        match self {
            Self::Changed(share) | Self::ChangedPages(share) => Some(share),
            Self::List(..) | Self::Pages(_) | Self::Stream(_) | Self::Events => None,
        }
    }

    fn accept(self) -> String {
        match self {
            Self::List(encoding, content) => content.accept(encoding),
            Self::Pages(content) => content.accept(Encoding::Json),
            Self::Stream(encoding) => encoding.media().to_owned(),
            Self::Changed(_) | Self::ChangedPages(_) | Self::Events => {
                Encoding::Json.media().to_owned()
            }
        }
    }
}

impl Corpus {
    /// The corpus of that shape and size, with at least these files.
    ///
    /// # Errors
    /// It cannot be made or written.
    pub async fn ensure(
        root: &Path,
        shape: Shape,
        objects: usize,
        seed: u64,
        recipes: &[Recipe],
    ) -> io::Result<Self> {
        let directory = root.join(format!("{}-{objects}-{seed}", shape.name()));
        let corpus = Self {
            directory,
            shape,
            objects,
            seed,
        };
        let missing: Vec<Recipe> = recipes
            .iter()
            .copied()
            .filter(|recipe| !corpus.has(*recipe))
            .collect();
        if !missing.is_empty() {
            corpus.make(&missing).await?;
        }
        Ok(corpus)
    }

    /// The file of a collection.
    #[must_use]
    pub fn path(&self, collection: Collection, file: &str) -> PathBuf {
        self.directory.join(collection.plural).join(file)
    }

    /// The number of bytes that a recipe sends, over all collections.
    #[must_use]
    pub fn wire_bytes(&self, recipe: Recipe) -> u64 {
        let size = |path: PathBuf| fs::metadata(path).map_or(0, |file| file.len());
        let of = |collection: Collection| match recipe {
            recipe if recipe.is_paged() => (0..)
                .map(|number| size(self.path(collection, &recipe.page_file(number))))
                .take_while(|bytes| *bytes > 0)
                .sum(),
            recipe => size(self.path(collection, &recipe.file())),
        };
        self.shape.collections().iter().copied().map(of).sum()
    }

    fn has(&self, recipe: Recipe) -> bool {
        let mut collections = self.shape.collections().iter();
        let last_written = match recipe.is_paged() {
            true => recipe.tokens_file(),
            false => recipe.file(),
        };
        collections.all(|collection| self.path(*collection, &last_written).exists())
    }

    /// The phases follow one another: the objects as stored first, shares of them changed (each on
    /// top of the one before), all changed once.
    async fn make(&self, recipes: &[Recipe]) -> io::Result<()> {
        let server = Server::builder()
            .plain()
            .history(2 * self.objects + 1000)
            .history_bytes(usize::MAX)
            .in_process();
        self.shape.plant(&server, self.objects, self.seed)?;
        for share in [None, Some(Share::Hundredth), Some(Share::Tenth)] {
            let wanted = recipes.iter().filter(|recipe| recipe.share() == share);
            let wanted: Vec<_> = wanted.filter(|recipe| **recipe != Recipe::Events).collect();
            if let Some(share) = share.filter(|_| !wanted.is_empty()) {
                self.change_all(&server, share.one_of());
            }
            for recipe in wanted {
                self.dump(&server, *recipe).await?;
            }
        }
        if recipes.contains(&Recipe::Events) {
            let version = server.store().revision();
            self.change_all(&server, 1);
            for collection in self.shape.collections() {
                self.dump_events(&server, *collection, version).await?;
            }
        }
        Ok(())
    }

    fn change_all(&self, server: &Server, one_of: usize) {
        for collection in self.shape.collections() {
            change(server, *collection, one_of);
        }
    }

    async fn dump(&self, server: &Server, recipe: Recipe) -> io::Result<()> {
        for collection in self.shape.collections() {
            let path = collection.path();
            match recipe {
                recipe if recipe.is_paged() => {
                    self.dump_pages(server, *collection, recipe).await?;
                }
                Recipe::Stream(_) => {
                    let path = format!("{path}{STREAM}");
                    self.write(server, *collection, recipe, &path, |body| {
                        body.ends_with_bookmark()
                    })
                    .await?;
                }
                _ => {
                    self.write(server, *collection, recipe, &path, |_| false)
                        .await?;
                }
            }
        }
        Ok(())
    }

    async fn dump_events(
        &self,
        server: &Server,
        collection: Collection,
        version: u64,
    ) -> io::Result<()> {
        let objects = server.objects(collection.shelf).len();
        let path = format!("{}?watch=1&resourceVersion={version}", collection.path());
        self.write(server, collection, Recipe::Events, &path, |body| {
            body.lines >= objects
        })
        .await
    }

    /// Writes the server's answer until it ends or has all that is wanted. The file is renamed to
    /// its final name last, so an interrupted one is made again.
    async fn write(
        &self,
        server: &Server,
        collection: Collection,
        recipe: Recipe,
        path: &str,
        is_enough: impl Fn(&Sent) -> bool,
    ) -> io::Result<()> {
        let to = self.path(collection, &recipe.file());
        let unfinished = to.with_extension("unfinished");
        fs::create_dir_all(self.directory.join(collection.plural))?;
        let mut file = BufWriter::with_capacity(1 << 20, File::create(&unfinished)?);
        let mut sent = Sent::default();
        fetch(server, path, &recipe.accept(), |chunk| {
            file.write_all(&chunk)?;
            sent.add(&chunk);
            Ok(!is_enough(&sent))
        })
        .await?;
        file.flush()?;
        fs::rename(unfinished, to)
    }

    /// The tokens are written last: the file's presence means that all pages are there.
    async fn dump_pages(
        &self,
        server: &Server,
        collection: Collection,
        recipe: Recipe,
    ) -> io::Result<()> {
        fs::create_dir_all(self.directory.join(collection.plural))?;
        let mut tokens: Vec<String> = Vec::new();
        for number in 0.. {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.append_pair("limit", &PAGE.to_string());
            if let Some(token) = tokens.last() {
                query.append_pair("continue", token);
            }
            let path = format!("{}?{}", collection.path(), query.finish());
            let mut page = Vec::new();
            fetch(server, &path, &recipe.accept(), |chunk| {
                page.extend_from_slice(&chunk);
                Ok(true)
            })
            .await?;
            fs::write(self.path(collection, &recipe.page_file(number)), &page)?;
            match continue_token(&page)? {
                Some(token) => tokens.push(token),
                None => break,
            }
        }
        let tokens = tokens.join("\n");
        fs::write(self.path(collection, &recipe.tokens_file()), tokens)
    }
}

const STREAM: &str = "?watch=1&sendInitialEvents=true&allowWatchBookmarks=true\
    &resourceVersionMatch=NotOlderThan&resourceVersion=";

/// The part of a watch or list that was sent so far.
#[derive(Debug, Default)]
struct Sent {
    lines: usize,
    tail: Vec<u8>,
}

impl Sent {
    fn add(&mut self, chunk: &[u8]) {
        self.lines += chunk.iter().filter(|byte| **byte == b'\n').count();
        self.tail.extend_from_slice(chunk);
        let surplus = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..surplus);
    }

    fn ends_with_bookmark(&self) -> bool {
        let mark = b"k8s.io/initial-events-end";
        self.tail.windows(mark.len()).any(|bytes| bytes == mark)
    }
}

/// A bookmark is shorter.
const TAIL: usize = 2048;

/// Asks the server and passes on the chunks of its answer, until the last wanted one.
async fn fetch(
    server: &Server,
    path: &str,
    accept: &str,
    mut chunk: impl FnMut(Bytes) -> io::Result<bool>,
) -> io::Result<()> {
    let request = Request::get(path)
        .header("accept", accept)
        .body(Bytes::new())
        .map_err(io::Error::other)?;
    let reply = server.service().call(request).await;
    if reply.status() != 200 {
        return Err(io::Error::other(format!("{path}: {}", reply.status())));
    }
    let mut body = reply.into_body();
    while let Some(piece) = body.next().await {
        if !chunk(piece.map_err(io::Error::other)?)? {
            break;
        }
    }
    Ok(())
}

/// The token of the next page; `None` on the last page. A list's metadata stand before the items of
/// built-in kinds and after those of other kinds.
fn continue_token(page: &[u8]) -> io::Result<Option<String>> {
    #[derive(Deserialize)]
    struct Page {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default, rename = "continue")]
        token: String,
    }
    let Page { metadata } = serde_json::from_slice(page)?;
    Ok(Some(metadata.token).filter(|token| !token.is_empty()))
}

/// Changes one object in every `one_of`, spread evenly.
fn change(server: &Server, collection: Collection, one_of: usize) {
    let Collection {
        group,
        version,
        plural,
        ..
    } = collection;
    let Found::Resource(resource) = server.registry().find(group, version, plural) else {
        return;
    };
    for object in server.objects(collection.shelf).iter().step_by(one_of) {
        let mut value = object.value();
        value["metadata"]["annotations"]["bench/changed"] = json!(one_of.to_string());
        if let Some(draft) = Draft::new(&resource.fields, value) {
            let _ = server.store().put(resource.shelf, draft, Expect::Any);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_corpus_has_what_was_asked_for_and_is_made_once() {
        let root = std::env::temp_dir().join(format!("kinform-corpus-{}", std::process::id()));
        let json = Recipe::List(Encoding::Json, Content::Full);
        let recipes = [
            json,
            Recipe::Pages(Content::Full),
            Recipe::Pages(Content::Metadata),
            Recipe::Stream(Encoding::Json),
            Recipe::Changed(Share::Hundredth),
            Recipe::ChangedPages(Share::Hundredth),
            Recipe::Changed(Share::Tenth),
            Recipe::Events,
        ];
        let ensure = || Corpus::ensure(&root, Shape::Pods, 1200, 7, &recipes);
        let corpus = ensure().await.unwrap();
        let pods = Shape::Pods.collections()[0];
        let read = |file: &str| fs::read_to_string(corpus.path(pods, file)).unwrap();
        let list: serde_json::Value = serde_json::from_str(&read("list.json")).unwrap();
        assert_eq!(list["items"].as_array().unwrap().len(), 1200);
        let is_other = |(a, b): &(&serde_json::Value, &serde_json::Value)| a != b;
        for (file, expected) in [("changed-1-of-100.json", 12), ("changed-1-of-10.json", 120)] {
            let changed: serde_json::Value = serde_json::from_str(&read(file)).unwrap();
            let pairs = list["items"].as_array().unwrap().iter();
            let pairs = pairs.zip(changed["items"].as_array().unwrap());
            assert_eq!(pairs.filter(is_other).count(), expected, "{file}");
        }
        assert_eq!(read("events.json").lines().count(), 1200);
        assert_eq!(read("stream.json").lines().count(), 1201);
        let items = |file: &str| {
            let page: serde_json::Value = serde_json::from_str(&read(file)).unwrap();
            page["items"].as_array().unwrap().clone()
        };
        for (whole, pages) in [
            ("list.json", "page"),
            ("changed-1-of-100.json", "changed-1-of-100-page"),
        ] {
            let paged = (0..3).flat_map(|number| items(&format!("{pages}-{number}.json")));
            assert_eq!(items(whole), paged.collect::<Vec<_>>());
            assert!(!corpus.path(pods, &format!("{pages}-3.json")).exists());
        }
        assert_eq!(read("pages.tokens").lines().count(), 2);
        assert_eq!(items("metadata-page-2.json").len(), 200);
        assert!(items("metadata-page-2.json")[0].get("spec").is_none());
        let size = read("list.json").len() / 1200;
        assert!((7_000..10_000).contains(&size), "{size} bytes a pod");
        let before = fs::metadata(corpus.path(pods, "list.json")).unwrap();
        ensure().await.unwrap();
        let after = fs::metadata(corpus.path(pods, "list.json")).unwrap();
        assert_eq!(before.modified().unwrap(), after.modified().unwrap());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_page_says_where_the_next_one_begins_before_its_items_or_behind_them() {
        for (page, expected) in [
            (
                r#"{"metadata":{"continue":"a"},"items":[{"metadata":{"continue":"b"}}]}"#,
                Some("a"),
            ),
            (
                r#"{"items":[{"metadata":{}}],"metadata":{"continue":"c"}}"#,
                Some("c"),
            ),
            (r#"{"metadata":{"continue":""},"items":[]}"#, None),
            (r#"{"metadata":{"resourceVersion":"1"},"items":[]}"#, None),
        ] {
            let found = continue_token(page.as_bytes()).unwrap();
            assert_eq!(found.as_deref(), expected, "{page}");
        }
        assert!(continue_token(b"{}").is_err());
    }
}
