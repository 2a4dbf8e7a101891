//! Clients and an operator in other languages, on both servers.

use kinform_e2e::program::Program;
use kinform_e2e::servers::Servers;
use kinform_testkit::checks::stage::StageError;

use crate::runtime;

/// Runs a program on both servers.
async fn tell(program: Option<Program>, what: &str) -> Result<(), StageError> {
    let Some(program) = program else {
        return Ok(());
    };
    let servers = Servers::start(what).await?;
    let wrong = program.tell(&servers).await?;
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n").into()),
    }
}

#[test]
fn an_operator_of_kopf_finds_what_it_expects() {
    let told = runtime().block_on(async {
        let program = Program::python("programs/kopf").await?;
        tell(program, "kopf").await
    });
    told.unwrap();
}

#[test]
fn informers_of_the_javascript_client_hear_what_they_expect() {
    let told = runtime().block_on(async {
        let program = Program::node("programs/javascript").await?;
        tell(program, "javascript").await
    });
    told.unwrap();
}
