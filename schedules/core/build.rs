//! Chooses the models of `sync.rs` for this copy of kinform-core.

fn main() {
    println!("cargo:rustc-cfg=kinform_shuttle");
    println!("cargo:rerun-if-changed=build.rs");
}
