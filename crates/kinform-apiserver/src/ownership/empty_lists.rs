//! Replaces empty lists that are always written by null, as storing an object does.
//!
//! ```text
//! object as sent, with its owners recorded ──settle──▶ object as it will be read
//! ```
//!
//! A real server stores protobuf, which cannot tell an empty list from an absent one. A manager
//! that sends `[]` still owns the field, so this step comes after the owners are recorded.
//!
//! Upstream: the round trip through etcd (`kubernetes/apiserver:pkg/storage/etcd3/store.go`).

use kinform_schema::{Container, Type};
use serde_json::Value;

/// Replaces the empty lists of a built-in object. The recursion is as deep as the type's structs,
/// which decoding has bounded.
pub(super) fn settle(of: &Type, value: &mut Value) {
    for field in of.fields() {
        if let (true, Some(inside)) = (field.is_inline(), field.message()) {
            settle(inside, value);
            continue;
        }
        let Some(member) = value.get_mut(field.name()) else {
            continue;
        };
        let is_nothing = member.as_array().is_some_and(Vec::is_empty);
        if is_nothing && field.container() == Container::List && !field.omits_empty() {
            *member = Value::Null;
            continue;
        }
        let Some(inside) = field.message() else {
            continue;
        };
        match (field.container(), member) {
            (Container::Single, value) => settle(inside, value),
            (Container::List, Value::Array(items)) => {
                items.iter_mut().for_each(|item| settle(inside, item));
            }
            (Container::Map, Value::Object(entries)) => {
                entries.values_mut().for_each(|entry| settle(inside, entry));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_of_nothing_is_no_list_where_lists_are_always_written() {
        let of = kinform_schema::builtin("rbac.authorization.k8s.io", "v1", "ClusterRole").unwrap();
        let mut role = json!({"metadata": {"name": "a"}, "rules": []});
        settle(of, &mut role);
        assert_eq!(role["rules"], Value::Null);
        let mut role = json!({"rules": [{"verbs": [], "resources": []}]});
        settle(of, &mut role);
        assert_eq!(role, json!({"rules": [{"verbs": null, "resources": []}]}));
        let of = kinform_schema::builtin("storage.k8s.io", "v1", "CSINode").unwrap();
        let mut node = json!({"spec": {"drivers": []}});
        settle(of, &mut node);
        assert_eq!(node["spec"]["drivers"], Value::Null);
    }
}
