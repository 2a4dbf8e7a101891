//! Built-in types and kinds, and their look-up.
//!
//! ```text
//! (group, version, kind) or a Go type's name -> Type -> field(JSON name) | field_by_number(n)
//! ```
//!
//! Upstream: the scheme of `kubernetes/client-go:kubernetes/scheme`.
//!
//! Complexity: `builtin` and `named_type` hash; `field` scans the type's names (40 at most) and
//! those of its inline fields; `field_by_number` and `numbered_type` are one read.

use std::fmt;

use crate::field::Field;
use crate::parse::table;

/// A built-in type: a kind, or a part of one.
#[derive(Clone)]
pub struct Type {
    pub(crate) package: &'static str,
    pub(crate) name: &'static str,
    pub(crate) fields: Box<[Field]>,
    /// Field number to position plus one; 0 where the type has no such field.
    pub(crate) by_number: Box<[u8]>,
    pub(crate) is_kind: bool,
    pub(crate) is_atomic: bool,
    pub(crate) number: u16,
    /// Positions of the fields that JSON writes as null when protobuf omits them.
    pub(crate) nulls: Box<[u8]>,
}

impl Type {
    /// Its name in Go, as `PodSpec`. Names are unique within a package only.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its Go package, as `k8s.io/api/core/v1`.
    pub fn package(&self) -> &'static str {
        self.package
    }

    /// Returns whether it is a kind: then its JSON may carry `apiVersion` and `kind`, which are
    /// not fields of the table.
    pub fn is_kind(&self) -> bool {
        self.is_kind
    }

    /// Returns whether server-side apply takes a value as a unit: the owner of a field owns it all.
    pub fn is_atomic(&self) -> bool {
        self.is_atomic
    }

    /// Its place in the table of this build: for keeping a reference in two bytes.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The positions in [`fields`](Self::fields) of the fields that JSON writes as null when
    /// protobuf omits them: lists, maps, pointers and bytes that are not omitted when empty, and
    /// times that are no pointers.
    pub fn nulls(&self) -> &[u8] {
        &self.nulls
    }

    /// Its fields in the order of the Go struct, which is the order of the server's JSON.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Its fields in the order of their protobuf numbers, which is the order of the server's protobuf.
    pub fn fields_by_number(&self) -> impl DoubleEndedIterator<Item = &Field> {
        let positions = self.by_number.iter();
        positions.filter_map(|at| self.fields.get(usize::from(*at).checked_sub(1)?))
    }

    /// The field of a JSON name; those of inline fields are found, too.
    pub fn field(&self, name: &str) -> Option<&Field> {
        if name.is_empty() {
            return None;
        }
        self.fields
            .iter()
            .find(|field| field.name == name)
            .or_else(|| {
                let inline = self.fields.iter().filter(|field| field.is_inline());
                inline
                    .filter_map(Field::message)
                    .find_map(|message| message.field(name))
            })
    }

    /// The field of a protobuf number.
    #[inline]
    pub fn field_by_number(&self, number: u32) -> Option<&Field> {
        self.fields.get(self.position(number)?)
    }

    /// The position in [`fields`](Self::fields) of the field of a protobuf number.
    #[inline]
    pub fn position(&self, number: u32) -> Option<usize> {
        let position = *self.by_number.get(usize::try_from(number).ok()?)?;
        usize::from(position).checked_sub(1)
    }
}

/// Prints the name only: types refer to each other in circles.
impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.package, self.name)
    }
}

/// The type of a built-in kind; group `""` is the core group.
pub fn builtin(group: &str, version: &str, kind: &str) -> Option<&'static Type> {
    let kinds = &table().kinds;
    kinds
        .get(&(group, version, kind))
        .map(|number| &table().types[usize::from(*number)])
}

/// The type of a [number](Type::number).
pub fn numbered_type(number: u16) -> Option<&'static Type> {
    table().types.get(usize::from(number))
}

/// Every built-in kind, lists and old versions included: (group, version, kind, type), in no
/// promised order.
pub fn kinds() -> impl Iterator<Item = (&'static str, &'static str, &'static str, &'static Type)> {
    let table = table();
    table.kinds.iter().map(|((group, version, kind), number)| {
        (*group, *version, *kind, &table.types[usize::from(*number)])
    })
}

/// The type of a Go package and name, as (`k8s.io/apimachinery/pkg/apis/meta/v1`, `ObjectMeta`).
pub fn named_type(package: &str, name: &str) -> Option<&'static Type> {
    let table = table();
    let at = table
        .types
        .binary_search_by(|probe| (probe.package, probe.name).cmp(&(package, name)));
    at.ok().map(|at| &table.types[at])
}
