//! The program's command line.

use std::process::Command;

#[test]
fn nonsense_is_refused_with_code_2_before_anything_starts() {
    for words in [
        &["drive", "--seconds", "soon"][..],
        &["drive"],
        &["watch"],
        &["operator"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_kinform-soak"))
            .args(words)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
    }
}
