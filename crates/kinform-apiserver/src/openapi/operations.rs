//! The operations of each path, in terms of OpenAPI.
//!
//! ```text
//! ResourceInfo ──▶ path ──▶ { get, put, patch, .. }: parameters, body, replies, kind
//! ```
//!
//! Clients find here the kind of a path, the media types of patches, and whether a write supports
//! dry runs and field validation. Connections (exec, proxy, logs) and the deprecated watch paths
//! are left out, because clients do not look for them here.
//!
//! Upstream: `apiserver:pkg/endpoints/installer.go`, `apiextensions-apiserver:pkg/controller/openapi/builder`.

use serde_json::{Map, Value, json};

use super::custom;
use super::types::{Dialect, Schemas};
use crate::openapi::gvk;
use crate::protobuf;
use crate::resource::{ResourceInfo, Subresource};

/// A query parameter and its type.
type Parameter = (&'static str, &'static str);

const LIST: &[Parameter] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("shardSelector", "string"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const WRITE: &[Parameter] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
];
const PATCH: &[Parameter] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
    ("force", "boolean"),
];
const DELETE: &[Parameter] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
    ),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
const PATCHES: &[&str] = &[
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];
/// The patch types of a custom resource, which has no merge keys.
const CUSTOM_PATCHES: &[&str] = PATCHES.split_at(3).0;
const TEXTS: &[&str] = &["application/json", "application/yaml"];
const ALL: &[&str] = &["application/json", protobuf::MEDIA_TYPE, "application/yaml"];

/// One method of a path.
struct Call<'a> {
    method: &'static str,
    action: &'static str,
    /// The beginning and the end of the operation's name.
    id: (&'a str, String),
    parameters: Vec<Parameter>,
    body: Option<Sent>,
    reply: Value,
    codes: &'static [&'static str],
    kind: Value,
}

/// The body of a request.
struct Sent {
    schema: Value,
    media: &'static [&'static str],
    is_required: bool,
}

/// Adds the operations of a resource to the paths.
pub(super) fn describe(of: &ResourceInfo, schemas: &mut Schemas, paths: &mut Map<String, Value>) {
    let mut writer = Writer { of, schemas, paths };
    writer.collection();
    writer.one();
    for part in &of.subresources {
        writer.part(part);
    }
}

struct Writer<'a> {
    of: &'a ResourceInfo,
    schemas: &'a mut Schemas,
    paths: &'a mut Map<String, Value>,
}

impl Writer<'_> {
    fn collection(&mut self) {
        let of = self.of;
        let mut calls = Vec::new();
        // A resource that cannot be listed has no list kind.
        let list = of.has_verb("list").then(|| self.list_schema());
        let namespaced = if of.is_namespaced() { "Namespaced" } else { "" };
        if let Some(list) = &list {
            calls.push(Call {
                id: ("list", format!("{namespaced}{}", of.kind)),
                ..self.call("get", "list", LIST, list.clone())
            });
        }
        if of.has_verb("create") {
            let schema = self.kind_schema();
            calls.push(Call {
                id: ("create", format!("{namespaced}{}", of.kind)),
                body: Some(self.sent(schema.clone())),
                codes: &["200", "201", "202"],
                ..self.call("post", "post", WRITE, schema)
            });
        }
        if of.has_verb("deletecollection") {
            calls.push(self.delete_collection(namespaced));
        }
        self.path(&self.place(), calls);
        if let Some(list) = list.filter(|_| of.is_namespaced()) {
            let call = Call {
                id: ("list", format!("{}ForAllNamespaces", of.kind)),
                ..self.call("get", "list", LIST, list)
            };
            let everywhere = format!("{}/{}", self.base(), of.plural);
            self.path(&everywhere, vec![call]);
        }
    }

    fn delete_collection<'n>(&mut self, namespaced: &str) -> Call<'n> {
        let (options, status) = (
            self.schemas.meta("DeleteOptions"),
            self.schemas.meta("Status"),
        );
        let call = self.call("delete", "deletecollection", LIST, status);
        let id = ("delete", format!("Collection{namespaced}{}", self.of.kind));
        if self.of.is_custom() {
            return Call { id, ..call };
        }
        let of_watches =
            |parameter: &&Parameter| ["allowWatchBookmarks", "watch"].contains(&parameter.0);
        let lists = LIST.iter().filter(|parameter| !of_watches(parameter));
        let body = Some(Sent {
            is_required: false,
            ..self.sent(options)
        });
        Call {
            id,
            parameters: lists.chain(DELETE).copied().collect(),
            body,
            ..call
        }
    }

    fn one(&mut self) {
        let namespaced = if self.of.is_namespaced() {
            "Namespaced"
        } else {
            ""
        };
        let name = format!("{namespaced}{}", self.of.kind);
        let schema = self.kind_schema();
        let kind = gvk(&self.of.group, &self.of.version, &self.of.kind);
        let mut calls = self.reads_and_writes(&self.of.verbs, &name, &schema, &kind);
        if self.of.has_verb("delete") {
            let (options, status) = (
                self.schemas.meta("DeleteOptions"),
                self.schemas.meta("Status"),
            );
            // For namespaces, upstream documents a status but returns the object.
            let is_shown = self.of.rules.returns_deleted && !self.of.is_core("namespaces");
            let reply = if is_shown { schema } else { status };
            let is_required = false;
            calls.push(Call {
                id: ("delete", name),
                body: Some(Sent {
                    is_required,
                    ..self.sent(options)
                }),
                codes: &["200", "202"],
                ..self.call("delete", "delete", DELETE, reply)
            });
        }
        let place = format!("{}/{{name}}", self.place());
        self.path(&place, calls);
    }

    fn part(&mut self, part: &Subresource) {
        let own = (&*self.of.group, &*self.of.version);
        let (group, version) = part.group_version.unwrap_or(own);
        let schema = match kinform_schema::builtin(group, version, &part.kind) {
            Some(of) if !part.kind.ends_with("Options") => self.schemas.built_in(of),
            None if self.of.is_custom() => self.kind_schema(),
            // A connection, or a reply of plain text.
            _ => return,
        };
        let mut title = part.name.to_owned();
        title[..1].make_ascii_uppercase();
        let namespaced = if self.of.is_namespaced() {
            "Namespaced"
        } else {
            ""
        };
        let name = format!("{namespaced}{}{title}", self.of.kind);
        let kind = match self.of.is_custom() {
            true => gvk(own.0, own.1, &self.of.kind),
            false => gvk(group, version, &part.kind),
        };
        let mut calls = self.reads_and_writes(&part.verbs, &name, &schema, &kind);
        if part.verbs.contains(&"create") {
            calls.push(Call {
                id: ("create", name),
                body: Some(self.sent(schema.clone())),
                codes: &["200", "201", "202"],
                kind,
                ..self.call("post", "post", WRITE, schema)
            });
        }
        let place = format!("{}/{{name}}/{}", self.place(), part.name);
        self.path(&place, calls);
    }

    /// Adds get, put and patch of an object or a subresource.
    fn reads_and_writes<'n>(
        &mut self,
        verbs: &[&str],
        name: &str,
        schema: &Value,
        kind: &Value,
    ) -> Vec<Call<'n>> {
        let of = self.of;
        let mut calls = Vec::new();
        if verbs.contains(&"get") {
            let parameters: &[Parameter] = match of.is_custom() {
                true => &[("resourceVersion", "string")],
                false => &[],
            };
            calls.push(Call {
                id: ("read", name.to_owned()),
                kind: kind.clone(),
                ..self.call("get", "get", parameters, schema.clone())
            });
        }
        if verbs.contains(&"update") {
            calls.push(Call {
                id: ("replace", name.to_owned()),
                body: Some(self.sent(schema.clone())),
                codes: &["200", "201"],
                kind: kind.clone(),
                ..self.call("put", "put", WRITE, schema.clone())
            });
        }
        if verbs.contains(&"patch") {
            let patch = self.schemas.meta("Patch");
            let media = if of.is_custom() {
                CUSTOM_PATCHES
            } else {
                PATCHES
            };
            calls.push(Call {
                id: ("patch", name.to_owned()),
                body: Some(Sent {
                    media,
                    ..self.sent(patch)
                }),
                codes: if of.is_custom() {
                    &["200"]
                } else {
                    &["200", "201"]
                },
                kind: kind.clone(),
                ..self.call("patch", "patch", PATCH, schema.clone())
            });
        }
        calls
    }

    fn call<'n>(
        &self,
        method: &'static str,
        action: &'static str,
        parameters: &[Parameter],
        reply: Value,
    ) -> Call<'n> {
        Call {
            method,
            action,
            id: ("", String::new()),
            parameters: parameters.to_vec(),
            body: None,
            reply,
            codes: &["200"],
            kind: gvk(&self.of.group, &self.of.version, &self.of.kind),
        }
    }

    fn sent(&self, schema: Value) -> Sent {
        let media = if self.of.is_custom() { TEXTS } else { &["*/*"] };
        Sent {
            schema,
            media,
            is_required: true,
        }
    }

    fn kind_schema(&mut self) -> Value {
        self.schema_of(&self.of.kind)
    }

    fn schema_of(&mut self, kind: &str) -> Value {
        let of = self.of;
        if of.is_custom() {
            return custom::refer(of, self.schemas);
        }
        // The kind of a subresource may be one that is not stored, such as `Binding`.
        let built_in = kinform_schema::builtin(&of.group, &of.version, kind)
            .or_else(|| kinform_schema::named_type("k8s.io/api/core/v1", kind));
        match built_in {
            Some(built_in) => self.schemas.built_in(built_in),
            None => custom::refer(of, self.schemas),
        }
    }

    fn list_schema(&mut self) -> Value {
        let of = self.of;
        if of.is_custom() {
            custom::refer_list(of, self.schemas)
        } else {
            self.schema_of(&of.list_kind)
        }
    }

    fn base(&self) -> String {
        match self.of.group.as_str() {
            "" => format!("/api/{}", self.of.version),
            group => format!("/apis/{group}/{}", self.of.version),
        }
    }

    fn place(&self) -> String {
        let namespace = if self.of.is_namespaced() {
            "/namespaces/{namespace}"
        } else {
            ""
        };
        format!("{}{namespace}/{}", self.base(), self.of.plural)
    }

    fn path(&mut self, path: &str, calls: Vec<Call<'_>>) {
        if calls.is_empty() {
            return;
        }
        let mut item = Map::new();
        for call in calls {
            item.insert(call.method.to_owned(), self.operation(&call));
        }
        let of_path = ["name", "namespace"].iter();
        let of_path = of_path.filter(|name| path.contains(&format!("{{{name}}}")));
        let mut parameters: Vec<Value> = of_path
            .map(|name| self.parameter((name, "string"), "path"))
            .collect();
        parameters.push(self.parameter(("pretty", "string"), "query"));
        item.insert("parameters".to_owned(), Value::from(parameters));
        self.paths.insert(path.to_owned(), Value::Object(item));
    }

    fn parameter(&self, (name, kind): Parameter, place: &str) -> Value {
        let mut parameter = json!({"name": name, "in": place});
        match self.schemas.dialect {
            Dialect::V2 => {
                parameter["type"] = Value::from(kind);
                parameter["uniqueItems"] = Value::from(true);
            }
            Dialect::V3 => parameter["schema"] = json!({"type": kind, "uniqueItems": true}),
        }
        if place == "path" {
            parameter["required"] = Value::from(true);
        }
        parameter
    }

    fn operation(&self, call: &Call<'_>) -> Value {
        let group = camel(&self.of.group);
        let version = &self.of.version;
        let (mut upper_group, mut upper_version) = (group.clone(), version.clone());
        upper_group[..1].make_ascii_uppercase();
        upper_version[..1].make_ascii_uppercase();
        let (verb, name) = &call.id;
        let mut parameters: Vec<Value> = Vec::new();
        let mut operation = json!({
            "tags": [format!("{group}_{version}")],
            "operationId": format!("{verb}{upper_group}{upper_version}{name}"),
            "x-kubernetes-action": call.action,
            "x-kubernetes-group-version-kind": call.kind,
        });
        let media = if self.of.is_custom() { TEXTS } else { ALL };
        if self.schemas.dialect == Dialect::V2 {
            operation["produces"] = Value::from(media);
        }
        if let Some(sent) = &call.body {
            let required = sent.is_required;
            if self.schemas.dialect == Dialect::V2 {
                operation["consumes"] = Value::from(sent.media);
                let (name, schema) = ("body", &sent.schema);
                parameters.push(
                    json!({"name": name, "in": name, "required": required, "schema": schema}),
                );
            } else {
                let content = content(sent.media, &sent.schema);
                operation["requestBody"] = json!({"content": content});
                if required {
                    operation["requestBody"]["required"] = Value::from(true);
                }
            }
        }
        let others = call.parameters.iter();
        parameters.extend(others.map(|parameter| self.parameter(*parameter, "query")));
        if !parameters.is_empty() {
            operation["parameters"] = Value::from(parameters);
        }
        let mut responses = json!({"401": {"description": "Unauthorized"}});
        for code in call.codes {
            let description = match *code {
                "200" => "OK",
                "201" => "Created",
                _ => "Accepted",
            };
            responses[*code] = match self.schemas.dialect {
                Dialect::V2 => json!({"description": description, "schema": call.reply}),
                Dialect::V3 => {
                    json!({"description": description, "content": content(media, &call.reply)})
                }
            };
        }
        operation["responses"] = responses;
        operation
    }
}

fn content(media: &[&str], schema: &Value) -> Value {
    let of = |media: &&str| ((*media).to_owned(), json!({"schema": schema}));
    Value::Object(media.iter().map(of).collect())
}

/// Returns a group as it is written in names of operations: `rbacAuthorization`.
fn camel(group: &str) -> String {
    let group = match group.trim_end_matches(".k8s.io") {
        "" => "core",
        group => group,
    };
    let mut name = String::new();
    for word in group.split(['.', '-']).filter(|word| !word.is_empty()) {
        let start = name.len();
        name.push_str(word);
        if start > 0 {
            name[start..=start].make_ascii_uppercase();
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_words_in_names_of_operations() {
        for (group, want) in [
            ("", "core"),
            ("apps", "apps"),
            ("rbac.authorization.k8s.io", "rbacAuthorization"),
            ("stable.example.com", "stableExampleCom"),
            ("a-b.example.com", "aBExampleCom"),
        ] {
            assert_eq!(camel(group), want, "{group}");
        }
    }
}
