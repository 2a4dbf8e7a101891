//! The parts of a list or map that have owners of their own.
//!
//! ```text
//! marker in the table, else patch strategy -> Topology
//! ```
//!
//! Strategic merge patches and server-side apply mostly agree about lists, but not always: a patch
//! identifies ports by number, server-side apply by number and protocol.
//!
//! Upstream: `x-kubernetes-list-type`, `-list-map-keys` and `-map-type` of
//! `kubernetes/kube-openapi:pkg/schemaconv`.

use std::sync::Mutex;

use crate::field::Container;

/// The parts of a field's value that have owners of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// None: the owner of a part owns all of it.
    Atomic,
    /// Each entry of a map and each field of a struct.
    Granular,
    /// Each item of a list, identified by its value.
    Set,
    /// Each item of a list, identified by these fields.
    Keyed(&'static [&'static str]),
}

impl Topology {
    /// The topology that a marker names, or that follows from the patch strategy of a merged list;
    /// `None` without either.
    pub(crate) fn named(
        named: Option<&'static str>,
        container: Container,
        merges: bool,
        merge_key: Option<&'static str>,
    ) -> Option<Self> {
        Some(match (named, container) {
            (Some("atomic"), _) => Self::Atomic,
            (Some("granular"), _) => Self::Granular,
            (Some("set"), _) => Self::Set,
            (Some(names), _) => Self::Keyed(keys(names)),
            (None, Container::List) if merges => {
                merge_key.map_or(Self::Set, |key| Self::Keyed(keys(key)))
            }
            (None, _) => return None,
        })
    }
}

/// The names of a list joined by commas. The table is read once, and has few such lists: each is kept.
fn keys(joined: &'static str) -> &'static [&'static str] {
    static KNOWN: Mutex<Vec<&'static [&'static str]>> = Mutex::new(Vec::new());
    let mut known = KNOWN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let is_this = |keys: &&&'static [&'static str]| keys.iter().copied().eq(joined.split(','));
    if let Some(keys) = known.iter().find(is_this) {
        return keys;
    }
    // BOUND: the different lists in the compiled-in data, some twenty.
    let keys: &'static [&'static str] = joined.split(',').collect::<Vec<_>>().leak();
    known.push(keys);
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{builtin, named_type};

    fn field(of: &str, name: &str) -> crate::Field {
        let of = named_type("k8s.io/api/core/v1", of).unwrap();
        of.field(name).unwrap().clone()
    }

    #[test]
    fn lists_are_owned_as_a_real_server_publishes_it() {
        assert_eq!(
            field("PodSpec", "containers").topology(),
            Topology::Keyed(&["name"])
        );
        let ports = field("Container", "ports").topology();
        assert_eq!(ports, Topology::Keyed(&["containerPort", "protocol"]));
        assert_eq!(field("Container", "args").topology(), Topology::Atomic);
        assert_eq!(field("PodSpec", "tolerations").topology(), Topology::Atomic);
        assert_eq!(
            field("PodSpec", "nodeSelector").topology(),
            Topology::Atomic
        );
        assert_eq!(field("ConfigMap", "data").topology(), Topology::Granular);
        assert_eq!(field("ServicePort", "protocol").key_default(), Some("TCP"));
        let meta = named_type("k8s.io/apimachinery/pkg/apis/meta/v1", "ObjectMeta").unwrap();
        assert_eq!(meta.field("finalizers").unwrap().topology(), Topology::Set);
        assert_eq!(
            meta.field("ownerReferences").unwrap().topology(),
            Topology::Keyed(&["uid"])
        );
        assert_eq!(
            field("PersistentVolumeSpec", "claimRef").topology(),
            Topology::Granular
        );
        assert_eq!(
            field("EnvVarSource", "secretKeyRef").topology(),
            Topology::Atomic
        );
        let selector = builtin("apps", "v1", "Deployment").unwrap();
        let selector = selector
            .field("spec")
            .unwrap()
            .message()
            .unwrap()
            .field("selector")
            .unwrap();
        assert!(selector.message().unwrap().is_atomic());
    }
}
