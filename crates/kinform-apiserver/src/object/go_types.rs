//! Go's names of the types of fields, for error messages.
//!
//! ```text
//! (package, type, field) -> "v1.ServiceAffinity"       kind of value -> "[]v1.Toleration", "int32"
//! ```
//!
//! The table of types only knows that a field is a text; Go has a named type for it. `go_types.txt`
//! lists the names. It is parsed when the first message needs one.
//!
//! Upstream: the struct types of `kubernetes/api`.

use std::collections::HashMap;
use std::sync::LazyLock;

use kinform_schema::{Container, Field, FieldType, Type};

/// Returns the name of the type of a field, or of an item of its list or map.
pub(crate) fn of_one(of: &Type, field: &Field) -> String {
    if let Some(name) = named(of, field).filter(|name| !is_container(name, field)) {
        return name.to_owned();
    }
    match field.field_type() {
        FieldType::String => "string".to_owned(),
        FieldType::Bool => "bool".to_owned(),
        FieldType::Int32 | FieldType::IntOrString => "int32".to_owned(),
        FieldType::Int64 => "int64".to_owned(),
        FieldType::Double => "float64".to_owned(),
        FieldType::Bytes => "[]uint8".to_owned(),
        FieldType::Strings => "[]string".to_owned(),
        FieldType::Message(message) => {
            let package = message.package().rsplit('/').next().unwrap_or_default();
            format!("{package}.{}", message.name())
        }
        FieldType::Quantity => "resource.Quantity".to_owned(),
        FieldType::Time | FieldType::MicroTime | FieldType::Duration => "string".to_owned(),
        _ => "json".to_owned(),
    }
}

/// Returns the name of the type of a field, including its list or map.
pub(crate) fn of_whole(of: &Type, field: &Field) -> String {
    if let Some(name) = named(of, field).filter(|name| is_container(name, field)) {
        return name.to_owned();
    }
    let one = of_one(of, field);
    match field.container() {
        Container::Single => one,
        Container::List => format!("[]{one}"),
        Container::Map => format!("map[string]{one}"),
    }
}

/// Returns whether a name is that of a map type, which does not show its element type.
fn is_container(name: &str, field: &Field) -> bool {
    field.container() == Container::Map && (name == "v1.ResourceList" || name.ends_with("Map"))
}

fn named(of: &Type, field: &Field) -> Option<&'static str> {
    static NAMES: LazyLock<HashMap<(&str, &str, &str), &str>> = LazyLock::new(|| {
        let mut names = HashMap::new();
        let mut package = "";
        for line in include_str!("go_types.txt").lines() {
            if let Some(of) = line.strip_prefix("P ") {
                package = of;
            } else if let Some(rest) = line.strip_prefix("T ") {
                let mut words = rest.split(' ');
                let of = words.next().unwrap_or_default();
                while let (Some(field), Some(name)) = (words.next(), words.next()) {
                    names.insert((package, of, field.trim_start_matches('.')), name);
                }
            }
        }
        names
    });
    NAMES.get(&(of.package(), of.name(), field.name())).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(of: (&str, &str), field: &str, one: &str, whole: &str) {
        let of = kinform_schema::named_type(of.0, of.1).unwrap();
        let field = of.field(field).unwrap();
        assert_eq!((&*of_one(of, field), &*of_whole(of, field)), (one, whole));
    }

    #[test]
    fn types_have_gos_names() {
        const CORE: &str = "k8s.io/api/core/v1";
        check(
            (CORE, "ServiceSpec"),
            "sessionAffinity",
            "v1.ServiceAffinity",
            "v1.ServiceAffinity",
        );
        check(
            (CORE, "PodSpec"),
            "tolerations",
            "v1.Toleration",
            "[]v1.Toleration",
        );
        check((CORE, "ConfigMap"), "data", "string", "map[string]string");
        check(
            (CORE, "ResourceRequirements"),
            "limits",
            "resource.Quantity",
            "v1.ResourceList",
        );
        let modes = (
            "v1.PersistentVolumeAccessMode",
            "[]v1.PersistentVolumeAccessMode",
        );
        check(
            (CORE, "PersistentVolumeClaimSpec"),
            "accessModes",
            modes.0,
            modes.1,
        );
    }
}
