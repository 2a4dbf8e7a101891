//! A projection of JSON: members and elements go, and the rest is copied.
//!
//! ```text
//! checked JSON, paths → prune → smaller JSON, if something went
//! ```
//!
//! INVARIANT: recursion is as deep as the longest path, and never deeper than the checked bytes.
//! Upstream: none.

use kinform_api::PathSegment;

use crate::wire::json::cursor;
use crate::wire::layout::{Cuts, Cutter};
use crate::wire::strip;

/// The treatment of fields that no path matches; a field that a path matches wholly meets the
/// opposite.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unmatched {
    Cut,
    Keep,
}

/// Returns the rest of checked JSON; `None` if no field is dropped.
pub(super) fn prune(
    json: &[u8],
    paths: &[&[PathSegment]],
    unmatched: Unmatched,
) -> Option<Vec<u8>> {
    let mut cuts = Cuts::new();
    let start = json.len() - json.trim_ascii_start().len();
    cut(json, start, paths, unmatched, &mut cuts);
    without(json, &mut cuts)
}

fn cut(json: &[u8], at: usize, paths: &[&[PathSegment]], unmatched: Unmatched, cuts: &mut Cuts) {
    let mut cutter = Cutter::default();
    let mut each = |matching: Vec<&[PathSegment]>, start: usize, value: std::ops::Range<usize>| {
        let whole = matching.iter().any(|rest| rest.is_empty());
        let container = matches!(json.get(value.start), Some(b'{' | b'['));
        let inside = !whole && !matching.is_empty() && container;
        if inside {
            cut(json, value.start, &matching, unmatched, cuts);
        }
        let gone = match unmatched {
            Unmatched::Cut => !whole && !inside,
            Unmatched::Keep => whole,
        };
        cutter.member(gone, start..value.end, cuts);
    };
    for member in cursor::members(json, at) {
        let key = cursor::unescape(&json[member.key.clone()]);
        let matching = rests(
            paths,
            |first| matches!(first, PathSegment::Field(name) if *name == key),
        );
        each(matching, member.key.start - 1, member.value);
    }
    for (index, value) in cursor::elements(json, at).enumerate() {
        let matching = rests(paths, |first| match first {
            PathSegment::Each => true,
            PathSegment::Index(wanted) => *wanted == index,
            PathSegment::Field(_) => false,
        });
        each(matching, value.start, value);
    }
    cutter.finish(cuts);
}

/// Returns the remaining segments of the paths whose first segment matches.
pub(super) fn rests<'p>(
    paths: &[&'p [PathSegment]],
    matches: impl Fn(&PathSegment) -> bool,
) -> Vec<&'p [PathSegment]> {
    let rest = |path: &&'p [PathSegment]| path.split_first().filter(|(first, _)| matches(first));
    paths
        .iter()
        .filter_map(rest)
        .map(|(_, rest)| rest)
        .collect()
}

fn without(json: &[u8], cuts: &mut Cuts) -> Option<Vec<u8>> {
    if cuts.is_empty() {
        return None;
    }
    cuts.sort_unstable_by_key(|cut| cut.start);
    let mut kept = Vec::with_capacity(strip::length(&(0..json.len()), cuts));
    strip::copy(json, 0..json.len(), cuts, &mut kept);
    cuts.clear();
    Some(kept)
}
