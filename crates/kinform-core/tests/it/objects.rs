//! Small objects for tests: what a test cares about, and nothing else.

use kinform_core::{Object, Projection};

/// `uid` and `version` as numbers; `node` and the labels become values of indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) namespace: u8,
    pub(crate) name: u8,
    pub(crate) uid: u8,
    pub(crate) version: u64,
    pub(crate) node: u8,
    pub(crate) owners: Vec<u8>,
}

impl Pod {
    pub(crate) fn object(&self) -> Object {
        let Self {
            namespace,
            name,
            uid,
            version,
            node,
            owners,
        } = self;
        let owners: Vec<String> = owners
            .iter()
            .map(|o| format!(r#"{{"apiVersion":"v1","kind":"X","name":"o{o}","uid":"o{o}"}}"#))
            .collect();
        let owners = owners.join(",");
        let app = node % 3;
        let json = format!(
            r#"{{"metadata":{{"namespace":"ns{namespace}","name":"pod{name}","uid":"u{uid}","resourceVersion":"{version}","labels":{{"app":"a{app}"}},"ownerReferences":[{owners}]}},"spec":{{"nodeName":"node{node}"}}}}"#
        );
        Object::from_json(json.as_bytes(), &Projection::default()).unwrap()
    }
}
