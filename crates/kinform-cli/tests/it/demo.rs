//! The demo, which is the first command of the README, its acts and its tour.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

use crate::command::{kinform, outcome};

#[tokio::test]
async fn the_demo_runs_survives_its_faults_and_agrees_with_its_server() {
    // The faults come at a third and at two thirds of the time. Writes go on until its end, so the
    // caches agree with the server only if the informers listed again.
    let words = ["--pods=100", "--churn=50", "--for=3s", "--output=json"];
    let mut command = kinform(None, &words);
    // A proxy is not for this host.
    command.env("HTTPS_PROXY", "http://127.0.0.1:1");
    command.env("HTTP_PROXY", "http://127.0.0.1:1");
    let (code, stdout, stderr) = outcome(command).await;
    assert_eq!(code, 0, "{stderr}");
    let summary: Value = serde_json::from_str(&stdout).unwrap();
    let number = |name: &str| summary[name].as_f64().unwrap();
    assert!(number("pods") > 50.0 && number("objects") > number("pods"));
    assert!(number("handlerEvents") > number("objects"), "{summary}");
    assert!(number("reconciles") > 0.0, "{summary}");
    assert!(number("relists") > 0.0, "{summary}");
    for said in [
        "every watch was cut",
        "history expired",
        "every key of every cache agrees with the server",
    ] {
        assert!(stderr.contains(said), "{said}: {stderr}");
    }
}

#[tokio::test]
async fn acts_of_the_command_line_play_in_turn_and_are_undone() {
    let words = [
        "demo",
        "--pods=100",
        "--for=1s",
        "--act=5",
        "--act=7",
        "--output=json",
    ];
    let (code, stdout, stderr) = outcome(kinform(None, &words)).await;
    assert_eq!(code, 0, "{stderr}");
    // A run that is over waits for the effect of its acts.
    let found = stderr.find("found: status.conditions").unwrap();
    let refused = stderr.find("failed calling webhook").unwrap();
    assert!(found < refused, "{stderr}");
    assert!(stderr.contains("[5] A reconcile writes"), "{stderr}");
    assert!(stderr.contains("look at Problems"), "{stderr}");
    assert!(stderr.contains("agrees with the server"), "{stderr}");
    let summary: Value = serde_json::from_str(&stdout).unwrap();
    let fields: Vec<_> = summary.as_object().unwrap().keys().cloned().collect();
    let expected = [
        "eventsPerSecond",
        "handlerEvents",
        "latencyP50Ms",
        "latencyP99Ms",
        "objects",
        "pods",
        "reconciles",
        "relists",
        "rssBytes",
        "syncSeconds",
    ];
    assert_eq!(fields, expected);
}

#[tokio::test]
async fn an_act_that_does_not_exist_is_wrong_usage() {
    for act in ["0", "9", "cut"] {
        let (code, _, stderr) = outcome(kinform(None, &["demo", "--act", act])).await;
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains("--act"), "{stderr}");
    }
}

#[tokio::test]
async fn the_address_of_the_page_is_printed_and_a_browser_gets_it() {
    let folder = tempfile::tempdir().unwrap();
    let (browser, opened) = (folder.path().join("browser"), folder.path().join("opened"));
    std::fs::write(
        &browser,
        "#!/bin/sh\nprintf %s \"$1\" > \"$(dirname \"$0\")/opened\"\n",
    )
    .unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o700)).unwrap();
    let words = ["--web", "--pods=50", "--for=1s"];
    let mut command = kinform(None, &words);
    command.env("BROWSER", &browser);
    let (code, _, stderr) = outcome(command).await;
    assert_eq!(code, 0, "{stderr}");
    let opened = std::fs::read_to_string(opened).unwrap();
    assert!(opened.starts_with("http://127.0.0.1:") && opened.contains("#token="));
    assert!(stderr.contains(&opened), "{stderr}");
    assert!(!stderr.contains("no browser"), "{stderr}");

    let mut command = kinform(None, &words);
    command
        .env("BROWSER", "/nonexistent")
        .env("PATH", folder.path());
    let (code, _, stderr) = outcome(command).await;
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("no browser was found"), "{stderr}");
}

#[tokio::test]
async fn the_tour_goes_by_itself_through_every_step_in_a_minute_and_80_columns() {
    let started = Instant::now();
    let words = ["demo", "tour", "--yes", "--pods=200"];
    let (code, stdout, stderr) = outcome(kinform(None, &words)).await;
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(started.elapsed() < Duration::from_secs(60));
    // A paragraph breaks its lines anywhere.
    let text = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut rest = text.as_str();
    for said in [
        "1 of 11: list",
        "2 of 11: watch",
        "3 of 11: store",
        "4 of 11: index",
        "5 of 11: handlers",
        "6 of 11: queue",
        "7 of 11: reconcile",
        "8 of 11: when connections break",
        "0 lists were made",
        "9 of 11: when history is gone",
        "were listed again, because their version had expired",
        "10 of 11: when a handler is slow",
        "act-slow-handler is",
        "11 of 11: when the leader dies",
        "after the kill",
        "That was the whole way",
    ] {
        let (_, after) = rest
            .split_once(said)
            .unwrap_or_else(|| panic!("{said} in\n{stdout}"));
        rest = after;
    }
    let wide = stdout.lines().find(|line| line.chars().count() > 80);
    assert_eq!(wide, None);
    assert!(
        stderr.contains("every key of every cache agrees"),
        "{stderr}"
    );
}

#[tokio::test]
async fn the_reader_of_the_tour_goes_on_with_enter_and_ends_with_q() {
    for (keys, steps) in [("\n\nq\n", 3), ("q\n", 1), ("", 1)] {
        let mut command = kinform(None, &["demo", "tour", "--pods=50"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(keys.as_bytes()).await.unwrap();
        drop(stdin);
        let output = child.wait_with_output().await.unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{stdout}");
        assert_eq!(stdout.matches(" of 11: ").count(), steps, "{stdout}");
    }
}
