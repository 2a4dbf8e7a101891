//! Refusals: the code, the reason and the words.
//!
//! ```text
//! a request that cannot be served ──▶ Status | plain text
//! ```
//!
//! Upstream counterpart: `apimachinery:pkg/api/errors`,
//! `apiserver:pkg/endpoints/handlers/responsewriters`.

use serde_json::json;

use super::probe::{Failure, Probe, Question, holds, same};
use super::{Row, refusals, rows};

pub(super) const REFUSALS: &[Row] = refusals![
    an_object_that_is_not_there_is_not_found: "NewNotFound";
        "GET" "~/configmaps/none" => 404 "NotFound" "configmaps \"none\" not found",
    an_object_of_a_group_that_is_not_there_is_not_found: "NewNotFound";
        "GET" "~apps/v1/deployments/none" => 404 "NotFound" "deployments.apps \"none\" not found",
    an_unknown_resource_of_a_served_version_is_not_found: "apiserver:pkg/server/handler.go";
        "GET" "~/wings" => 404 "NotFound" "could not find the requested resource",
    an_unknown_core_version_is_not_found: "apiserver:pkg/server/handler.go";
        "GET" "/api/v9/pods" => 404 "NotFound" "could not find the requested resource",
    a_cluster_wide_resource_in_a_namespace_is_not_found: "apiserver:pkg/endpoints/installer.go";
        "GET" "~/nodes" => 404 "NotFound" "",
    an_unknown_subresource_is_not_found: "apiserver:pkg/endpoints/installer.go";
        "GET" "~/configmaps/x/status" => 404 "NotFound" "could not find the requested resource",
    deleting_what_is_not_there_is_not_found: "NewNotFound";
        "DELETE" "~/configmaps/none" => 404 "NotFound" "configmaps \"none\" not found",
    replacing_what_is_not_there_is_not_found: "NewNotFound";
        "PUT" "~/configmaps/none" "application/json" r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"none"}}"#
        => 404 "NotFound" "configmaps \"none\" not found",
    patching_what_is_not_there_is_not_found: "NewNotFound";
        "PATCH" "~/configmaps/none" "application/merge-patch+json" "{}" => 404 "NotFound" "configmaps \"none\" not found",
    a_post_to_an_object_is_not_allowed: "apiserver:pkg/endpoints/installer.go";
        "POST" "~/configmaps/x" "application/json" "{}" => 405 "MethodNotAllowed" "",
    a_put_to_a_collection_is_not_allowed: "apiserver:pkg/endpoints/installer.go";
        "PUT" "~/configmaps" "application/json" "{}" => 405 "MethodNotAllowed" "",
    a_patch_of_a_collection_is_not_allowed: "apiserver:pkg/endpoints/installer.go";
        "PATCH" "~/configmaps" "application/merge-patch+json" "{}" => 405 "MethodNotAllowed" "",
    a_review_cannot_be_read: "apiserver:pkg/endpoints/installer.go";
        "GET" "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" => 405 "MethodNotAllowed" "",
    a_body_that_is_not_json_is_refused: "apiserver:pkg/endpoints/handlers/create.go";
        "POST" "~/configmaps" "application/json" "{" => 400 "BadRequest" "",
    a_body_without_a_kind_is_taken_or_refused_alike: "apiserver:pkg/endpoints/handlers/create.go";
        "POST" "~/configmaps" "application/json" r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"}}"#
        => 400 "BadRequest" "",
    a_body_of_another_version_is_refused: "apiserver:pkg/endpoints/handlers/create.go";
        "POST" "~apps/v1/deployments" "application/json" r#"{"kind":"Deployment","apiVersion":"apps/v1beta1","metadata":{"name":"x"}}"#
        => 400 "BadRequest" "",
    a_wrong_type_in_a_body_is_refused: "apiserver:pkg/endpoints/handlers/create.go";
        "POST" "~/configmaps" "application/json" r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"},"data":[1]}"#
        => 400 "BadRequest" "",
    an_unknown_media_type_of_a_body_is_refused: "apiserver:pkg/endpoints/handlers/negotiation";
        "POST" "~/configmaps" "application/xml" "<x/>" => 415 "UnsupportedMediaType" "",
    an_unknown_patch_type_is_refused: "apiserver:pkg/endpoints/handlers/patch.go";
        "PATCH" "~/configmaps/x" "application/json" "{}" => 415 "UnsupportedMediaType" "",
    an_unknown_dry_run_is_refused: "apimachinery:pkg/apis/meta/v1/validation";
        "POST" "~/configmaps?dryRun=Some" "application/json" r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"}}"#
        => 422 "Invalid" "dryRun",
    an_unknown_field_validation_is_refused: "apimachinery:pkg/apis/meta/v1/validation";
        "POST" "~/configmaps?fieldValidation=Hard" "application/json" r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"}}"#
        => 422 "Invalid" "fieldValidation",
];

pub(super) const ROWS: &[Row] = rows![
    an_unknown_group_is_plain_text: "apiserver:pkg/server/handler.go",
    an_unknown_path_is_plain_text: "apiserver:pkg/server/handler.go",
    nobody_is_forbidden: "apiserver:pkg/endpoints/filters/authorization.go",
    a_wrong_token_is_unauthorized: "apiserver:pkg/endpoints/filters/authentication.go",
    a_refusal_names_what_was_asked_for: "apimachinery:pkg/api/errors",
    a_retry_is_advised_where_it_helps: "TestGetRetryAfter",
    a_form_that_is_not_produced_is_not_acceptable: "apiserver:pkg/endpoints/handlers/negotiation",
    a_body_that_is_too_large_is_refused: "apiserver:pkg/endpoints/handlers/rest.go",
    a_config_map_that_is_too_large_is_invalid: "kubernetes:pkg/apis/core/validation",
    a_refusal_is_a_status_even_for_a_table: "TestWatchTable",
];

async fn plain(p: &Probe, path: &str) -> Result<(), Failure> {
    let answer = p.get(path).await?;
    answer.code(404)?;
    same(
        "the body",
        String::from_utf8_lossy(&answer.body).trim(),
        "404 page not found",
    )?;
    holds(
        "it is text",
        answer.header("content-type").starts_with("text/plain"),
    )
}

async fn an_unknown_group_is_plain_text(p: &Probe) -> Result<(), Failure> {
    plain(p, "/apis/wings.example.com/v1/things").await
}

async fn an_unknown_path_is_plain_text(p: &Probe) -> Result<(), Failure> {
    plain(p, "/wings").await
}

async fn with_token(
    p: &Probe,
    token: Option<&str>,
    path: &str,
) -> Result<super::probe::Answer, Failure> {
    p.as_somebody_else(token, path).await
}

async fn nobody_is_forbidden(p: &Probe) -> Result<(), Failure> {
    let answer = with_token(p, None, "/api/v1/nodes").await?;
    let words = "User \"system:anonymous\" cannot list resource \"nodes\" in API group \"\" at the cluster scope";
    answer.says(403, "Forbidden", words)?;
    Ok(())
}

async fn a_wrong_token_is_unauthorized(p: &Probe) -> Result<(), Failure> {
    let answer = with_token(p, Some("wrong"), "/api/v1/nodes").await?;
    answer.says(401, "Unauthorized", "Unauthorized")?;
    Ok(())
}

async fn a_refusal_names_what_was_asked_for(p: &Probe) -> Result<(), Failure> {
    let status = p
        .get("~apps/v1/deployments/none")
        .await?
        .refused(404, "NotFound")?;
    let wanted = json!({"name": "none", "group": "apps", "kind": "deployments"});
    same("the details", &status["details"], &wanted)
}

async fn a_retry_is_advised_where_it_helps(p: &Probe) -> Result<(), Failure> {
    let answer = p.get("~/configmaps?resourceVersion=99999999999").await?;
    answer.refused(504, "Timeout")?;
    same("the header", answer.header("retry-after"), "1")
}

async fn a_form_that_is_not_produced_is_not_acceptable(p: &Probe) -> Result<(), Failure> {
    p.get_as("~/configmaps", "application/xml")
        .await?
        .refused(406, "NotAcceptable")?;
    Ok(())
}

async fn a_body_that_is_too_large_is_refused(p: &Probe) -> Result<(), Failure> {
    let map = super::probe::config_map("big", &"x".repeat(4 << 20));
    p.post("~/configmaps", &map)
        .await?
        .refused(413, "RequestEntityTooLarge")?;
    Ok(())
}

async fn a_config_map_that_is_too_large_is_invalid(p: &Probe) -> Result<(), Failure> {
    let map = super::probe::config_map("big", &"x".repeat(3 << 19));
    p.post("~/configmaps", &map).await?.says(
        422,
        "Invalid",
        "Too long: may not be more than 1048576 bytes",
    )?;
    Ok(())
}

async fn a_refusal_is_a_status_even_for_a_table(p: &Probe) -> Result<(), Failure> {
    let accept = Some("application/json;as=Table;v=v1;g=meta.k8s.io,application/json");
    let question = Question {
        accept,
        ..Question::new("GET", "~/configmaps/none")
    };
    p.ask(question).await?.refused(404, "NotFound")?;
    Ok(())
}
