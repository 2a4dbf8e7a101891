//! Shared parts of the benches of inner loops: a recorded list, and the count of a run's
//! instructions.
//!
//! ```text
//! this program, NAME --rounds N ──▶ valgrind ──▶ instructions, and what the run says that it worked on
//! ```
//!
//! Two runs of the same preparations, which differ in their rounds, tell what a round costs.

use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Instructions and elements of a run under valgrind; nothing where there is none.
pub(crate) fn counted(name: &str, rounds: usize) -> Option<(u64, u64)> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().unwrap())
        .args([name, "--rounds", &rounds.to_string()])
        .output()
        .ok()?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let instructions = told
        .lines()
        .find_map(|line| line.split_once("Collected : "))?
        .1;
    let elements = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .ok()?;
    Some((instructions.trim().parse().ok()?, elements))
}

/// A recorded list of pods.
pub(crate) fn recorded(file: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden/list.jsonl.gz");
    let mut text = String::new();
    let packed = std::fs::File::open(path).unwrap();
    let mut unpacked = flate2::read::GzDecoder::new(packed);
    unpacked.read_to_string(&mut text).unwrap();
    let named = format!("\"{file}\"");
    let line = text.lines().find(|line| line.contains(&named));
    let line: Value = serde_json::from_str(line.unwrap()).unwrap();
    match line["bodyBase64"].as_str() {
        Some(base64) => STANDARD.decode(base64).unwrap(),
        None => line["body"].as_str().unwrap().as_bytes().to_vec(),
    }
}
