//! Examples of tests: they run here as tests do in a program of a reader's own.

use kinform_examples::start::Out;
use kinform_examples::{simulation, test_with_faults};
use kinform_testkit::simulate;

use crate::ran;

#[tokio::test(start_paused = true)]
async fn test_with_faults_passes_under_paused_time() {
    let out = Out::to(std::io::sink());
    test_with_faults::a_page_comes_back(out.clone())
        .await
        .unwrap();
    assert_eq!(out.lines().last().unwrap(), "the page is back");
}

#[tokio::test]
async fn test_with_faults_passes_in_real_time() {
    let ran = ran("test_with_faults").await;
    assert_eq!(ran.lines.last().unwrap(), "the page is back");
}

#[test]
fn simulation_passes_as_a_test() {
    let summary = simulate(simulation::describe);
    assert_eq!((summary.runs, summary.differed), (40, 0));
}

#[tokio::test]
async fn simulation_tells_its_runs() {
    let ran = ran("simulation").await;
    assert!(
        ran.lines[0].starts_with("40 runs with faults, "),
        "{:?}",
        ran.lines
    );
}
