//! Every target over its corpus, and over some inputs that are made of it.
//!
//! ```text
//! corpus/TARGET ──▶ target ──▶ no broken promise
//! ```
//!
//! An input that a fuzzer once found stays in the corpus and is run again here.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kinform_fuzz::mutator::{LARGEST, Mutator};
use kinform_fuzz::{TARGETS, Target};

fn corpus(target: &Target) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target.name);
    let entries = fs::read_dir(folder)
        .expect("a corpus")
        .map(|entry| entry.expect("a file").path());
    let mut paths: Vec<_> = entries.collect();
    paths.sort();
    let name = |path: &Path| {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    paths
        .iter()
        .map(|path| (name(path), fs::read(path).expect("a file")))
        .collect()
}

/// One test at a time: the allocator counts for all.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keeps_its_promises(name: &str) {
    let _alone = alone();
    let target = kinform_fuzz::target(name).expect("a target");
    let inputs = corpus(&target);
    assert!(inputs.len() >= 15, "{} inputs", inputs.len());
    let mut shapes = std::collections::HashSet::new();
    for (_, input) in &inputs {
        shapes.insert((target.run)(input));
    }
    assert!(
        shapes.len() * 4 > inputs.len() * 3,
        "{} shapes of {}",
        shapes.len(),
        inputs.len()
    );
    let inputs = inputs.into_iter().map(|(_, input)| input).collect();
    let mut mutator = Mutator::new(7, inputs, target.words);
    for _ in 0..300 {
        let input = mutator.make();
        assert!(input.len() <= LARGEST);
        (target.run)(&input);
    }
}

#[test]
fn lists_keep_their_promises() {
    keeps_its_promises("list");
}

#[test]
fn watches_keep_their_promises() {
    keeps_its_promises("watch");
}

#[test]
fn heads_keep_their_promises() {
    keeps_its_promises("head");
}

#[test]
fn protobuf_keeps_its_promises() {
    keeps_its_promises("protobuf");
}

#[test]
fn selectors_keep_their_promises() {
    keeps_its_promises("selectors");
}

#[test]
fn field_paths_keep_their_promises() {
    keeps_its_promises("field_path");
}

#[test]
fn json_paths_keep_their_promises() {
    keeps_its_promises("json_path");
}

#[test]
fn json_patches_keep_their_promises() {
    keeps_its_promises("json_patch");
}

#[test]
fn merge_patches_keep_their_promises() {
    keeps_its_promises("merge_patch");
}

#[test]
fn strategic_merges_keep_their_promises() {
    keeps_its_promises("strategic_merge");
}

#[test]
fn applies_keep_their_promises() {
    keeps_its_promises("apply");
}

#[test]
fn continue_tokens_keep_their_promises() {
    keeps_its_promises("continue_token");
}

#[test]
fn heads_of_requests_keep_their_promises() {
    keeps_its_promises("negotiation");
}

#[test]
fn admission_replies_keep_their_promises() {
    keeps_its_promises("admission_reply");
}

#[test]
fn yaml_keeps_its_promises() {
    keeps_its_promises("yaml");
}

#[test]
fn cel_keeps_its_promises() {
    keeps_its_promises("cel");
}

#[test]
fn patterns_keep_their_promises() {
    keeps_its_promises("patterns");
}

#[test]
fn kubeconfigs_keep_their_promises() {
    keeps_its_promises("kubeconfig");
}

#[test]
fn manifests_keep_their_promises() {
    keeps_its_promises("manifests");
}

#[test]
fn every_target_has_a_program_for_cargo_fuzz() {
    let _alone = alone();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets");
    for target in TARGETS {
        let text =
            fs::read_to_string(folder.join(format!("{}.rs", target.name))).expect("a program");
        assert!(text.contains(&format!("kinform_fuzz::{}::run(bytes)", target.name)));
    }
}

#[test]
fn a_seed_gives_the_same_inputs_again() {
    let _alone = alone();
    let made = || {
        let mut mutator = Mutator::new(3, vec![b"{\"items\":[]}".to_vec()], TARGETS[0].words);
        (0..50).map(|_| mutator.make()).collect::<Vec<_>>()
    };
    assert_eq!(made(), made());
}

#[test]
fn snapshots_keep_their_promises() {
    keeps_its_promises("snapshot");
}

#[test]
fn recordings_keep_their_promises() {
    keeps_its_promises("recording");
}
