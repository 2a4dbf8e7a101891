//! CronJobs and Jobs with a time to live beside a test's server, under paused time: as real controllers
//! of Kubernetes 1.37 were seen to act.

use std::time::Duration;

use k8s_openapi::api::batch::v1::{CronJob, Job};
use kinform::Timestamp;
use kinform_testkit::TestServer;
use kube_client::Api;
use kube_client::api::{ApiResource, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::story::{events_of, history, job, object, runs, start, until, until_no_pods, version};

fn cron(script: Value, changes: Value) -> CronJob {
    let mut cron = json!({
        "metadata": {"name": "tick"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {
            "metadata": {"labels": {"from": "cron"}},
            "spec": {"template": {
                "metadata": {"annotations": script},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]},
            }},
        }},
    });
    for (field, value) in changes.as_object().unwrap() {
        cron["spec"][field] = value.clone();
    }
    object(cron)
}

/// A server at five seconds past a minute, and that minute.
async fn start_past_a_minute() -> (TestServer, i64) {
    let now = Timestamp::now();
    let api = start().await;
    let second = now.as_second().rem_euclid(60).unsigned_abs();
    tokio::time::sleep(Duration::from_secs(65 - second)).await;
    (api, now.as_second().div_euclid(60) + 1)
}

async fn minutes(minutes: u64) {
    tokio::time::sleep(Duration::from_secs(60 * minutes)).await;
}

async fn names(api: &TestServer) -> Vec<String> {
    let jobs: Api<Job> = Api::default_namespaced(api.client());
    let jobs = jobs.list(&ListParams::default()).await.unwrap().items;
    let mut names: Vec<String> = jobs
        .into_iter()
        .map(|job| job.metadata.name.unwrap())
        .collect();
    names.sort();
    names
}

async fn change(api: &TestServer, patch: Value) {
    let crons: Api<CronJob> = Api::default_namespaced(api.client());
    crons
        .patch("tick", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

// As recorded: two ticks, of which one is kept.
#[tokio::test(start_paused = true)]
async fn a_cron_job_starts_a_job_each_minute_and_keeps_the_last() {
    let (api, minute) = start_past_a_minute().await;
    let since = version(&api).await;
    let changes = json!({"successfulJobsHistoryLimit": 1, "concurrencyPolicy": "Forbid"});
    let created = api.create(&cron(json!({}), changes)).await.unwrap();
    minutes(2).await;
    let (first, second) = (
        format!("tick-{}", minute + 1),
        format!("tick-{}", minute + 2),
    );
    assert_eq!(names(&api).await, std::slice::from_ref(&second));
    let of_cron = history(&api, &ApiResource::erase::<CronJob>(&()), &since).await;
    let line = |status: &Value| {
        let active = status["active"].as_array().map_or(0, Vec::len);
        let name = status["active"][0]["name"].as_str().unwrap_or_default();
        let at = |field: &str| {
            let time = status[field].as_str()?.parse::<Timestamp>().ok()?;
            Some(time.as_second().div_euclid(60) - minute)
        };
        format!(
            "{active} {name} {:?} {:?}",
            at("lastScheduleTime"),
            at("lastSuccessfulTime")
        )
    };
    let lines: Vec<String> = of_cron[1..]
        .iter()
        .map(|(_, _, cron)| line(&cron["status"]))
        .collect();
    let expected = [
        format!("1 {first} Some(1) None"),
        "0  Some(1) Some(1)".to_owned(),
        format!("1 {second} Some(2) Some(1)"),
        "0  Some(2) Some(2)".to_owned(),
    ];
    assert_eq!(lines, expected);
    let active = &of_cron[1].2["status"]["active"][0];
    assert_eq!(
        (&active["kind"], &active["apiVersion"]),
        (&json!("Job"), &json!("batch/v1"))
    );
    let expected = [
        format!("Normal SuccessfulCreate: Created job {first}"),
        format!("Normal SawCompletedJob: Saw completed job: {first}, condition: Complete"),
        format!("Normal SuccessfulCreate: Created job {second}"),
        format!("Normal SuccessfulDelete: Deleted job {first}"),
        format!("Normal SawCompletedJob: Saw completed job: {second}, condition: Complete"),
    ];
    assert_eq!(events_of(&api, "CronJob", "tick").await, expected);
    let job = api
        .get::<Job>(&format!("default/{second}"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(job.metadata.labels.unwrap()["from"], "cron");
    let annotations = job.metadata.annotations.unwrap();
    let stamp: Timestamp = annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"]
        .parse()
        .unwrap();
    assert_eq!(stamp.as_second(), (minute + 2) * 60);
    let owner = &job.metadata.owner_references.unwrap()[0];
    assert_eq!(
        (&*owner.kind, Some(&owner.uid)),
        ("CronJob", created.metadata.uid.as_ref())
    );

    change(&api, json!({"spec": {"suspend": true}})).await;
    minutes(3).await;
    assert_eq!(names(&api).await, std::slice::from_ref(&second));
    // Only the time that was missed last is made up for.
    change(&api, json!({"spec": {"suspend": false}})).await;
    let last = format!("default/tick-{}", minute + 5);
    api.until(&last, |_: &Job| true).await.unwrap();
    api.delete::<CronJob>("default/tick").await.unwrap();
    api.until_gone::<Job>(&last).await.unwrap();
    until_no_pods(&api, &second).await;
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_still_runs_is_joined_awaited_or_replaced() {
    for (policy, left, told) in [
        (
            "Allow",
            &[1, 2][..],
            "Normal SuccessfulCreate: Created job ",
        ),
        (
            "Forbid",
            &[1][..],
            "Normal JobAlreadyActive: Not starting job because prior execution",
        ),
        ("Replace", &[2][..], "Normal SuccessfulDelete: Deleted job "),
    ] {
        let (api, minute) = start_past_a_minute().await;
        api.create(&cron(runs(), json!({"concurrencyPolicy": policy})))
            .await
            .unwrap();
        minutes(2).await;
        let expected: Vec<String> = left
            .iter()
            .map(|n| format!("tick-{}", minute + n))
            .collect();
        assert_eq!(names(&api).await, expected, "{policy}");
        let events = events_of(&api, "CronJob", "tick").await;
        assert!(
            events.iter().any(|event| event.starts_with(told)),
            "{policy} {events:?}"
        );
        let cron = api.get::<CronJob>("default/tick").await.unwrap().unwrap();
        assert_eq!(
            cron.status.unwrap().active.map(|active| active.len()),
            Some(left.len())
        );
        api.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn times_before_a_change_of_the_schedule_are_not_made_up_for() {
    let (api, minute) = start_past_a_minute().await;
    // Once a year, half a year from now.
    let month = Timestamp::now()
        .strftime("%m")
        .to_string()
        .parse::<i32>()
        .unwrap();
    let far = format!("0 0 1 {} *", (month + 5) % 12 + 1);
    api.create(&cron(json!({}), json!({"schedule": far})))
        .await
        .unwrap();
    minutes(3).await;
    change(&api, json!({"spec": {"schedule": "* * * * *"}})).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(names(&api).await, [""; 0]);
    minutes(1).await;
    assert_eq!(names(&api).await, [format!("tick-{}", minute + 4)]);
    api.stop().await;
}

// As recorded: the delete takes the pods first.
#[tokio::test(start_paused = true)]
async fn a_finished_job_goes_when_its_time_is_over() {
    let api = start().await;
    api.create(&job(
        "ttl",
        json!({}),
        json!({"ttlSecondsAfterFinished": 5}),
    ))
    .await
    .unwrap();
    until(&api, "ttl", "Complete").await;
    let done = Instant::now();
    api.until_gone::<Job>("default/ttl").await.unwrap();
    until_no_pods(&api, "ttl").await;
    // Times of objects are whole seconds.
    let lived = done.elapsed();
    assert!(
        lived > Duration::from_secs(3) && lived < Duration::from_secs(6),
        "{lived:?}"
    );
    api.stop().await;
}
