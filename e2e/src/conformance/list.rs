//! Lists: their versions, their pages, and refused requests.
//!
//! ```text
//! GET collection ? resourceVersion, match, limit, continue ──▶ items, version, token
//! ```
//!
//! Upstream counterpart: `kubernetes:test/integration/apiserver` (`TestListOptions`,
//! `TestAPIListChunking`).

use serde_json::Value;

use super::probe::{Failure, Probe, holds, names, same, version};
use super::{Row, refusals, rows};

pub(super) const REFUSALS: &[Row] = refusals![
    a_match_without_a_version_is_refused: "TestValidateListOptions";
        "GET" "~/configmaps?resourceVersionMatch=Exact" => 422 "Invalid" "forbidden unless resourceVersion is provided",
    not_older_than_without_a_version_is_refused: "TestValidateListOptions";
        "GET" "~/configmaps?resourceVersionMatch=NotOlderThan" => 422 "Invalid" "forbidden unless",
    a_match_with_a_token_is_refused: "TestValidateListOptions";
        "GET" "~/configmaps?resourceVersionMatch=Exact&resourceVersion=1&continue=x" => 422 "Invalid" "resourceVersionMatch",
    an_unknown_match_is_refused: "TestValidateListOptions";
        "GET" "~/configmaps?resourceVersionMatch=Nearest&resourceVersion=1" => 422 "Invalid" "supported values",
    exact_at_version_0_is_refused: "TestValidateListOptions";
        "GET" "~/configmaps?resourceVersionMatch=Exact&resourceVersion=0" => 422 "Invalid" "forbidden",
    a_list_with_initial_events_is_refused: "TestValidateListOptions";
        "GET" "~/configmaps?sendInitialEvents=true" => 422 "Invalid" "sendInitialEvents is forbidden for list",
    a_list_without_initial_events_said_is_refused_too: "TestValidateListOptions";
        "GET" "~/configmaps?sendInitialEvents=false" => 422 "Invalid" "sendInitialEvents",
    a_malformed_version_of_a_list_is_refused: "apiserver:pkg/storage/cacher";
        "GET" "~/configmaps?resourceVersion=abc" => 400 "BadRequest" "resource version",
    a_negative_version_of_a_list_is_refused: "apiserver:pkg/storage/cacher";
        "GET" "~/configmaps?resourceVersion=-1" => 400 "BadRequest" "resource version",
    a_token_that_is_none_is_refused: "apiserver:pkg/storage/continue.go";
        "GET" "~/configmaps?limit=1&continue=nonsense" => 400 "BadRequest" "continue",
    a_token_with_an_empty_start_is_refused: "apiserver:pkg/storage/continue.go";
        "GET" "~/configmaps?limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiIifQ" => 400 "BadRequest" "continue",
    a_token_of_another_version_is_refused: "apiserver:pkg/storage/continue.go";
        "GET" "~/configmaps?limit=1&continue=eyJ2IjoidjAiLCJydiI6NSwic3RhcnQiOiJhIn0" => 400 "BadRequest" "continue",
    a_limit_that_is_no_number_is_refused: "apiserver:pkg/endpoints/handlers/get.go";
        "GET" "~/configmaps?limit=many" => 400 "BadRequest" "many",
    an_empty_limit_is_refused: "apiserver:pkg/endpoints/handlers/get.go";
        "GET" "~/configmaps?limit=" => 400 "BadRequest" "parsing",
    a_version_from_the_future_times_out: "TestWaitUntilFreshAndListTimeout";
        "GET" "~/configmaps?resourceVersion=99999999999" => 504 "Timeout" "Too large resource version",
    a_version_from_the_future_with_a_match_times_out: "TestWaitUntilFreshAndListTimeout";
        "GET" "~/configmaps?resourceVersion=99999999999&resourceVersionMatch=NotOlderThan" => 504 "Timeout" "Too large resource version",
    a_get_at_a_version_from_the_future_times_out: "TestWaitUntilFreshAndListTimeout";
        "GET" "~/configmaps/x?resourceVersion=99999999999" => 504 "Timeout" "Too large resource version",
    a_bad_timeout_is_refused: "apiserver:pkg/endpoints/filters/request_deadline.go";
        "GET" "~/configmaps?timeout=soon" => 400 "BadRequest" "invalid timeout",
    a_bad_label_selector_is_refused: "apiserver:pkg/endpoints/handlers/get.go";
        "GET" "~/configmaps?labelSelector=a%3D%3D%3Db" => 400 "BadRequest" "unable to parse requirement",
    a_label_value_that_is_none_is_refused: "apimachinery:pkg/labels";
        "GET" "~/configmaps?labelSelector=a%3D-b-" => 400 "BadRequest" "",
    a_field_that_is_not_selectable_is_refused: "apimachinery:pkg/runtime/conversion.go";
        "GET" "~/configmaps?fieldSelector=data.k%3Dv" => 400 "BadRequest" "is not a known field selector",
    a_bad_field_selector_is_refused: "apimachinery:pkg/fields";
        "GET" "~/configmaps?fieldSelector=metadata.name" => 400 "BadRequest" "invalid selector",
];

pub(super) const ROWS: &[Row] = rows![
    an_empty_list_has_items_and_a_version: "TestList (apiserver:pkg/endpoints)",
    items_of_built_ins_have_no_kind: "apiserver:pkg/endpoints/handlers/response.go",
    items_are_in_the_order_of_their_names: "apiserver:pkg/storage (RunTestList)",
    a_list_is_of_the_version_of_the_last_write: "ConsistentListFromCache",
    the_version_is_one_for_all_resources: "kubernetes API concepts: resource versions",
    a_list_not_older_than_a_version_is_at_least_that: "TestListOptions",
    a_list_at_exactly_a_version_is_of_then: "TestListOptions",
    a_list_at_a_version_with_a_limit_is_exact: "TestListOptions",
    version_0_ignores_the_limit: "TestListResourceVersion0",
    pages_have_one_version_and_count_what_remains: "e2e: chunking.go",
    pages_do_not_see_later_writes: "TestAPIListChunking",
    pages_with_a_selector_do_not_count_what_remains: "RunTestListContinuationWithFilter",
    pages_of_a_selector_are_full: "RunTestListPaginationRareObject",
    a_token_with_a_version_is_refused: "TestListOptions",
    a_token_with_version_0_ignores_the_limit: "TestListOptions",
    a_token_of_another_collection_is_refused_or_empty: "apiserver:pkg/storage/continue.go",
    a_limit_of_all_has_no_token: "TestAPIListChunking",
    lists_over_all_namespaces_are_by_namespace_and_name: "RunTestNamespaceScopedList",
    a_get_at_version_0_is_of_some_version: "TestGetListOptions",
    head_is_not_served: "apiserver:pkg/endpoints/request/requestinfo.go",
    the_label_selector_is_in_set_syntax: "apimachinery:pkg/labels",
    the_field_selector_joins_with_and: "apimachinery:pkg/fields",
    pods_are_selected_by_node_and_phase: "kubernetes:pkg/registry/core/pod/strategy.go",
    unknown_parameters_are_ignored: "apiserver:pkg/endpoints/handlers/get.go",
];

async fn three(p: &Probe) -> Result<Vec<Value>, Failure> {
    let mut made = Vec::new();
    for name in ["c", "a", "b"] {
        made.push(p.map(name, "1").await?);
    }
    Ok(made)
}

async fn an_empty_list_has_items_and_a_version(p: &Probe) -> Result<(), Failure> {
    let list = p.get("~/configmaps").await?.code(200)?;
    same("the items", &list["items"], &serde_json::json!([]))?;
    holds("it has a version", version(&list) > 0)?;
    same("the kind", list["kind"].as_str(), Some("ConfigMapList"))
}

async fn items_of_built_ins_have_no_kind(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let list = p.get("~/configmaps").await?.code(200)?;
    let item = &list["items"][0];
    holds(
        "the item has no kind",
        item["kind"].is_null() && item["apiVersion"].is_null(),
    )
}

async fn items_are_in_the_order_of_their_names(p: &Probe) -> Result<(), Failure> {
    three(p).await?;
    p.map("a-0", "1").await?;
    p.map("a.0", "1").await?;
    let list = p.get("~/configmaps").await?.code(200)?;
    same("the names", names(&list), ["a", "a-0", "a.0", "b", "c"])
}

async fn a_list_is_of_the_version_of_the_last_write(p: &Probe) -> Result<(), Failure> {
    let made = three(p).await?;
    let list = p.get("~/configmaps").await?.code(200)?;
    holds(
        "the list sees the write",
        version(&list) >= version(&made[2]),
    )?;
    same("the count", names(&list).len(), 3)
}

async fn the_version_is_one_for_all_resources(p: &Probe) -> Result<(), Failure> {
    let before = p.get("~/secrets").await?.code(200)?;
    let made = p.map("a", "1").await?;
    let after = p.get("~/secrets").await?.code(200)?;
    holds(
        "a write of another resource counts",
        version(&after) >= version(&made),
    )?;
    holds("and is newer", version(&made) > version(&before))
}

async fn a_list_not_older_than_a_version_is_at_least_that(p: &Probe) -> Result<(), Failure> {
    let made = three(p).await?;
    let at = version(&made[2]);
    for query in ["", "&resourceVersionMatch=NotOlderThan"] {
        let path = format!("~/configmaps?resourceVersion={at}{query}");
        let list = p.get(&path).await?.code(200)?;
        holds("its version", version(&list) >= at)?;
        same("the count", names(&list).len(), 3)?;
    }
    Ok(())
}

async fn a_list_at_exactly_a_version_is_of_then(p: &Probe) -> Result<(), Failure> {
    let made = three(p).await?;
    let at = version(&made[1]);
    let path = format!("~/configmaps?resourceVersion={at}&resourceVersionMatch=Exact");
    let list = p.get(&path).await?.code(200)?;
    same("its version", version(&list), at)?;
    same("the names", names(&list), ["a", "c"])
}

async fn a_list_at_a_version_with_a_limit_is_exact(p: &Probe) -> Result<(), Failure> {
    let made = three(p).await?;
    let at = version(&made[1]);
    let list = p
        .get(&format!("~/configmaps?resourceVersion={at}&limit=1"))
        .await?
        .code(200)?;
    same("its version", version(&list), at)?;
    same(
        "what remains",
        list["metadata"]["remainingItemCount"].as_u64(),
        Some(1),
    )
}

async fn version_0_ignores_the_limit(p: &Probe) -> Result<(), Failure> {
    let made = three(p).await?;
    // A list of this version waits until the cache has it.
    let at = version(&made[2]);
    p.get(&format!("~/configmaps?resourceVersion={at}"))
        .await?
        .code(200)?;
    let list = p
        .get("~/configmaps?resourceVersion=0&limit=1")
        .await?
        .code(200)?;
    same("the names", names(&list), ["a", "b", "c"])?;
    holds("no token", list["metadata"]["continue"].is_null())
}

/// The pages of a list, from its first.
async fn pages(p: &Probe, path: &str) -> Result<Vec<Value>, Failure> {
    let mut pages = vec![p.get(path).await?.code(200)?];
    while let Some(token) = pages[pages.len() - 1]["metadata"]["continue"].as_str() {
        let next = format!("{path}&continue={token}");
        let next = p.get(&next).await?.code(200)?;
        pages.push(next);
        holds("the pages end", pages.len() < 20)?;
    }
    Ok(pages)
}

async fn pages_have_one_version_and_count_what_remains(p: &Probe) -> Result<(), Failure> {
    for number in 0..7 {
        p.map(&format!("m-{number}"), "1").await?;
    }
    let pages = pages(p, "~/configmaps?limit=3").await?;
    let sizes: Vec<_> = pages.iter().map(|page| names(page).len()).collect();
    same("the sizes", sizes, [3, 3, 1])?;
    holds(
        "one version",
        pages.iter().all(|page| version(page) == version(&pages[0])),
    )?;
    let remain = |page: &Value| page["metadata"]["remainingItemCount"].as_u64();
    let remain: Vec<_> = pages.iter().map(remain).collect();
    same("what remains", remain, [Some(4), Some(1), None])
}

async fn pages_do_not_see_later_writes(p: &Probe) -> Result<(), Failure> {
    three(p).await?;
    let first = p.get("~/configmaps?limit=1").await?.code(200)?;
    p.map("bb", "1").await?;
    p.delete("~/configmaps/c").await?.code(200)?;
    let token = first["metadata"]["continue"].as_str().unwrap_or_default();
    let rest = p
        .get(&format!("~/configmaps?limit=10&continue={token}"))
        .await?
        .code(200)?;
    same("the names", names(&rest), ["b", "c"])?;
    same("the version", version(&rest), version(&first))
}

async fn pages_with_a_selector_do_not_count_what_remains(p: &Probe) -> Result<(), Failure> {
    three(p).await?;
    let list = p
        .get("~/configmaps?limit=1&labelSelector=of%3Drow")
        .await?
        .code(200)?;
    holds("no count", list["metadata"]["remainingItemCount"].is_null())?;
    holds("a token", list["metadata"]["continue"].is_string())
}

async fn pages_of_a_selector_are_full(p: &Probe) -> Result<(), Failure> {
    for number in 0..9 {
        let mut map = super::probe::config_map(&format!("m-{number}"), "1");
        map["metadata"]["labels"]["rare"] = (number % 4 == 0).to_string().into();
        p.post("~/configmaps", &map).await?.code(201)?;
    }
    let pages = pages(p, "~/configmaps?limit=2&labelSelector=rare%3Dtrue").await?;
    let sizes: Vec<_> = pages.iter().map(|page| names(page).len()).collect();
    same("the sizes", sizes, [2, 1])
}

async fn a_token_with_a_version_is_refused(p: &Probe) -> Result<(), Failure> {
    let made = three(p).await?;
    let first = p.get("~/configmaps?limit=1").await?.code(200)?;
    let token = first["metadata"]["continue"].as_str().unwrap_or_default();
    let at = version(&made[2]);
    let path = format!("~/configmaps?limit=1&resourceVersion={at}&continue={token}");
    let words = "specifying resource version is not allowed when using continue";
    p.get(&path).await?.says(400, "BadRequest", words)?;
    Ok(())
}

async fn a_token_with_version_0_ignores_the_limit(p: &Probe) -> Result<(), Failure> {
    three(p).await?;
    let first = p.get("~/configmaps?limit=1").await?.code(200)?;
    let token = first["metadata"]["continue"].as_str().unwrap_or_default();
    let path = format!("~/configmaps?limit=1&resourceVersion=0&continue={token}");
    let next = p.get(&path).await?.code(200)?;
    same("the names", names(&next), ["b", "c"])
}

async fn a_token_of_another_collection_is_refused_or_empty(p: &Probe) -> Result<(), Failure> {
    three(p).await?;
    let first = p.get("~/configmaps?limit=1").await?.code(200)?;
    let token = first["metadata"]["continue"].as_str().unwrap_or_default();
    let other = p
        .get(&format!("~/secrets?limit=1&continue={token}"))
        .await?
        .code(200)?;
    same("the names", names(&other).len(), 0)
}

async fn a_limit_of_all_has_no_token(p: &Probe) -> Result<(), Failure> {
    three(p).await?;
    let list = p.get("~/configmaps?limit=3").await?.code(200)?;
    let metadata = &list["metadata"];
    holds(
        "no token",
        metadata["continue"].is_null() && metadata["remainingItemCount"].is_null(),
    )
}

async fn lists_over_all_namespaces_are_by_namespace_and_name(p: &Probe) -> Result<(), Failure> {
    three(p).await?;
    let list = p
        .get("/api/v1/configmaps?labelSelector=of%3Drow")
        .await?
        .code(200)?;
    p.forget();
    let key = |item: &Value| {
        let metadata = &item["metadata"];
        (
            metadata["namespace"].to_string(),
            metadata["name"].to_string(),
        )
    };
    let keys: Vec<_> = list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .map(key)
        .collect();
    holds("the keys are sorted", keys.is_sorted())?;
    let mine = keys
        .iter()
        .filter(|(namespace, _)| namespace.trim_matches('"') == p.namespace);
    same("mine", mine.count(), 3)
}

async fn a_get_at_version_0_is_of_some_version(p: &Probe) -> Result<(), Failure> {
    let made = p.map("a", "1").await?;
    let at = version(&made);
    p.get(&format!("~/configmaps?resourceVersion={at}"))
        .await?
        .code(200)?;
    let read = p.get("~/configmaps/a?resourceVersion=0").await?.code(200)?;
    same("the object", version(&read), at)?;
    same("the kind", read["kind"].as_str(), Some("ConfigMap"))
}

async fn head_is_not_served(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let question = super::probe::Question::new("HEAD", "~/configmaps/a");
    let answer = p.ask(question).await?;
    answer.code(405)?;
    holds("no body", answer.body.is_empty())
}

async fn the_label_selector_is_in_set_syntax(p: &Probe) -> Result<(), Failure> {
    for (name, tier) in [("a", "front"), ("b", "back"), ("c", "")] {
        let mut map = super::probe::config_map(name, "1");
        if !tier.is_empty() {
            map["metadata"]["labels"]["tier"] = tier.into();
        }
        p.post("~/configmaps", &map).await?.code(201)?;
    }
    let cases: [(&str, &[&str]); 7] = [
        ("tier", &["a", "b"]),
        ("!tier", &["c"]),
        ("tier%21%3Dfront", &["b", "c"]),
        ("tier%20in%20(front,back)", &["a", "b"]),
        ("tier%20notin%20(front)", &["b", "c"]),
        ("tier,of%3Drow,tier%3D%3Dback", &["b"]),
        ("tier%3D", &[]),
    ];
    for (selector, wanted) in cases {
        let list = p
            .get(&format!("~/configmaps?labelSelector={selector}"))
            .await?
            .code(200)?;
        same(selector, names(&list), wanted)?;
    }
    Ok(())
}

async fn the_field_selector_joins_with_and(p: &Probe) -> Result<(), Failure> {
    three(p).await?;
    let cases: [(&str, &[&str]); 4] = [
        ("metadata.name%3Da", &["a"]),
        ("metadata.name%21%3Da", &["b", "c"]),
        ("metadata.name%21%3Da,metadata.name%21%3Db", &["c"]),
        ("metadata.namespace%3Delsewhere", &[]),
    ];
    for (selector, wanted) in cases {
        let list = p
            .get(&format!("~/configmaps?fieldSelector={selector}"))
            .await?
            .code(200)?;
        same(selector, names(&list), wanted)?;
    }
    Ok(())
}

async fn pods_are_selected_by_node_and_phase(p: &Probe) -> Result<(), Failure> {
    for (name, node) in [("a", "n1"), ("b", "n2")] {
        let pod = serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
        p.post("~/pods", &pod).await?.code(201)?;
    }
    let list = p
        .get("~/pods?fieldSelector=spec.nodeName%3Dn1")
        .await?
        .code(200)?;
    same("by node", names(&list), ["a"])?;
    let list = p
        .get("~/pods?fieldSelector=status.phase%3DPending,spec.nodeName%21%3Dn1")
        .await?;
    same("by phase", names(&list.code(200)?), ["b"])
}

async fn unknown_parameters_are_ignored(p: &Probe) -> Result<(), Failure> {
    three(p).await?;
    let list = p.get("~/configmaps?wings=2").await?.code(200)?;
    same("the names", names(&list), ["a", "b", "c"])
}
