//! `-o custom-columns=SPEC`: a table whose columns are paths.
//!
//! ```text
//! "NAME:.metadata.name,NODE:.spec.nodeName" ──▶ CustomColumns;  objects ──▶ Table
//! ```
//!
//! Braces and the leading dot of a path may be left out. Values of one cell are separated by
//! commas; a cell without a value is `<none>`.
//!
//! Upstream counterpart: `kubectl:pkg/cmd/get/customcolumn.go`.

use std::str::FromStr;

use kinform_api::{JsonPath, JsonPathError};
use serde_json::Value;

use super::table::Table;

/// The columns of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CustomColumns(Vec<(String, JsonPath)>);

impl FromStr for CustomColumns {
    type Err = String;

    fn from_str(spec: &str) -> Result<Self, String> {
        let columns = split(spec).into_iter().map(|column| {
            let wrong =
                || format!("unexpected custom-columns spec: {column:?}, expected HEADER:PATH");
            let (header, path) = column.split_once(':').ok_or_else(wrong)?;
            let path = path.trim_matches(['{', '}']);
            let path = path.strip_prefix('.').unwrap_or(path);
            if header.is_empty() || path.is_empty() {
                return Err(wrong());
            }
            let path = match path.starts_with(['[', '@', '$']) {
                true => path.parse(),
                false => format!(".{path}").parse(),
            };
            let path = path.map_err(|error: JsonPathError| error.to_string())?;
            Ok((header.to_owned(), path))
        });
        columns.collect::<Result<_, _>>().map(Self)
    }
}

/// Splits at the commas outside of brackets and quotes.
fn split(spec: &str) -> Vec<&str> {
    let (mut parts, mut from, mut open, mut quote) = (Vec::new(), 0, 0_usize, None);
    for (at, letter) in spec.char_indices() {
        match (quote, letter) {
            (Some(ending), letter) if letter == ending => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') if open > 0 => quote = Some(letter),
            (None, '[') => open += 1,
            (None, ']') => open = open.saturating_sub(1),
            (None, ',') if open == 0 => {
                parts.push(&spec[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&spec[from..]);
    parts
}

impl CustomColumns {
    /// Prints a row for each object.
    ///
    /// # Errors
    /// A path leads out of a list.
    pub(crate) fn print<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a Value>,
    ) -> Result<String, JsonPathError> {
        let header: Vec<&str> = self.0.iter().map(|(header, _)| header.as_str()).collect();
        let mut table = Table::new(&header);
        for object in objects {
            let cells = self.0.iter().map(|(_, path)| {
                let values = path.find(object)?;
                let cells: Vec<String> = values.into_iter().map(shown).collect();
                Ok(match cells.is_empty() {
                    true => "<none>".to_owned(),
                    false => cells.join(","),
                })
            });
            table.push(cells.collect::<Result<_, _>>()?);
        }
        Ok(table.render())
    }
}

/// A value as Go prints it: `map[a:1]`, `[a b]`.
// BOUND: as deep as an object, which its parser limits.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(shown).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(members) => {
            let members = members.iter();
            let members: Vec<String> = members
                .map(|(name, value)| format!("{name}:{}", shown(value)))
                .collect();
            format!("map[{}]", members.join(" "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // kubectl: TestNewColumnPrinterWithSpec, TestColumnPrint
    #[test]
    fn rows_are_what_kubectl_prints() {
        let objects = [
            json!({"metadata": {"name": "a", "labels": {"x": "1", "y": "2"}}, "l": [{"n": 1}, {"n": 2}]}),
            json!({"metadata": {"name": "longer"}, "l": [], "nil": null}),
        ];
        let columns: CustomColumns =
            "NAME:.metadata.name,LABELS:metadata.labels,N:{.l[*].n},ALL:.l,Q:.l[?(@.n==2)].n,NIL:.nil"
                .parse()
                .unwrap();
        assert_eq!(
            columns.print(&objects).unwrap(),
            "NAME     LABELS         N        ALL                   Q        NIL\n\
             a        map[x:1 y:2]   1,2      [map[n:1] map[n:2]]   2        <none>\n\
             longer   <none>         <none>   []                    <none>   <nil>\n"
        );
    }

    #[test]
    fn a_spec_that_does_not_parse_is_named() {
        for spec in ["", "NAME", "NAME:", ":.a", "A:.a,", "A:.a[", "A:.a,B"] {
            assert!(spec.parse::<CustomColumns>().is_err(), "{spec}");
        }
        assert!(
            "A:.a[?(@.b==\"x,y\")].c,B:.b"
                .parse::<CustomColumns>()
                .is_ok()
        );
    }
}
