//! A set of paths.
//!
//! ```text
//! {"f:spec":{"f:ports":{"k:{..}":{".":{},"f:name":{}}}}} <──▶ Set: union, difference, intersection
//! ```
//!
//! The set is a tree. A node is one step. It records whether the path that ends there is a member,
//! and it holds the steps that follow. A path does not imply its parents.
//!
//! INVARIANT: nodes are sorted, and each is a member or has children.
//!
//! Complexity: set operations are linear in the nodes that they change or copy, times a binary
//! search. The recursion is as deep as the paths, which the parsers of requests limit (128).
//!
//! Upstream: `structured-merge-diff:fieldpath/{set,serialize}.go`.

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
    /// Returns the set of the paths of fields, each joined by dots.
    pub(super) fn of_paths(paths: &[&str]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<Element> = path.split('.').map(Element::field).collect();
            set.insert(&path);
        }
        set
    }

    /// Parses a written set.
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
            if node.children.is_empty() {
                node.children = children;
            } else {
                // The same step occurs in another spelling.
                node.children = std::mem::take(&mut node.children).union(children);
            }
        }
        Ok(set)
    }

    /// Returns the set as it is stored.
    pub(super) fn value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the number of nodes.
    pub(super) fn count(&self) -> usize {
        let below = self.nodes.iter().map(|node| node.children.count());
        self.nodes.len() + below.sum::<usize>()
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Adds a path. The empty path cannot be owned and is ignored.
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

    /// Returns the paths that are in either set.
    pub(super) fn union(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        let mut theirs = other.nodes.into_iter().peekable();
        let mut nodes = Vec::with_capacity(self.nodes.len().max(theirs.len()));
        for mut node in self.nodes {
            while let Some(other) = theirs.next_if(|other| other.element < node.element) {
                nodes.push(other);
            }
            if let Some(other) = theirs.next_if(|other| other.element == node.element) {
                node.is_member |= other.is_member;
                node.children = node.children.union(other.children);
            }
            nodes.push(node);
        }
        nodes.extend(theirs);
        Self { nodes }
    }

    /// Returns the paths that are in both sets.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let both = self.nodes.iter().filter_map(|node| {
            let theirs = other.find(&node.element)?;
            Some(Node {
                element: node.element.clone(),
                is_member: node.is_member && theirs.is_member,
                children: node.children.intersection(&theirs.children),
            })
        });
        Self {
            nodes: both.filter(Node::is_needed).collect(),
        }
    }

    /// Returns whether any path is in both sets.
    pub(super) fn meets(&self, other: &Self) -> bool {
        let (few, many) = match self.nodes.len() <= other.nodes.len() {
            true => (self, other),
            false => (other, self),
        };
        few.nodes.iter().any(|node| {
            many.find(&node.element).is_some_and(|theirs| {
                (node.is_member && theirs.is_member) || node.children.meets(&theirs.children)
            })
        })
    }

    /// Returns the paths that are in this set but not in the other. Paths below one of the other's
    /// stay.
    pub(super) fn difference(mut self, other: &Self) -> Self {
        self.nodes.retain_mut(|node| {
            if let Some(theirs) = other.find(&node.element) {
                node.is_member &= !theirs.is_member;
                node.children = std::mem::take(&mut node.children).difference(&theirs.children);
            }
            node.is_needed()
        });
        self
    }

    /// Returns the paths that are neither in the other set nor below a path of it.
    pub(super) fn outside(mut self, other: &Self) -> Self {
        self.nodes
            .retain_mut(|node| match other.find(&node.element) {
                None => true,
                Some(theirs) if theirs.is_member => false,
                Some(theirs) => {
                    node.children = std::mem::take(&mut node.children).outside(&theirs.children);
                    node.is_needed()
                }
            });
        self
    }

    /// Applies `change` to each node and returns the resulting set.
    pub(super) fn map(&self, change: impl Fn(&Node) -> Node) -> Self {
        let nodes = self.nodes.iter().map(change).filter(Node::is_needed);
        Self {
            nodes: nodes.collect(),
        }
    }

    /// Passes every path to `hear`: on each level the members first, then the paths below.
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

    /// Returns the node of a step and inserts it if it is missing. The caller makes it a member or
    /// adds children.
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

/// Writes the set in the order of its elements, as upstream does.
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
