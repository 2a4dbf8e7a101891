//! `cargo xtask options`: the options of the libraries as a page of the book, made from their
//! documentation comments.
//!
//! ```text
//! pub fields, builder methods of the types below ──comments──▶ a list a type, between marks of the page
//! ```
//!
//! `--write` replaces these lists; without it the command fails where the two differ, as tidy does. A
//! list has the first paragraph of each comment and the one that says the default. What the defaults
//! are, the crates' own tests compare with the comments' figures.

use std::fs;
use std::path::Path;

use clap::Args;

use crate::text::file::{File, read};

/// The page with the lists.
pub(crate) const PAGE: &str = "docs/book/src/configuration.md";

/// BOUND: columns of a line of Markdown.
const COLUMNS: usize = 100;

/// Types with options, and the files that have them.
const TYPES: [(&str, &[&str]); 15] = [
    ("FactoryBuilder", &["crates/kinform/src/factory/builder.rs"]),
    ("InformerBuilder", &["crates/kinform/src/factory/select.rs"]),
    (
        "ReflectorOptions",
        &["crates/kinform/src/reflector_options.rs"],
    ),
    (
        "CacheLimits",
        &["crates/kinform-core/src/reflector/limits.rs"],
    ),
    ("BackoffPolicy", &["crates/kinform-core/src/backoff.rs"]),
    ("FifoLimits", &["crates/kinform-core/src/fifo/mod.rs"]),
    ("RingLimits", &["crates/kinform-core/src/informer/ring.rs"]),
    ("PastLimits", &["crates/kinform-core/src/store/past.rs"]),
    ("DiskCache", &["crates/kinform/src/snapshot/mod.rs"]),
    (
        "ClientOptions",
        &["crates/kinform/src/source/client_options.rs"],
    ),
    (
        "Controller",
        &[
            "crates/kinform/src/controller/mod.rs",
            "crates/kinform/src/controller/options.rs",
        ],
    ),
    ("Settings", &["crates/kinform-operator/src/settings.rs"]),
    (
        "LeaseSettings",
        &["crates/kinform-operator/src/settings.rs"],
    ),
    (
        "ShardSettings",
        &["crates/kinform-operator/src/settings.rs"],
    ),
    (
        "LeaseOptions",
        &["crates/kinform-core/src/election/options.rs"],
    ),
];

/// Checks the page, or writes it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Writes the lists.
    #[arg(long)]
    write: bool,
}

/// Compares the lists with the code, or replaces them.
///
/// # Errors
/// The page differs and is not to be written, or has not the marks of a type.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<String, String> {
    let files = read(root)?;
    let page = files.iter().find(|file| file.path == PAGE);
    let page = page.ok_or_else(|| format!("options: there is no {PAGE}"))?;
    let text = with_lists(&page.text, &files)?;
    if text != page.text {
        if !arguments.write {
            return Err(format!("{PAGE} is not what the code says: use --write"));
        }
        fs::write(root.join(PAGE), &text).map_err(|e| format!("{PAGE}: {e}"))?;
    }
    Ok(format!("options: {} types", TYPES.len()))
}

/// The difference between the page and the code, if there is one: for tidy.
pub(crate) fn check(page: &File, files: &[File]) -> Option<String> {
    match with_lists(&page.text, files) {
        Ok(text) if text == page.text => None,
        Ok(_) => Some("is not what the code says: cargo xtask options --write".to_owned()),
        Err(why) => Some(why),
    }
}

/// The page with the lists of all types between their marks.
fn with_lists(page: &str, files: &[File]) -> Result<String, String> {
    TYPES
        .iter()
        .try_fold(page.to_owned(), |page, (name, paths)| {
            let begin =
                format!("<!-- Options of {name}, made by `cargo xtask options --write`. -->\n");
            let end = format!("<!-- End of {name}. -->\n");
            let parts = page.split_once(&begin);
            let parts = parts.and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
            let (before, after) =
                parts.ok_or_else(|| format!("the page has no {begin:?}, {end:?}"))?;
            let of_type = files.iter().filter(|file| paths.contains(&&*file.path));
            let list: String = of_type
                .flat_map(|file| options(&file.text, name))
                .map(|option| option.item())
                .collect();
            if list.is_empty() {
                return Err(format!("{name} has no options in {paths:?}"));
            }
            Ok(format!("{before}{begin}\n{list}\n{end}{after}"))
        })
}

/// A field, or a method of a builder.
#[derive(Debug, PartialEq, Eq)]
struct Choice {
    /// As `with_page_size(items: u32)`, or the field's name and type.
    code: String,
    text: String,
}

impl Choice {
    fn item(&self) -> String {
        let mut lines = vec![format!("- `{}`:", self.code)];
        for word in self.text.split_whitespace() {
            let line = lines.last_mut().expect("there is a first line");
            if line.chars().count() + 1 + word.chars().count() > COLUMNS {
                lines.push(format!("  {word}"));
            } else {
                line.push(' ');
                line.push_str(word);
            }
        }
        lines.join("\n") + "\n"
    }
}

/// The options of a type in a file, in their order.
fn options(text: &str, name: &str) -> Vec<Choice> {
    let mut found = Vec::new();
    let mut comment = String::new();
    let mut is_within = false;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if is_head(line, name) {
            is_within = true;
        } else if line == "}" {
            is_within = false;
        }
        if !is_within {
            continue;
        }
        let code = line.trim();
        if let Some(said) = code.strip_prefix("///") {
            comment.push_str(said.trim());
            comment.push('\n');
        } else if let Some(declared) = code.strip_prefix("pub ") {
            let mut declared = declared.to_owned();
            while declared.starts_with("fn ") && !declared.contains(['{', ';']) {
                let Some(more) = lines.next() else { break };
                declared = format!("{declared} {}", more.trim());
            }
            if let Some(code) = choice(&declared) {
                let text = said(&comment);
                found.push(Choice { code, text });
            }
            comment.clear();
        } else if !code.starts_with('#') {
            comment.clear();
        }
    }
    found
}

/// Returns whether a line begins the type or its methods.
fn is_head(line: &str, name: &str) -> bool {
    let is_block = line.starts_with("pub struct ") || line.starts_with("impl");
    let head = line.strip_suffix('{').map(str::trim_end);
    let head = head.filter(|head| is_block && !head.contains(" for "));
    let words = head.map(|head| head.split(|c: char| !c.is_alphanumeric() && c != '_'));
    words.is_some_and(|mut words| words.any(|word| word == name))
}

/// The code of an option: a public field, or a method from the builder to the builder.
fn choice(declared: &str) -> Option<String> {
    let Some(method) = declared.strip_prefix("fn ") else {
        let field = declared.strip_suffix(',')?;
        return field.contains(": ").then(|| field.to_owned());
    };
    let (name, rest) = method.split_once('(')?;
    let name = name.split('<').next()?;
    let rest = rest.split(" where ").next()?;
    let (parameters, result) = rest.rsplit_once(") -> ")?;
    let is_builder = result.starts_with("Self") || result.starts_with("Controller<");
    let parameters = parameters.trim_end_matches([' ', ',']);
    let mut parameters = parameters.split(", ");
    let of_self = parameters.next()?.trim();
    if !is_builder || !["mut self", "self"].contains(&of_self) {
        return None;
    }
    let names = parameters.filter_map(|parameter| parameter.split_once(": "));
    let names: Vec<&str> = names.map(|(name, _)| name.trim()).collect();
    Some(format!("{name}({})", names.join(", ")))
}

/// The first paragraph of a comment, and the one that begins with the default.
fn said(comment: &str) -> String {
    let mut paragraphs = comment.split("\n\n");
    let first = paragraphs.next().unwrap_or_default();
    let default = paragraphs.find(|paragraph| paragraph.starts_with("Default"));
    let default = default.map(|text| text.split(" Upstream").next().unwrap_or(text));
    let text = format!("{first} {}", default.unwrap_or_default());
    let text = text.replace("Units and default:", "Default:");
    unlinked(&text)
}

/// Text without the targets of links, which lead to places in the code.
fn unlinked(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("[`") {
        out.push_str(before);
        let Some((name, after)) = after.split_once("`]") else {
            out.push_str("[`");
            rest = after;
            continue;
        };
        out.push_str(&format!("`{name}`"));
        let target = after.strip_prefix('(').and_then(|it| it.split_once(')'));
        rest = target.map_or(after, |(_, rest)| rest);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "\
/// A type.
pub struct It {
    /// Items at once. Default 5.
    pub items: usize,
    /// Hidden.
    inner: u32,
}

/// Another one.
pub struct Other {
    /// Not an option.
    pub other: usize,
}

impl Default for It {
    fn default() -> Self {}
}

impl<K: Send> It<K> {
    /// A new one.
    pub fn new() -> Self {}

    /// Sets the period, see [`Other`] and [`list`](crate::list).
    ///
    /// More of it.
    ///
    /// Default: never. Upstream: another.
    #[must_use]
    pub fn with_period<N>(
        mut self,
        period: Duration,
        other: N,
    ) -> Self {
        self
    }

    /// Reads.
    pub fn items(&self) -> usize {}
}
";

    #[test]
    fn options_are_public_fields_and_methods_from_builder_to_builder() {
        let found: Vec<String> = options(CODE, "It").iter().map(Choice::item).collect();
        assert_eq!(
            found,
            [
                "- `items: usize`: Items at once. Default 5.\n",
                "- `with_period(period, other)`: Sets the period, see `Other` and `list`. Default: never.\n",
            ]
        );
    }

    #[test]
    fn a_page_without_the_marks_of_a_type_is_refused() {
        let page = File {
            path: PAGE.to_owned(),
            text: "# Configuration\n".to_owned(),
        };
        assert!(
            check(&page, &[])
                .unwrap()
                .contains("Options of FactoryBuilder")
        );
    }
}
