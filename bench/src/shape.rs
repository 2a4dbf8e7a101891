//! The objects that a corpus is made of.
//!
//! ```text
//! Shape, how many, seed ──plant──▶ embedded server: the objects of its collections
//! ```
//!
//! Most figures are about pods: about 8 KB each, two fifths of it managedFields. The mix has the
//! other kinds that clusters are full of, of 2 to 11 KB, and a custom resource. The unseen objects
//! were never used while kinform was made fast. They differ from the rest on purpose: escapes and
//! other alphabets in long strings, deep nesting, numbers, objects of some hundred bytes among some
//! of 60 KB. They check that no figure holds for one shape of object only.

use std::io;

use kinform_apiserver::{Seed, Server};
use serde_json::{Value, json};

/// The kinds of objects in a corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Pods.
    Pods,
    /// Nodes, deployments, config maps, secrets and certificates (a custom resource).
    Mix,
    /// Endpoint slices, replica sets, and a custom resource with text.
    Unseen,
    /// The objects of a small operator: ten pods for each certificate.
    Operator,
}

/// Objects of one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collection {
    /// Its group; empty for the core group.
    pub group: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Its plural.
    pub plural: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// Its name in the embedded server's store.
    pub shelf: &'static str,
}

const fn collection(
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    shelf: &'static str,
) -> Collection {
    Collection {
        group,
        version: "v1",
        plural,
        kind,
        shelf,
    }
}

const PODS: [Collection; 1] = [collection("", "pods", "Pod", "pods")];
const MIX: [Collection; 5] = [
    collection("", "nodes", "Node", "nodes"),
    collection("apps", "deployments", "Deployment", "deployments.apps"),
    collection("", "configmaps", "ConfigMap", "configmaps"),
    collection("", "secrets", "Secret", "secrets"),
    collection(
        GROUP,
        "certificates",
        "Certificate",
        "certificates.bench.example.com",
    ),
];
const OPERATOR: [Collection; 2] = [PODS[0], MIX[4]];
const UNSEEN: [Collection; 3] = [
    collection(
        "discovery.k8s.io",
        "endpointslices",
        "EndpointSlice",
        "endpointslices.discovery.k8s.io",
    ),
    collection("apps", "replicasets", "ReplicaSet", "replicasets.apps"),
    collection(GROUP, "stories", "Story", "stories.bench.example.com"),
];
const GROUP: &str = "bench.example.com";

impl Collection {
    /// The collection's path on a server.
    #[must_use]
    pub fn path(&self) -> String {
        match self.group {
            "" => format!("/api/{}/{}", self.version, self.plural),
            group => format!("/apis/{group}/{}/{}", self.version, self.plural),
        }
    }

    fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }
}

impl Shape {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Mix => "mix",
            Self::Unseen => "unseen",
            Self::Operator => "operator",
        }
    }

    /// Its collections.
    #[must_use]
    pub fn collections(self) -> &'static [Collection] {
        match self {
            Self::Pods => &PODS,
            Self::Mix => &MIX,
            Self::Unseen => &UNSEEN,
            Self::Operator => &OPERATOR,
        }
    }

    /// The number of objects in each collection, of `objects` in all; an operator's certificates.
    fn counts(self, objects: usize) -> usize {
        match self {
            Self::Operator => objects / 11,
            _ => objects / self.collections().len(),
        }
    }

    /// Stores `objects` objects, over all collections, in a server.
    ///
    /// # Errors
    /// The server refuses an object.
    pub fn plant(self, server: &Server, objects: usize, seed: u64) -> io::Result<()> {
        let counts = self.counts(objects);
        let (nodes, deployments, pods) = match self {
            Self::Pods => (objects / 30, objects / 100, objects),
            Self::Mix => (counts, counts, 0),
            Self::Operator => (objects / 300, objects / 100, objects - counts),
            Self::Unseen => (0, 0, 0),
        };
        if self != Self::Unseen {
            server.seed(Seed {
                seed,
                nodes: nodes.max(1),
                deployments: deployments.max(1),
                pods,
            });
        }
        for collection in self.collections() {
            if collection.group == GROUP {
                restore(server, definition(collection))?;
            }
            let mut dice = Dice(seed ^ collection.plural.len() as u64);
            let Some(make) = maker(collection.plural) else {
                continue;
            };
            for number in 0..counts {
                let mut object = make(number, &mut dice);
                object["apiVersion"] = json!(collection.api_version());
                object["kind"] = json!(collection.kind);
                let metadata = object["metadata"].take();
                object["metadata"] = with_identity(metadata, number, &mut dice);
                restore(server, object)?;
            }
        }
        Ok(())
    }
}

fn restore(server: &Server, object: Value) -> io::Result<()> {
    server
        .restore(object)
        .map_err(|status| io::Error::other(format!("the embedded server: {status:?}")))
}

/// Makes the object of a number: metadata without identity, and the rest.
type Make = fn(usize, &mut Dice) -> Value;

fn maker(plural: &str) -> Option<Make> {
    let makers: [(&str, Make); 6] = [
        ("configmaps", config_map),
        ("secrets", secret),
        ("certificates", certificate),
        ("endpointslices", endpoint_slice),
        ("replicasets", replica_set),
        ("stories", story),
    ];
    let found = makers.into_iter().find(|(name, _)| *name == plural);
    found.map(|(_, make)| make)
}

fn definition(collection: &Collection) -> Value {
    let singular = collection.kind.to_ascii_lowercase();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{GROUP}", collection.plural)},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "plural": collection.plural, "singular": singular,
                "kind": collection.kind, "listKind": format!("{}List", collection.kind),
            },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

const NAMESPACES: [&str; 10] = [
    "bank", "blog", "data", "game", "home", "mail", "news", "shop", "tele", "wiki",
];

fn with_identity(mut metadata: Value, number: usize, dice: &mut Dice) -> Value {
    metadata["name"] = json!(format!("object-{number:06}-{}", dice.letters(5)));
    metadata["namespace"] = json!(NAMESPACES[number % NAMESPACES.len()]);
    metadata["uid"] = json!(dice.uuid());
    metadata["creationTimestamp"] = json!("2026-01-02T03:04:05Z");
    metadata
}

fn managed(manager: &str, fields: Value) -> Value {
    json!([{
        "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields,
        "manager": manager, "operation": "Update", "time": "2026-01-02T03:04:05Z",
    }])
}

fn config_map(number: usize, dice: &mut Dice) -> Value {
    let lines: Vec<String> = (0..24)
        .map(|line| {
            format!(
                "setting.{line}.{} = \"{}\"",
                dice.letters(6),
                dice.letters(24)
            )
        })
        .collect();
    let fields = json!({"f:data": {".": {}, "f:settings.toml": {}, "f:level": {}},
        "f:metadata": {"f:labels": {".": {}, "f:app": {}, "f:helm.sh/chart": {}}}});
    json!({
        "metadata": {
            "labels": {"app": format!("app-{}", number % 400), "helm.sh/chart": "app-4.2.1"},
            "managedFields": managed("helm", fields),
        },
        "data": {"settings.toml": lines.join("\n"), "level": "info"},
    })
}

fn secret(_: usize, dice: &mut Dice) -> Value {
    json!({
        "metadata": {
            "annotations": {"cert-manager.io/issuer-name": "letsencrypt"},
            "managedFields": managed("cert-manager", json!({"f:data": {"f:tls.crt": {}, "f:tls.key": {}}})),
        },
        "type": "kubernetes.io/tls",
        // Characters that are base64 of whole bytes.
        "data": {"tls.crt": dice.letters(2800), "tls.key": dice.letters(1800)},
    })
}

fn certificate(number: usize, dice: &mut Dice) -> Value {
    let host = format!("{}.example.com", dice.letters(8));
    let leaves = [
        "f:dnsNames",
        "f:duration",
        "f:issuerRef",
        "f:privateKey",
        "f:renewBefore",
        "f:secretName",
        "f:usages",
    ];
    let condition = json!({".": {}, "f:lastTransitionTime": {}, "f:message": {},
        "f:observedGeneration": {}, "f:reason": {}, "f:status": {}, "f:type": {}});
    let mut spec = json!({});
    for leaf in leaves {
        spec[leaf] = json!({".": {}, "f:group": {}, "f:kind": {}, "f:name": {}});
    }
    let fields = json!({"f:spec": spec, "f:status": {".": {}, "f:conditions":
        {".": {}, "k:{\"type\":\"Ready\"}": condition}, "f:notAfter": {}, "f:notBefore": {}}});
    json!({
        "metadata": {
            "generation": 3,
            "labels": {"app": format!("app-{}", number % 400)},
            "managedFields": managed("cert-manager-certificates-issuing", fields),
        },
        "spec": {
            "dnsNames": [host, format!("www.{host}")], "duration": "2160h0m0s", "renewBefore": "360h0m0s",
            "issuerRef": {"group": "cert-manager.io", "kind": "ClusterIssuer", "name": "letsencrypt"},
            "privateKey": {"algorithm": "ECDSA", "rotationPolicy": "Always", "size": 256},
            "secretName": format!("tls-{}", dice.letters(10)), "usages": ["digital signature", "server auth"],
        },
        "status": {
            "conditions": [{"lastTransitionTime": "2026-02-03T04:05:06Z", "observedGeneration": 3,
                "message": "Certificate is up to date and has not expired", "reason": "Ready",
                "status": "True", "type": "Ready"}],
            "notAfter": "2026-05-03T04:05:06Z", "notBefore": "2026-02-03T04:05:06Z", "revision": 3,
        },
    })
}

fn endpoint_slice(number: usize, dice: &mut Dice) -> Value {
    let endpoints: Vec<Value> = (0..dice.below(100))
        .map(|_| {
            let (a, b) = (dice.below(250), dice.below(250));
            json!({"addresses": [format!("10.{a}.{b}.7")], "zone": "zone-b",
                "conditions": {"ready": true, "serving": true, "terminating": false},
                "nodeName": format!("node-{}", dice.below(500)),
                "targetRef": {"kind": "Pod", "name": dice.letters(30), "namespace": "shop", "uid": dice.uuid()}})
        })
        .collect();
    json!({
        "metadata": {"labels": {"kubernetes.io/service-name": format!("service-{number}")}},
        "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    })
}

fn replica_set(number: usize, _: &mut Dice) -> Value {
    let labels = json!({"app": format!("app-{}", number % 400)});
    json!({
        "metadata": {"labels": labels},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"image": "x", "name": "x"}]}}},
        "status": {"observedGeneration": 1, "replicas": 0},
    })
}

/// Text with escapes and of several alphabets, in lists in maps in lists; now and then a long one.
fn story(number: usize, dice: &mut Dice) -> Value {
    let words = [
        "\"quoted\"",
        "back\\slash",
        "naïve",
        "日本語",
        "линия",
        "\ttab",
        "🦀",
        "{brace}",
        "[bracket]",
    ];
    let count = if number.is_multiple_of(50) { 6000 } else { 40 };
    let text: Vec<&str> = (0..count).map(|_| words[dice.below(words.len())]).collect();
    let mut nested =
        json!({"text": text.join(" "), "numbers": [-1, 2.5e-3, 1_700_000_000_000_i64]});
    for level in 0..30 {
        nested = json!({"level": level, "inner": [nested, null, true, {}]});
    }
    json!({"metadata": {"annotations": {"note": text[..4].join("\n")}}, "spec": nested})
}

/// Numbers that a seed repeats (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn letters(&mut self, count: usize) -> String {
        (0..count)
            .map(|_| char::from(b'a' + (self.next() % 26) as u8))
            .collect()
    }

    fn uuid(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            (low >> 48) & 0xfff,
            low & 0xffff_ffff_ffff
        )
    }
}
