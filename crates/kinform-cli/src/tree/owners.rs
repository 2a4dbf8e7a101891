//! Owners and owned objects as a tree.
//!
//! ```text
//! [Node { uid, owners }], the object asked for ──▶ its owners, itself, all that it owns ──▶ [Row { depth }]
//! ```
//!
//! Pure. An object with several owners stands under each of them, its own objects only under the
//! first. Owners that own each other in a circle are no endless tree.
//!
//! Complexity: linear in the nodes and their owners.

use std::collections::{BTreeSet, HashMap, HashSet};

/// An object and its owners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) uid: String,
    /// The place of its type in the caller's list.
    pub(crate) kind: usize,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// RFC 3339.
    pub(crate) created: String,
    pub(crate) owners: Vec<Owner>,
}

/// A reference to an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: String,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
}

/// A line of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The lines that lead from the owners here.
    pub(crate) drawing: String,
    pub(crate) depth: usize,
    /// The place of the node.
    pub(crate) node: usize,
}

/// Returns the lines of the tree around `target`: the trees of its outermost owners, without what
/// they own besides.
pub(crate) fn rows(nodes: &[Node], target: &str) -> Vec<Row> {
    let places: HashMap<&str, usize> = nodes
        .iter()
        .enumerate()
        .map(|(at, node)| (node.uid.as_str(), at))
        .collect();
    let Some(&target) = places.get(target) else {
        return Vec::new();
    };
    let owners = |at: usize| {
        nodes[at]
            .owners
            .iter()
            .filter_map(|owner| places.get(owner.uid.as_str()).copied())
    };
    let mut children: HashMap<usize, Vec<usize>> = HashMap::new();
    for at in 0..nodes.len() {
        for owner in owners(at).collect::<BTreeSet<_>>() {
            children.entry(owner).or_default().push(at);
        }
    }
    let above = reached(target, |at| owners(at).collect());
    let below = reached(target, |at| children.get(&at).cloned().unwrap_or_default());
    let is_shown = |at: &usize| above.contains(at) || below.contains(at);
    for owned in children.values_mut() {
        owned.retain(|at| is_shown(at));
        owned.sort_by_key(|at| (nodes[*at].kind, nodes[*at].name.clone()));
    }
    let mut tops: Vec<usize> = above
        .iter()
        .copied()
        .filter(|at| owners(*at).next().is_none())
        .collect();
    // A circle of owners has no top.
    if tops.is_empty() {
        tops.push(target);
    }
    tops.sort_by_key(|at| (nodes[*at].kind, nodes[*at].name.clone()));
    let mut drawn = Drawn {
        children: &children,
        seen: HashSet::new(),
        rows: Vec::new(),
    };
    for top in tops {
        drawn.draw(top);
    }
    drawn.rows
}

/// The nodes that are reached over any number of steps, with the first one.
fn reached(from: usize, next: impl Fn(usize) -> Vec<usize>) -> HashSet<usize> {
    let (mut found, mut open) = (HashSet::from([from]), vec![from]);
    while let Some(at) = open.pop() {
        for further in next(at) {
            if found.insert(further) {
                open.push(further);
            }
        }
    }
    found
}

struct Drawn<'a> {
    children: &'a HashMap<usize, Vec<usize>>,
    seen: HashSet<usize>,
    rows: Vec<Row>,
}

impl Drawn<'_> {
    /// Draws a node and what it owns, without recursion.
    fn draw(&mut self, top: usize) {
        // The node, the lines before it, its sign, its depth.
        let mut open = vec![(top, String::new(), "", 0)];
        while let Some((at, lines, sign, depth)) = open.pop() {
            self.rows.push(Row {
                drawing: format!("{lines}{sign}"),
                depth,
                node: at,
            });
            if !self.seen.insert(at) {
                continue;
            }
            let below = match sign {
                "" => lines,
                "└─" => lines + "  ",
                _ => lines + "│ ",
            };
            let owned = self
                .children
                .get(&at)
                .map(Vec::as_slice)
                .unwrap_or_default();
            for (place, child) in owned.iter().enumerate().rev() {
                let sign = if place + 1 == owned.len() {
                    "└─"
                } else {
                    "├─"
                };
                open.push((*child, below.clone(), sign, depth + 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `name<owner,owner` each.
    #[track_caller]
    fn check(nodes: &str, target: &str, expected: &[&str]) {
        let nodes: Vec<Node> = nodes
            .split(' ')
            .map(|word| {
                let (name, owners) = word.split_once('<').unwrap_or((word, ""));
                let owners = owners.split(',').filter(|uid| !uid.is_empty());
                Node {
                    uid: name.to_owned(),
                    name: name.to_owned(),
                    owners: owners
                        .map(|uid| Owner {
                            uid: uid.to_owned(),
                            ..Owner::default()
                        })
                        .collect(),
                    ..Node::default()
                }
            })
            .collect();
        let rows = rows(&nodes, target);
        let lines: Vec<String> = rows
            .iter()
            .map(|row| format!("{}{}", row.drawing, nodes[row.node].name))
            .collect();
        assert_eq!(lines, expected, "{target}");
    }

    #[test]
    fn a_tree_has_the_owners_the_object_and_what_it_owns() {
        let nodes = "d r1<d r2<d p1<r1 p2<r1 p3<r2 other q<other";
        check(
            nodes,
            "d",
            &["d", "├─r1", "│ ├─p1", "│ └─p2", "└─r2", "  └─p3"],
        );
        check(nodes, "r1", &["d", "└─r1", "  ├─p1", "  └─p2"]);
        check(nodes, "p3", &["d", "└─r2", "  └─p3"]);
        check(nodes, "other", &["other", "└─q"]);
        check(nodes, "absent", &[]);
    }

    #[test]
    fn an_owner_that_is_not_known_ends_the_tree() {
        check("p<gone c<p", "p", &["p", "└─c"]);
    }

    #[test]
    fn several_owners_have_a_tree_each() {
        check("a b c<a,b d<c", "c", &["a", "└─c", "  └─d", "b", "└─c"]);
    }

    #[test]
    fn a_circle_of_owners_ends() {
        check("a<b b<a c<a", "a", &["a", "├─b", "│ └─a", "└─c"]);
        check("a<a", "a", &["a", "└─a"]);
    }
}
