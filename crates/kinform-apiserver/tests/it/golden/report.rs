//! The report on recordings: the number of equal exchanges, and the reason for each other one.
//!
//! ```text
//! a folder's figures ──▶ docs/server-differences.md, between its marks: compared, or written
//! ```
//!
//! A page that contradicts the tests fails them; with `KINFORM_GOLDEN=write` they write the page.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use super::DIFFERENCES;
use super::transcripts::NOT_KEPT;

const BEGIN: &str = "<!-- golden -->\n";
const END: &str = "<!-- end -->";
/// Tests run side by side.
static PAGE: Mutex<()> = Mutex::new(());

/// Content of each folder: folders of the first recording, then stories that were recorded later.
const FOLDERS: [(&str, &str); 23] = [
    (
        "list",
        "lists in every form: JSON, protobuf, tables, metadata alone, pages, compressed",
    ),
    ("get", "single objects in every form"),
    ("watch", "watches of every kind during one story"),
    (
        "write",
        "creates, updates, patches, deletes, applies, evictions, reviews",
    ),
    ("error", "refusals, old versions, versions of the future"),
    ("crd", "the life of a definition"),
    (
        "kinds",
        "objects of 45 built-in kinds: defaults, protobuf, tables, patches",
    ),
    ("discovery", "discovery, the release, health"),
    ("openapi", "OpenAPI documents"),
    ("kubectl", "29 commands of kubectl"),
    (
        "clientgo",
        "a program on client-go: informers, writes, events, leader election",
    ),
    ("apply", "server-side apply and owners of fields"),
    ("definitions", "odd definitions and their objects"),
    ("life", "parts of objects, rights, reviews"),
    ("table", "tables of objects in many states"),
    ("bookmark", "bookmarks of watches of every built-in kind"),
    (
        "admission/webhook",
        "steps of stories about webhooks: replies, warnings, and the calls",
    ),
    (
        "admission/policy",
        "steps of stories about admission policies, their bindings and parameters",
    ),
    (
        "admission/conversion",
        "steps of stories about conversion between versions of a definition",
    ),
    (
        "admission/plugins",
        "steps of stories about compiled-in plugins: limits, quotas, classes, pod security, accounts",
    ),
    (
        "fresh",
        "lists of a server that has just been started, roles included",
    ),
    (
        "sharded",
        "shards of lists and streams, on a server with the gate `ShardedListAndWatch`",
    ),
    (
        "shards",
        "shards in every form, with every other parameter, and refused selectors of shards",
    ),
];
/// Number of folders of the first recording.
const FIRST: usize = 11;

#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    recorded: usize,
    alike: usize,
}

fn path() -> String {
    format!(
        "{}/../../docs/server-differences.md",
        env!("CARGO_MANIFEST_DIR")
    )
}

/// The figures on a page.
fn figures(page: &str) -> BTreeMap<String, Figures> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, _, recorded, alike] = cells[..] else {
            return None;
        };
        let (recorded, alike) = (recorded.parse().ok()?, alike.parse().ok()?);
        Some((
            name.trim_matches('`').to_owned(),
            Figures { recorded, alike },
        ))
    };
    page.lines().filter_map(row).collect()
}

fn render(figures: &BTreeMap<String, Figures>) -> String {
    let of = |name: &str| figures.get(name).copied().unwrap_or_default();
    let sum = |folders: &[(&str, &str)]| {
        let all = || folders.iter().map(|(name, _)| of(name));
        let recorded: usize = all().map(|figures| figures.recorded).sum();
        let alike: usize = all().map(|figures| figures.alike).sum();
        let mille = alike * 1000 / recorded.max(1);
        format!("{alike} of {recorded} ({}.{} %)", mille / 10, mille % 10)
    };
    let (first, later) = FOLDERS.split_at(FIRST);
    let (first, later) = (sum(first), sum(later));
    let mut text = format!(
        "Recorded answers of a real API server (`testdata/golden`) are compared with those of an embedded\n\
         server in an equal state: status code, media type and every field except times, uids and versions.\n\
         Of OpenAPI documents, definitions and operations are compared, without descriptions, defaults,\n\
         unions, connections and deprecated watches. {NOT_KEPT} bodies of the transcripts were not recorded;\n\
         their status code and media type are compared.\n\
         \n\
         **{first} recorded exchanges are equal.** Of later recordings, {later}.\n\
         \n\
         | folder | what | exchanges | alike |\n|---|---|---|---|\n",
    );
    for (name, what) in FOLDERS {
        let Figures { recorded, alike } = of(name);
        writeln!(text, "| `{name}` | {what} | {recorded} | {alike} |").unwrap();
    }
    text.push_str("\n| exchange | why it differs |\n|---|---|\n");
    for (file, reason) in DIFFERENCES {
        writeln!(text, "| `{file}` | {reason} |").unwrap();
    }
    text
}

fn change(update: impl FnOnce(&mut BTreeMap<String, Figures>)) {
    let _one = PAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let page = std::fs::read_to_string(path()).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (within, after) = rest.split_once(END).unwrap();
    let mut figures = figures(within);
    update(&mut figures);
    let wanted = render(&figures);
    if std::env::var_os("KINFORM_GOLDEN").is_some_and(|what| what == "write") {
        std::fs::write(path(), format!("{before}{BEGIN}{wanted}{END}{after}")).unwrap();
    } else {
        assert!(
            within == wanted,
            "the page is not what the tests found; KINFORM_GOLDEN=write cargo test -p \
             kinform-apiserver --test it golden:: writes it:\n{wanted}"
        );
    }
}

/// Reports the figures of a folder.
pub(crate) fn tell(folder: &str, recorded: usize, alike: usize) {
    assert!(
        FOLDERS.iter().any(|(name, _)| *name == folder),
        "{folder} is not on the page"
    );
    change(|figures| {
        figures.insert(folder.to_owned(), Figures { recorded, alike });
    });
}

#[test]
fn the_page_tells_every_difference_and_each_is_of_a_folder() {
    for (file, _) in DIFFERENCES {
        let folder = file.split('/').next();
        assert!(
            FOLDERS.iter().any(|(name, _)| Some(*name) == folder),
            "{file}"
        );
    }
    change(|_| {});
}
