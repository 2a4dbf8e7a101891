//! A set of paths.
//!
//! ```text
//! {"f:spec":{"f:ports":{"k:{..}":{".":{},"f:name":{}}}}} <──▶ Set: union, difference, intersection
//! ```
//!
//! A tree: a node is one step, says whether the path that ends there is a member, and holds the
//! paths that go on. A path does not imply its parents.
//!
//! INVARIANT: nodes are sorted, and each is a member or has children.
//!
//! Set operations walk two trees at once and take time for their sizes. Recursion goes with depth, which
//! the parsers of requests limit (128).
//!
//! Upstream: `structured-merge-diff:fieldpath/{set,serialize}.go`.

use std::cmp::Ordering;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use super::element::Element;

/// A set of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Set {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) element: Element,
    pub(super) is_member: bool,
    pub(super) children: Set,
}

impl Node {
    fn is_needed(&self) -> bool {
        self.is_member || !self.children.is_empty()
    }
}

impl Set {
    /// The set of paths of fields, each joined by dots.
    pub(super) fn of_paths(paths: &[&str]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<Element> = path.split('.').map(Element::field).collect();
            set.insert(&path);
        }
        set
    }

    /// Reads a written set.
    pub(super) fn read(value: &Value) -> Result<Self, String> {
        let Value::Object(members) = value else {
            return Err("a set of fields is an object".to_owned());
        };
        let mut set = Self::default();
        for (name, inner) in members {
            if name == "." {
                continue;
            }
            let Some(element) = Element::parse(name)? else {
                continue;
            };
            let children = Self::read(inner)?;
            let is_member = inner.get(".").is_some() || children.is_empty();
            let node = set.node(&element);
            node.is_member |= is_member;
            node.children = std::mem::take(&mut node.children).union(&children);
        }
        Ok(set)
    }

    /// The set as it is stored.
    pub(super) fn value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds a path; nobody owns the empty one.
    pub(super) fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => self.node(last).is_member = true,
            [first, rest @ ..] => self.node(first).children.insert(rest),
        }
    }

    pub(super) fn has(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.find(last).is_some_and(|node| node.is_member),
            [first, rest @ ..] => self.find(first).is_some_and(|node| node.children.has(rest)),
        }
    }

    pub(super) fn find(&self, element: &Element) -> Option<&Node> {
        let at = self
            .nodes
            .binary_search_by(|node| node.element.cmp(element));
        at.ok().map(|at| &self.nodes[at])
    }

    /// What is in either.
    pub(super) fn union(mut self, other: &Self) -> Self {
        for theirs in &other.nodes {
            let node = self.node(&theirs.element);
            node.is_member |= theirs.is_member;
            node.children = std::mem::take(&mut node.children).union(&theirs.children);
        }
        self
    }

    /// What is in both.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        self.zip(other, |node, theirs| {
            theirs.map(|theirs| Node {
                element: node.element.clone(),
                is_member: node.is_member && theirs.is_member,
                children: node.children.intersection(&theirs.children),
            })
        })
    }

    /// What is here but not there. A path there takes itself away only, not what is below it.
    pub(super) fn difference(&self, other: &Self) -> Self {
        self.zip(other, |node, theirs| {
            Some(match theirs {
                None => node.clone(),
                Some(theirs) => Node {
                    element: node.element.clone(),
                    is_member: node.is_member && !theirs.is_member,
                    children: node.children.difference(&theirs.children),
                },
            })
        })
    }

    /// What is here but neither there nor below a path that is there.
    pub(super) fn outside(&self, other: &Self) -> Self {
        self.zip(other, |node, theirs| match theirs {
            None => Some(node.clone()),
            Some(theirs) if theirs.is_member => None,
            Some(theirs) => Some(Node {
                element: node.element.clone(),
                is_member: node.is_member,
                children: node.children.outside(&theirs.children),
            }),
        })
    }

    /// A set of what `keep` makes of each node, with its counterpart in the other.
    fn zip(&self, other: &Self, keep: impl Fn(&Node, Option<&Node>) -> Option<Node>) -> Self {
        let mut theirs = other.nodes.iter().peekable();
        let mut nodes = Vec::new();
        for node in &self.nodes {
            while theirs
                .next_if(|other| other.element.cmp(&node.element) == Ordering::Less)
                .is_some()
            {}
            let other = theirs.next_if(|other| other.element == node.element);
            nodes.extend(keep(node, other).filter(Node::is_needed));
        }
        Self { nodes }
    }

    /// A set of what `change` makes of each node.
    pub(super) fn map(&self, change: impl Fn(&Node) -> Node) -> Self {
        let nodes = self.nodes.iter().map(change).filter(Node::is_needed);
        Self {
            nodes: nodes.collect(),
        }
    }

    /// Hands every path out: on each level the members first, then what is below.
    pub(super) fn each(&self, path: &mut Vec<Element>, hear: &mut impl FnMut(&[Element])) {
        for node in self.nodes.iter().filter(|node| node.is_member) {
            path.push(node.element.clone());
            hear(path);
            path.pop();
        }
        for node in self.nodes.iter().filter(|node| !node.children.is_empty()) {
            path.push(node.element.clone());
            node.children.each(path, hear);
            path.pop();
        }
    }

    /// The node of a step, made if need be. The caller makes it a member or gives it children.
    fn node(&mut self, element: &Element) -> &mut Node {
        let at = match self.nodes.last() {
            Some(last) if last.element < *element => Err(self.nodes.len()),
            _ => self
                .nodes
                .binary_search_by(|node| node.element.cmp(element)),
        };
        let at = at.unwrap_or_else(|at| {
            let node = Node {
                element: element.clone(),
                is_member: false,
                children: Self::default(),
            };
            self.nodes.insert(at, node);
            at
        });
        &mut self.nodes[at]
    }
}

/// Written in the order of the elements, as upstream writes it.
impl Serialize for Set {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(self, false, serializer)
    }
}

struct Inner<'a>(&'a Node);

impl Serialize for Inner<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let node = self.0;
        let says_itself = node.is_member && !node.children.is_empty();
        write(&node.children, says_itself, serializer)
    }
}

fn write<S: Serializer>(set: &Set, itself: bool, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    if itself {
        map.serialize_entry(".", &Set::default())?;
    }
    for node in &set.nodes {
        map.serialize_entry(&node.element.name(), &Inner(node))?;
    }
    map.end()
}
