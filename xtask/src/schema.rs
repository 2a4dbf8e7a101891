//! `cargo xtask schema`: makes the table of built-in types that `kinform-schema` carries.
//!
//! ```text
//! types.json (Go struct tags) + discovery.jsonl.gz (a real server's discovery)
//!     + its openapi definitions (who may own what of lists and maps: `topology.rs`) -> data/builtins.txt
//! ```
//!
//! The table is text, one fact a line, so that a change of it can be read in a diff; its grammar is
//! in `kinform-schema/src/parse.rs`. Types are numbered in the order of their names; kinds and
//! fields refer to them by number. The generator never invents: every fact comes from one of the
//! two sources.
//!
//! Upstream: the tags of `kubernetes/api:*/types.go`, and
//! `kubernetes/apiserver:pkg/endpoints/discovery`.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::topology::Topology;

/// The sources of the table, and its place.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The facts about types, as JSON.
    #[arg(long, value_name = "FILE")]
    types: PathBuf,
    /// The openapi documents of a real server, version 2 or 3, as JSON.
    #[arg(long, value_name = "FILE", required = true)]
    definitions: Vec<PathBuf>,
    /// The recorded discovery of a real server (`.jsonl`, gzipped).
    #[arg(
        long,
        value_name = "FILE",
        default_value = "testdata/golden/discovery.jsonl.gz"
    )]
    discovery: PathBuf,
    /// The table to write.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "crates/kinform-schema/data/builtins.txt"
    )]
    out: PathBuf,
}

#[derive(Deserialize)]
struct Types {
    kinds: BTreeMap<String, String>,
    types: BTreeMap<String, Option<Vec<Field>>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Field {
    json: String,
    number: u32,
    #[serde(rename = "type")]
    type_name: String,
    repeated: bool,
    map_key: Option<String>,
    pointer: bool,
    omit_empty: bool,
    omit_zero: bool,
    inline: bool,
    patch: String,
    merge_key: String,
}

#[derive(Deserialize)]
struct Exchange {
    file: String,
    body: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Resource {
    name: String,
    singular_name: String,
    namespaced: bool,
    group: String,
    version: String,
    kind: String,
    verbs: Vec<String>,
    short_names: Vec<String>,
    categories: Vec<String>,
    storage_version_hash: String,
}

/// Types that the wire envelope is made of, and one that Go has but JSON has not: never looked up.
const LEFT_OUT: [&str; 3] = [
    "k8s.io/apimachinery/pkg/runtime.TypeMeta",
    "k8s.io/apimachinery/pkg/runtime.Unknown",
    "time.Time",
];

/// Writes the table and says how large it is.
pub(crate) fn run(arguments: &Arguments) -> Result<String, Box<dyn Error>> {
    let mut types: Types = serde_json::from_slice(&std::fs::read(&arguments.types)?)?;
    types
        .types
        .retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
    let mut out = String::from("# Made by `cargo xtask schema`; grammar: src/parse.rs.\n");
    let numbers: HashMap<&str, usize> = types
        .types
        .keys()
        .enumerate()
        .map(|(number, name)| (name.as_str(), number))
        .collect();
    let topology = Topology::read(&arguments.definitions)?;
    write_types(&mut out, &types, &numbers, &topology)?;
    write_kinds(&mut out, &types, &numbers)?;
    write_resources(&mut out, &types, &read_exchanges(&arguments.discovery)?)?;
    std::fs::write(&arguments.out, &out)?;
    Ok(format!(
        "{}: {} types, {} kinds, {} bytes",
        arguments.out.display(),
        types.types.len(),
        types.kinds.len(),
        out.len()
    ))
}

fn write_types(
    out: &mut String,
    types: &Types,
    numbers: &HashMap<&str, usize>,
    topology: &Topology,
) -> Result<(), Box<dyn Error>> {
    let mut package = "";
    for (name, fields) in &types.types {
        let (of, short) = name.rsplit_once('.').ok_or("a type without a package")?;
        if of != package {
            package = of;
            writeln!(out, "P {package}")?;
        }
        writeln!(out, "T {short}{}", topology.of_type(name))?;
        for field in fields.iter().flatten() {
            let json = if field.json.is_empty() {
                "-"
            } else {
                &field.json
            };
            write!(out, ".{json} {} {}", field.number, form(field, numbers)?)?;
            let flags = flags(field);
            if !flags.is_empty() {
                write!(out, " {flags}")?;
            }
            let patch = (field.patch.as_str(), field.merge_key.as_str());
            out.push_str(&topology.of_field(name, &field.json, patch));
            out.push('\n');
        }
    }
    Ok(())
}

fn form(field: &Field, numbers: &HashMap<&str, usize>) -> Result<String, Box<dyn Error>> {
    let code = match field.type_name.as_str() {
        "string" => "s".to_owned(),
        "bool" => "b".to_owned(),
        "int32" => "i".to_owned(),
        "int64" => "l".to_owned(),
        "float64" => "d".to_owned(),
        "bytes" => "y".to_owned(),
        "list:string" => "ss".to_owned(),
        other => match other.strip_prefix("k8s.io/").and_then(special) {
            Some(code) => code.to_owned(),
            None => numbers
                .get(other)
                .ok_or_else(|| format!("no type {other}"))?
                .to_string(),
        },
    };
    let container = match (&field.map_key, field.repeated) {
        (None, false) => "",
        (None, true) => "[",
        (Some(key), false) if key == "string" => "{",
        _ => return Err(format!("a container of an unknown kind: {}", field.json).into()),
    };
    Ok(format!("{container}{code}"))
}

fn special(name: &str) -> Option<&'static str> {
    Some(match name {
        "apimachinery/pkg/apis/meta/v1.Time" => "T",
        "apimachinery/pkg/apis/meta/v1.MicroTime" => "M",
        "apimachinery/pkg/apis/meta/v1.Duration" => "D",
        "apimachinery/pkg/api/resource.Quantity" => "Q",
        "apimachinery/pkg/util/intstr.IntOrString" => "I",
        "apimachinery/pkg/apis/meta/v1.FieldsV1" => "F",
        "apimachinery/pkg/runtime.RawExtension" => "R",
        "apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON" => "J",
        "apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool" => "JB",
        "apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray" => "JA",
        "apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray" => "JS",
        _ => return None,
    })
}

fn flags(field: &Field) -> String {
    let mut flags = String::new();
    for (set, flag) in [
        (field.pointer, '*'),
        (field.omit_empty, '?'),
        (field.omit_zero, '0'),
        (field.inline, '^'),
    ] {
        if set {
            flags.push(flag);
        }
    }
    for strategy in field
        .patch
        .split(',')
        .filter(|strategy| !strategy.is_empty())
    {
        flags.push_str(match strategy {
            "merge" => "m",
            "replace" => "r",
            "retainKeys" => "k",
            other => unreachable!("the tags know no patch strategy {other}"),
        });
    }
    if !field.merge_key.is_empty() {
        flags.push('=');
        flags.push_str(&field.merge_key);
    }
    flags
}

fn write_kinds(
    out: &mut String,
    types: &Types,
    numbers: &HashMap<&str, usize>,
) -> Result<(), Box<dyn Error>> {
    let mut version = "";
    for (kind, name) in &types.kinds {
        let (of, kind) = kind.split_once(' ').ok_or("a kind without a version")?;
        if of != version {
            version = of;
            writeln!(out, "V {version}")?;
        }
        let number = numbers
            .get(name.as_str())
            .ok_or_else(|| format!("no type {name}"))?;
        writeln!(out, "K {kind} {number}")?;
    }
    Ok(())
}

fn read_exchanges(path: &Path) -> Result<HashMap<String, serde_json::Value>, Box<dyn Error>> {
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(std::fs::File::open(path)?).read_to_string(&mut text)?;
    let mut bodies = HashMap::new();
    for line in text.lines() {
        let exchange: Exchange = serde_json::from_str(line)?;
        if let Some(body) = exchange
            .body
            .as_deref()
            .and_then(|b| serde_json::from_str(b).ok())
        {
            bodies.insert(exchange.file, body);
        }
    }
    Ok(bodies)
}

/// Groups in the order of `/apis` (core first), resources in the order of their group's reply.
/// A group that the table has no types for comes from a custom resource definition: left out.
fn write_resources(
    out: &mut String,
    types: &Types,
    bodies: &HashMap<String, serde_json::Value>,
) -> Result<(), Box<dyn Error>> {
    let body = |file: &str| {
        bodies
            .get(file)
            .ok_or_else(|| format!("no recording of {file}"))
    };
    let mut versions = vec![("v1".to_owned(), "discovery/core.v1.json".to_owned())];
    for group in body("discovery/apis.json")?["groups"]
        .as_array()
        .into_iter()
        .flatten()
    {
        for version in group["versions"].as_array().into_iter().flatten() {
            let version = version["groupVersion"]
                .as_str()
                .ok_or("a version without a name")?;
            let prefix = format!("{version} ");
            if types.kinds.keys().any(|kind| kind.starts_with(&prefix)) {
                let file = format!("discovery/{}.json", version.replace('/', "."));
                versions.push((version.to_owned(), file));
            }
        }
    }
    for (version, file) in versions {
        writeln!(out, "G {version}")?;
        let resources: Vec<Resource> = Deserialize::deserialize(&body(&file)?["resources"])?;
        for resource in resources {
            write_resource(out, &resource)?;
        }
    }
    Ok(())
}

fn write_resource(out: &mut String, resource: &Resource) -> Result<(), Box<dyn Error>> {
    let verbs: String = resource
        .verbs
        .iter()
        .map(|verb| verb_letter(verb))
        .collect();
    if let Some((_, subresource)) = resource.name.split_once('/') {
        let of = match (resource.group.as_str(), resource.version.as_str()) {
            (_, "") => "-".to_owned(),
            ("", version) => version.to_owned(),
            (group, version) => format!("{group}/{version}"),
        };
        writeln!(out, "S {subresource} {of} {} {verbs}", resource.kind)?;
        return Ok(());
    }
    let or_dash = |list: &[String]| match list {
        [] => "-".to_owned(),
        list => list.join(","),
    };
    let scope = if resource.namespaced { "n" } else { "c" };
    let hash = Some(resource.storage_version_hash.as_str()).filter(|hash| !hash.is_empty());
    writeln!(
        out,
        "R {} {} {} {scope} {verbs} {} {} {}",
        resource.name,
        resource.singular_name,
        resource.kind,
        or_dash(&resource.short_names),
        or_dash(&resource.categories),
        hash.unwrap_or("-"),
    )?;
    Ok(())
}

fn verb_letter(verb: &str) -> char {
    match verb {
        "create" => 'c',
        "delete" => 'd',
        "deletecollection" => 'D',
        "get" => 'g',
        "list" => 'l',
        "patch" => 'p',
        "update" => 'u',
        "watch" => 'w',
        other => unreachable!("discovery knows no verb {other}"),
    }
}
