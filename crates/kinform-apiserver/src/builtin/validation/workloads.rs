//! Checks of workloads: templates, selectors, strategies, jobs and schedules.
//!
//! ```text
//! :matches_template -> the selector selects the pods that the template makes
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/apis/{apps,batch,policy,autoscaling}/validation`.

use std::borrow::Cow;
use std::collections::HashSet;

use kinform_api::{FieldError, ShownValue, names};
use kinform_schema::Type;
use serde_json::{Value, json};

use super::rule::Check;
use super::{Errors, Site, checks, words};
use crate::object::metadata;
use crate::object::metadata::shown;
use crate::object::{at, text};

pub(super) fn named(name: &str) -> Option<Check> {
    Some(match name {
        ":both_budgets" => both_budgets,
        ":failure_rule" => failure_rule,
        ":completions" => completions,
        ":job_name" => job_name,
        ":job_restarts" => job_restarts,
        ":matches_map" => matches_map,
        ":matches_template" => matches_template,
        ":not_both_zero" => not_both_zero,
        ":not_empty_selector" => not_empty_selector,
        ":progress_deadline" => progress_deadline,
        ":replica_bounds" => replica_bounds,
        ":restarts_always" => restarts_always,
        ":schedule" => schedule,
        ":scale_target" => scale_target,
        ":service_account_name" => service_account_name,
        ":time_zone" => time_zone,
        _ => return None,
    })
}

/// Returns an object as it is validated: the template of a stateful set has a volume for each claim
/// template, as its pods will have.
///
/// Upstream: `pkg/apis/apps/validation` (`ValidatePodTemplateSpecForStatefulSet`).
pub(super) fn with_claimed_volumes<'a>(of: &Type, object: &'a Value) -> Cow<'a, Value> {
    let claims = at(object, &["spec", "volumeClaimTemplates"]).and_then(Value::as_array);
    let claims = claims.filter(|claims| of.name() == "StatefulSet" && !claims.is_empty());
    let (Some(claims), Some(Value::Object(_))) =
        (claims, at(object, &["spec", "template", "spec"]))
    else {
        return Cow::Borrowed(object);
    };
    let mut names: HashSet<&str> = HashSet::new();
    let mut volumes: Vec<Value> = Vec::new();
    for name in claims
        .iter()
        .map(|claim| text(claim, &["metadata", "name"]))
    {
        if names.insert(name) {
            let claim = json!({"claimName": name});
            volumes.push(json!({"name": name, "persistentVolumeClaim": claim}));
        }
    }
    let own = at(object, &["spec", "template", "spec", "volumes"]).and_then(Value::as_array);
    let own = own.into_iter().flatten();
    volumes.extend(
        own.filter(|own| !names.contains(text(own, &["name"])))
            .cloned(),
    );
    let mut whole = object.clone();
    whole["spec"]["template"]["spec"]["volumes"] = Value::from(volumes);
    Cow::Owned(whole)
}

/// Returns whether a label selector selects these labels.
pub(super) fn selects(selector: &Value, labels: Option<&Value>) -> bool {
    let label = |key: &str| {
        labels
            .and_then(|labels| labels.get(key))
            .and_then(Value::as_str)
    };
    let pairs = selector.get("matchLabels").and_then(Value::as_object);
    let mut pairs = pairs.into_iter().flatten();
    let requirements = selector.get("matchExpressions").and_then(Value::as_array);
    let holds = |requirement: &Value| {
        let value = label(text(requirement, &["key"]));
        let values = requirement.get("values").and_then(Value::as_array);
        let is_one =
            value.is_some_and(|value| values.into_iter().flatten().any(|one| *one == value));
        match text(requirement, &["operator"]) {
            "In" => is_one,
            "NotIn" => !is_one,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    };
    pairs.all(|(key, value)| label(key) == value.as_str())
        && requirements.into_iter().flatten().all(holds)
}

fn is_selecting_nothing(selector: &Value) -> bool {
    let is_empty = |name: &str| match selector.get(name) {
        Some(Value::Object(members)) => members.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        _ => true,
    };
    is_empty("matchLabels") && is_empty("matchExpressions")
}

fn not_empty_selector(site: &Site<'_>, errors: &mut Errors<'_>) {
    if let Some(selector) = site.value
        && is_selecting_nothing(selector)
    {
        let shown = ShownValue::raw("{}");
        errors.push(FieldError::invalid(site.path(), shown, site.detail()));
    }
}

fn mismatch(site: &Site<'_>, labels: Option<&Value>) -> FieldError {
    let field = format!("{}.metadata.labels", site.path());
    let detail = "`selector` does not match template `labels`";
    FieldError::invalid(field, shown(labels), detail)
}

fn matches_template(site: &Site<'_>, errors: &mut Errors<'_>) {
    let selector = at(site.scope.value, &["selector"]).filter(|selector| !selector.is_null());
    let mut wrong = errors.apart();
    if let Some(selector) = selector {
        checks::label_selector("", selector, &mut wrong);
        if !wrong.is_empty() {
            let field = format!("{}.selector", site.scope.path());
            errors.push(FieldError::invalid(
                field,
                shown_selector(selector),
                "invalid label selector",
            ));
        }
        if is_selecting_nothing(selector) || !wrong.is_empty() {
            // Already reported for the selector.
            return;
        }
    }
    let labels = site
        .value
        .and_then(|template| at(template, &["metadata", "labels"]));
    if !selector.is_some_and(|selector| selects(selector, labels)) {
        errors.push(mismatch(site, labels));
    }
}

/// A selector with its members in Go's order.
fn shown_selector(selector: &Value) -> ShownValue {
    let names = ["matchLabels", "matchExpressions"].into_iter();
    let members =
        names.filter_map(|name| selector.get(name).map(|value| format!("{name:?}:{value}")));
    ShownValue::raw(format!("{{{}}}", members.collect::<Vec<_>>().join(",")))
}

/// Like `matches_template`, for a selector that is a map of labels.
fn matches_map(site: &Site<'_>, errors: &mut Errors<'_>) {
    let selector = at(site.scope.value, &["selector"]).and_then(Value::as_object);
    let labels = site
        .value
        .and_then(|template| at(template, &["metadata", "labels"]));
    let Some(selector) = selector.filter(|_| site.value.is_some()) else {
        return;
    };
    let has =
        |(key, value): (&String, &Value)| labels.and_then(|labels| labels.get(key)) == Some(value);
    if !selector.iter().all(has) {
        errors.push(mismatch(site, labels));
    }
}

fn restarts_always(site: &Site<'_>, errors: &mut Errors<'_>) {
    let policy = site.text();
    if !policy.is_empty() && policy != "Always" {
        errors.push(FieldError::not_supported(site.path(), policy, &["Always"]));
    }
}

fn job_restarts(site: &Site<'_>, errors: &mut Errors<'_>) {
    match site.text() {
        "" | "Always" => {
            let detail = "valid values: \"OnFailure\", \"Never\"";
            errors.push(FieldError::required(site.path(), detail));
        }
        "OnFailure" | "Never" => {}
        other => errors.push(FieldError::not_supported(
            site.path(),
            other,
            &["OnFailure", "Never"],
        )),
    }
}

/// Returns whether a number or percentage of pods is zero or absent; `false` for other values.
fn is_zero(value: Option<&Value>) -> bool {
    match value {
        Some(Value::String(text)) => words::percent(text) == Some(0),
        Some(value) => value.as_i64() == Some(0),
        None => true,
    }
}

fn not_both_zero(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(update) = site.value else { return };
    if is_zero(update.get("maxUnavailable")) && is_zero(update.get("maxSurge")) {
        let value = update
            .get("maxUnavailable")
            .map_or_else(|| ShownValue::raw("0"), |value| shown(Some(value)));
        let detail = "may not be 0 when `maxSurge` is 0";
        errors.push(FieldError::invalid(
            format!("{}.maxUnavailable", site.path()),
            value,
            detail,
        ));
    }
}

fn progress_deadline(site: &Site<'_>, errors: &mut Errors<'_>) {
    let ready = at(site.scope.value, &["minReadySeconds"])
        .and_then(Value::as_i64)
        .unwrap_or(0);
    if site.value.is_some() && site.number() <= ready {
        let detail = "must be greater than minReadySeconds";
        errors.push(FieldError::invalid(site.path(), site.number(), detail));
    }
}

fn both_budgets(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(spec) = site.value else { return };
    if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(FieldError::invalid(site.path(), shown(Some(spec)), detail));
    }
}

/// A rule is about exit codes or about conditions.
fn failure_rule(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(rule) = site.value else { return };
    let has = |name: &str| {
        rule.get(name)
            .is_some_and(|value| !metadata::is_unset(value))
    };
    let words = match (has("onExitCodes"), has("onPodConditions")) {
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        _ => return,
    };
    errors.push(FieldError::invalid(site.path(), ShownValue::raw(words), ""));
}

fn job_name(site: &Site<'_>, errors: &mut Errors<'_>) {
    let (name, spec) = (site.text(), &site.scope.value["spec"]);
    let completions = at(spec, &["completions"]).and_then(Value::as_i64);
    if text(spec, &["completionMode"]) != "Indexed" {
        return;
    }
    let last = completions.unwrap_or(0) - 1;
    let wrong = names::dns_label_errors(&format!("{name}-{last}"));
    for _ in wrong {
        let detail = format!("will not able to create pod with invalid DNS label: {name}-{last}");
        errors.push(FieldError::invalid(site.path(), name, detail));
    }
}

fn completions(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(spec) = site.value else { return };
    let path = site.path();
    let number = |name: &str| spec.get(name).and_then(Value::as_i64);
    let is_indexed = text(spec, &["completionMode"]) == "Indexed";
    if is_indexed && number("completions").is_none() {
        let detail = "when completion mode is Indexed";
        errors.push(FieldError::required(format!("{path}.completions"), detail));
    }
    if let Some(failed) = number("maxFailedIndexes") {
        let field = format!("{path}.maxFailedIndexes");
        if number("completions").is_some_and(|completions| failed > completions) {
            let detail = "must be less than or equal to completions";
            errors.push(FieldError::invalid(field, failed, detail));
        }
        if number("backoffLimitPerIndex").is_none() {
            let field = format!("{path}.backoffLimitPerIndex");
            let detail = "when maxFailedIndexes is specified";
            errors.push(FieldError::required(field, detail));
        }
    }
    if number("backoffLimitPerIndex").is_some() && !is_indexed {
        let detail = "requires indexed completion mode";
        let limit = number("backoffLimitPerIndex").unwrap_or(0);
        errors.push(FieldError::invalid(
            format!("{path}.backoffLimitPerIndex"),
            limit,
            detail,
        ));
    }
}

/// A schedule has five fields, each with numbers in their range: `*/5 0-3 * JAN mon,TUE`.
///
/// Upstream: `robfig/cron`, `ParseStandard`.
fn schedule(site: &Site<'_>, errors: &mut Errors<'_>) {
    let text = site.text();
    if text.is_empty() {
        errors.push(FieldError::required(site.path(), ""));
        return;
    }
    if let Err(detail) = parse_schedule(text) {
        errors.push(FieldError::invalid(site.path(), text, detail));
    }
    if text.contains("TZ") {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.push(FieldError::invalid(site.path(), text, detail));
    }
}

fn parse_schedule(text: &str) -> Result<(), String> {
    if let Some(name) = text.strip_prefix('@') {
        let known = [
            "yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly",
        ];
        if known.contains(&name) || name.starts_with("every ") {
            return Ok(());
        }
        return Err(format!("unrecognized descriptor: {text}"));
    }
    let text = text
        .strip_prefix("TZ=")
        .and_then(|rest| rest.split_once(' '))
        .map_or(text, |(_, rest)| rest);
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != 5 {
        let list = fields.join(" ");
        return Err(format!(
            "expected exactly 5 fields, found {}: [{list}]",
            fields.len()
        ));
    }
    const MONTHS: [&str; 12] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
    let bounds: [(u32, u32, &[&str], u32); 5] = [
        (0, 59, &[], 0),
        (0, 23, &[], 0),
        (1, 31, &[], 0),
        (1, 12, &MONTHS, 1),
        (0, 6, &DAYS, 0),
    ];
    for (field, bounds) in fields.iter().zip(bounds) {
        for part in field.split(',') {
            schedule_part(part, bounds)?;
        }
    }
    Ok(())
}

fn schedule_part(
    part: &str,
    (least, most, named, first): (u32, u32, &[&str], u32),
) -> Result<(), String> {
    let mut pieces = part.split('/');
    let (range, step, more) = (
        pieces.next().unwrap_or_default(),
        pieces.next(),
        pieces.next(),
    );
    if more.is_some() {
        return Err(format!("too many slashes: {part}"));
    }
    let number = |text: &str| {
        if let Some(place) = named.iter().position(|name| *name == text.to_lowercase()) {
            return Ok(u32::try_from(place).unwrap_or(0) + first);
        }
        text.parse::<u32>().map_err(|_| {
            format!(
                "failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"
            )
        })
    };
    let (start, end) = match range.split_once('-') {
        _ if range == "*" || range == "?" => (least, most),
        Some((_, rest)) if rest.contains('-') => return Err(format!("too many hyphens: {part}")),
        Some((start, end)) => (number(start)?, number(end)?),
        None => {
            let start = number(range)?;
            (start, if step.is_some() { most } else { start })
        }
    };
    if step.map(number).transpose()? == Some(0) {
        return Err(format!("step of range should be a positive number: {part}"));
    }
    if start < least {
        return Err(format!(
            "beginning of range ({start}) below minimum ({least}): {part}"
        ));
    }
    if end > most {
        return Err(format!(
            "end of range ({end}) above maximum ({most}): {part}"
        ));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {part}"
        ));
    }
    Ok(())
}

fn time_zone(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(Value::String(zone)) = site.value else {
        return;
    };
    // Without an installed time zone database, every name is accepted.
    let is_known = jiff::tz::db().is_definitively_empty() || jiff::tz::TimeZone::get(zone).is_ok();
    if zone.is_empty() {
        errors.push(FieldError::invalid(
            site.path(),
            "",
            "timeZone must be nil or non-empty string",
        ));
    } else if zone.eq_ignore_ascii_case("local") {
        let detail =
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.push(FieldError::invalid(site.path(), zone.as_str(), detail));
    } else if !is_known {
        let detail = format!("unknown time zone {zone}");
        errors.push(FieldError::invalid(site.path(), zone.as_str(), detail));
    }
}

fn replica_bounds(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(spec) = site.value else { return };
    let number = |name: &str| spec.get(name).and_then(Value::as_i64);
    let (least, most) = (number("minReplicas"), number("maxReplicas").unwrap_or(0));
    let path = site.path();
    if let Some(least) = least.filter(|least| *least < 1) {
        let detail = "must be greater than or equal to 1";
        errors.push(FieldError::invalid(
            format!("{path}.minReplicas"),
            least,
            detail,
        ));
    }
    if most < 0 {
        let detail = "must be greater than 0";
        errors.push(FieldError::invalid(
            format!("{path}.maxReplicas"),
            most,
            detail,
        ));
    }
    if least.is_some_and(|least| most < least) {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid(
            format!("{path}.maxReplicas"),
            most,
            detail,
        ));
    }
}

fn scale_target(site: &Site<'_>, errors: &mut Errors<'_>) {
    let target = site.value.unwrap_or(&Value::Null);
    let path = site.path();
    for name in ["kind", "name"] {
        let value = text(target, &[name]);
        let field = format!("{path}.{name}");
        if value.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if let Some(letter) = ['/', '%']
            .into_iter()
            .find(|letter| value.contains(*letter))
        {
            errors.push(FieldError::invalid(
                field,
                value,
                format!("may not contain '{letter}'"),
            ));
        } else if matches!(value, "." | "..") {
            errors.push(FieldError::invalid(
                field,
                value,
                format!("may not be '{value}'"),
            ));
        }
    }
    let version = text(target, &["apiVersion"]);
    if !version.contains('/') && text(target, &["kind"]) != "ReplicationController" {
        let detail = "apiVersion must specify API group";
        errors.push(FieldError::invalid(
            format!("{path}.apiVersion"),
            version,
            detail,
        ));
    }
}

fn service_account_name(site: &Site<'_>, errors: &mut Errors<'_>) {
    if !site.text().is_empty() {
        checks::form(site, errors, names::dns_subdomain_errors(site.text()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_upstream_reads_them() {
        for good in [
            "* * * * *",
            "*/5 0-3 * JAN mon,TUE",
            "@hourly",
            "0 0 1 1 ?",
            "1-59/2 * * * *",
        ] {
            assert_eq!(parse_schedule(good), Ok(()), "{good}");
        }
        for (bad, words) in [
            ("x", "expected exactly 5 fields, found 1: [x]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            (
                "5-1 * * * *",
                "beginning of range (5) beyond end of range (1): 5-1",
            ),
            (
                "*/0 * * * *",
                "step of range should be a positive number: */0",
            ),
            (
                "a * * * *",
                "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax",
            ),
        ] {
            assert_eq!(parse_schedule(bad), Err(words.to_owned()), "{bad}");
        }
    }
}
