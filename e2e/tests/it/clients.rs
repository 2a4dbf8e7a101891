//! Other people's clients, unmodified, on both servers: programs that assert on what they see.

use kinform_e2e::program::Program;
use kinform_e2e::servers::Servers;

/// Runs a program on both servers. A runtime of its own may block on child processes, as the
/// servers do not run on it.
fn tell(program: impl Future<Output = Option<Program>>, what: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let Some(program) = program.await else { return };
        let servers = Servers::start(what).await.unwrap();
        let wrong = program.tell(&servers).await.unwrap();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

#[test]
fn a_program_of_client_go_finds_what_it_expects() {
    let program = async { Program::go("client-go", "./story").await.unwrap() };
    tell(program, "client-go");
}

#[test]
fn an_operator_of_controller_runtime_finds_what_it_expects() {
    let program = async { Program::go("controller-runtime", ".").await.unwrap() };
    tell(program, "controller-runtime");
}

#[test]
fn a_program_of_the_python_client_finds_what_it_expects() {
    let program = async { Program::python("python").await.unwrap() };
    tell(program, "the Python client");
}
