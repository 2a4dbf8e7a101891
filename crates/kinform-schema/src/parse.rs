//! The data's grammar, and the table that it becomes.
//!
//! ```text
//! data/builtins.txt -> Table { types, kinds, resources } behind a OnceLock
//! ```
//!
//! One fact a line; the first character states its kind:
//! * `P package`, `T Name [~atomic]`: a type; types are numbered from 0 in the order of (package, name).
//! * `.name number form [flags] [~topology] [!default]`: a field. `-` is no name (inline). Form: `[`
//!   list, `{` map, then
//!   `s b i l d y ss` scalars, `T M D Q I F R J JB JA JS` special forms, digits a type. Flags: `*`
//!   pointer, `?` omitempty, `0` omitzero, `^` inline, `m r k` patch strategy, `=key` merge key.
//!   Topology where the patch strategy does not imply it: `atomic`, `granular`, `set` or keys.
//! * `V group/version`, `K Kind type`: a kind.
//! * `G group/version`, `R plural singular Kind n|c verbs short,names categories hash`: a resource;
//!   `S name group/version Kind verbs`: its subresource; `-` means absent.
//!
//! INVARIANT: the data is compiled in and read whole by the tests, so a line that does not parse is
//! a mistake of ours and panics.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

use crate::resource::{GroupVersion, Resource, Subresource};
use crate::types::{
    self, Container, Field, FieldType, Flags, Kind, PatchStrategy, Rules, Topology, Type,
};

static DATA: &str = include_str!("../data/builtins.txt");

type Key = (&'static str, &'static str, &'static str);

/// The parsed table.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) types: &'static [Type],
    pub(crate) kinds: HashMap<Key, u16>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) by_plural: HashMap<Key, usize>,
    pub(crate) group_versions: Vec<GroupVersion>,
}

/// The table; the first call parses it.
#[inline]
pub(crate) fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut reader = Reader::default();
        for line in DATA.lines() {
            let Some(()) = reader.line(line) else {
                panic!("the table's line does not parse: {line}")
            };
        }
        reader.finish()
    })
}

#[derive(Default)]
struct Reader {
    table: Table,
    types: Vec<Type>,
    /// The fields of the last type, until it is complete.
    fields: Vec<Field>,
    package: &'static str,
    group_version: Option<GroupVersion>,
}

impl Reader {
    fn line(&mut self, line: &'static str) -> Option<()> {
        if let Some(field) = line.strip_prefix('.') {
            return self.field(field);
        }
        let Some((tag, rest)) = line.split_once(' ') else {
            return line.is_empty().then_some(());
        };
        match tag {
            "#" => {}
            "P" => self.package = rest,
            "T" => self.type_of(rest)?,
            "V" => self.group_version = Some(group_version(rest)),
            "K" => self.kind(rest)?,
            "G" => {
                self.group_version = Some(group_version(rest));
                self.table.group_versions.push(group_version(rest));
            }
            "R" => self.resource(rest)?,
            "S" => self.subresource(rest)?,
            _ => return None,
        }
        Some(())
    }

    fn type_of(&mut self, line: &'static str) -> Option<()> {
        let (name, is_atomic) = match line.split_once(' ') {
            None => (line, false),
            Some((name, "~atomic")) => (name, true),
            Some(_) => return None,
        };
        self.close_type()?;
        self.types.push(Type {
            package: self.package,
            name,
            fields: Box::default(),
            by_number: Box::default(),
            is_kind: false,
            number: u16::try_from(self.types.len()).ok()?,
            nulls: Box::default(),
            is_atomic,
        });
        Some(())
    }

    fn field(&mut self, line: &'static str) -> Option<()> {
        let mut words = line.split(' ').peekable();
        let name = words.next()?;
        let number: u16 = words.next()?.parse().ok()?;
        let (container, kind) = form(words.next()?)?;
        let marks = words.next_if(|word| !word.starts_with(['~', '!']));
        let (flags, patch, merge_key) = flags(marks.unwrap_or_default())?;
        let named = words
            .next_if(|word| word.starts_with('~'))
            .map(|word| &word[1..]);
        let key_default = words
            .next_if(|word| word.starts_with('!'))
            .map(|word| &word[1..]);
        if words.next().is_some() {
            return None;
        }
        self.types.last()?;
        let rules = Rules {
            patch,
            merge_key,
            topology: topology(named, container, patch.merge, merge_key),
            key_default,
        };
        self.fields.push(Field {
            name: if name == "-" { "" } else { name },
            number,
            kind,
            container,
            flags,
            rules: (rules != Rules::default()).then(|| Box::new(rules)),
        });
        Some(())
    }

    /// Moves the fields into the last type, without spare capacity: the table is never written
    /// again.
    fn close_type(&mut self) -> Option<()> {
        let Some(of) = self.types.last_mut() else {
            return self.fields.is_empty().then_some(());
        };
        let fields = std::mem::take(&mut self.fields);
        let most = fields.iter().map(|field| usize::from(field.number)).max();
        let mut by_number = vec![0; most.map_or(0, |most| most + 1)];
        let mut nulls = Vec::new();
        for (at, field) in fields.iter().enumerate() {
            let at = u8::try_from(at).ok()?;
            by_number[usize::from(field.number)] = at.checked_add(1)?;
            if is_null_when_absent(field) {
                nulls.push(at);
            }
        }
        of.fields = fields.into_boxed_slice();
        of.by_number = by_number.into_boxed_slice();
        of.nulls = nulls.into_boxed_slice();
        Some(())
    }

    fn finish(mut self) -> Table {
        let Some(()) = self.close_type() else {
            panic!("the table's last type has too many fields")
        };
        self.types.shrink_to_fit();
        self.table.types = types::keep(self.types);
        self.table.resources.shrink_to_fit();
        self.table
    }

    fn kind(&mut self, line: &'static str) -> Option<()> {
        let (kind, number) = line.split_once(' ')?;
        let number: u16 = number.parse().ok()?;
        let GroupVersion { group, version } = self.group_version?;
        self.table.kinds.insert((group, version, kind), number);
        self.types.get_mut(usize::from(number))?.is_kind = true;
        Some(())
    }

    fn resource(&mut self, line: &'static str) -> Option<()> {
        let words: Vec<&'static str> = line.split(' ').collect();
        let [
            plural,
            singular,
            kind,
            scope,
            letters,
            short_names,
            categories,
            hash,
        ] = words[..]
        else {
            return None;
        };
        let group_version = self.group_version?;
        let key = (group_version.group, group_version.version, plural);
        self.table.by_plural.insert(key, self.table.resources.len());
        self.table.resources.push(Resource {
            group_version,
            plural,
            singular,
            kind,
            is_namespaced: scope == "n",
            verbs: verbs(letters)?,
            short_names: list(short_names),
            categories: list(categories),
            storage_version_hash: if hash == "-" { "" } else { hash },
            subresources: Vec::new(),
        });
        Some(())
    }

    fn subresource(&mut self, line: &'static str) -> Option<()> {
        let words: Vec<&'static str> = line.split(' ').collect();
        let [name, of, kind, letters] = words[..] else {
            return None;
        };
        let parent = self.table.resources.last_mut()?;
        parent.subresources.push(Subresource {
            name,
            group_version: (of != "-").then(|| group_version(of)),
            kind,
            verbs: verbs(letters)?,
        });
        Some(())
    }
}

/// Returns whether JSON writes `null` for a field that protobuf omits: Go's zero value is nil
/// there.
fn is_null_when_absent(field: &Field) -> bool {
    let Flags {
        pointer,
        omit_empty,
        omit_zero,
        inline,
        ..
    } = field.flags;
    if omit_zero || inline {
        return false;
    }
    let is_time = matches!(
        field.kind,
        Kind::Plain(FieldType::Time | FieldType::MicroTime)
    );
    let is_bytes = matches!(field.kind, Kind::Plain(FieldType::Bytes));
    let is_single = field.container == Container::Single;
    // To Go a time is a struct, which is never empty.
    (is_time && is_single && !pointer) || (!omit_empty && (pointer || !is_single || is_bytes))
}

fn group_version(text: &'static str) -> GroupVersion {
    let (group, version) = text.split_once('/').unwrap_or(("", text));
    GroupVersion { group, version }
}

fn list(text: &'static str) -> Vec<&'static str> {
    if text == "-" {
        Vec::new()
    } else {
        text.split(',').collect()
    }
}

fn verbs(letters: &str) -> Option<Vec<&'static str>> {
    let verb = |letter| {
        Some(match letter {
            'c' => "create",
            'd' => "delete",
            'D' => "deletecollection",
            'g' => "get",
            'l' => "list",
            'p' => "patch",
            'u' => "update",
            'w' => "watch",
            _ => return None,
        })
    };
    letters.chars().map(verb).collect()
}

fn form(text: &str) -> Option<(Container, Kind)> {
    let (container, code) = match text.as_bytes().first()? {
        b'[' => (Container::List, &text[1..]),
        b'{' => (Container::Map, &text[1..]),
        _ => (Container::Single, text),
    };
    let plain = match code {
        "s" => FieldType::String,
        "b" => FieldType::Bool,
        "i" => FieldType::Int32,
        "l" => FieldType::Int64,
        "d" => FieldType::Double,
        "y" => FieldType::Bytes,
        "ss" => FieldType::Strings,
        "T" => FieldType::Time,
        "M" => FieldType::MicroTime,
        "D" => FieldType::Duration,
        "Q" => FieldType::Quantity,
        "I" => FieldType::IntOrString,
        "F" => FieldType::FieldsV1,
        "R" => FieldType::RawExtension,
        "J" => FieldType::Json,
        "JB" => FieldType::JsonSchemaPropsOrBool,
        "JA" => FieldType::JsonSchemaPropsOrArray,
        "JS" => FieldType::JsonSchemaPropsOrStringArray,
        number => return Some((container, Kind::Message(number.parse().ok()?))),
    };
    Some((container, Kind::Plain(plain)))
}

fn flags(text: &'static str) -> Option<(Flags, PatchStrategy, Option<&'static str>)> {
    let (marks, merge_key) = match text.split_once('=') {
        Some((marks, key)) => (marks, Some(key)),
        None => (text, None),
    };
    let mut flags = Flags::default();
    let mut patch = PatchStrategy::default();
    for mark in marks.chars() {
        match mark {
            '*' => flags.pointer = true,
            '?' => flags.omit_empty = true,
            '0' => flags.omit_zero = true,
            '^' => flags.inline = true,
            'm' => patch.merge = true,
            'r' => patch.replace = true,
            'k' => patch.retain_keys = true,
            _ => return None,
        }
    }
    Some((flags, patch, merge_key))
}

/// The topology that a marker names, or that follows from the patch strategy of a merged list;
/// `None` without either.
fn topology(
    named: Option<&'static str>,
    container: Container,
    merges: bool,
    merge_key: Option<&'static str>,
) -> Option<Topology> {
    Some(match (named, container) {
        (Some("atomic"), _) => Topology::Atomic,
        (Some("granular"), _) => Topology::Granular,
        (Some("set"), _) => Topology::Set,
        (Some(names), _) => Topology::Keyed(keys(names)),
        (None, Container::List) if merges => {
            merge_key.map_or(Topology::Set, |key| Topology::Keyed(keys(key)))
        }
        (None, _) => return None,
    })
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

    #[test]
    fn every_line_of_the_table_parses_and_every_reference_leads_somewhere() {
        let table = table();
        for of in table.types {
            for field in of.fields() {
                if let Kind::Message(number) = field.kind {
                    assert!(
                        usize::from(number) < table.types.len(),
                        "{of:?}.{}",
                        field.name
                    );
                }
                assert!(
                    of.field_by_number(field.number())
                        .is_some_and(|f| f.name == field.name)
                );
                assert_eq!(field.name.is_empty(), field.is_inline(), "{of:?}");
            }
        }
        let names: Vec<_> = table.types.iter().map(|of| (of.package, of.name)).collect();
        assert!(names.is_sorted());
    }

    #[test]
    fn a_line_that_is_not_in_the_grammar_is_refused() {
        for line in [
            "X y",
            ".f",
            ".f 1 ?",
            ".f 1 s #",
            ".f 1 s !x ~set",
            "T A b",
            "K Pod x",
            "R a b c",
            "S a",
            "word",
        ] {
            let mut reader = Reader {
                package: "p",
                ..Reader::default()
            };
            reader.line("T A");
            assert_eq!(reader.line(line), None, "{line}");
        }
    }
}
