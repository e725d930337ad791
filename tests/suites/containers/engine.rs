//! Commands of the container engine. Each has a deadline, and says what it printed when it fails.

use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

/// No command of the engine takes longer, on a machine that works.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs a command; its output, whatever became of it.
pub(crate) async fn run(program: &str, arguments: &[&str], environment: &[(String, String)]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).envs(environment.iter().cloned()).current_dir(env!("CARGO_MANIFEST_DIR"));
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(PATIENCE, command.output()).await;
    let output = output.unwrap_or_else(|_| panic!("{program} {arguments:?} took longer than {PATIENCE:?}"));
    output.unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// What a command that succeeded printed.
pub(crate) async fn said(program: &str, arguments: &[&str], environment: &[(String, String)]) -> String {
    let output = run(program, arguments, environment).await;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{out}{err}", output.status);
    out.trim().to_owned()
}

/// What a `docker` command that succeeded printed.
pub(crate) async fn docker(arguments: &[&str]) -> String {
    said("docker", arguments, &[]).await
}

/// What every end does, also that of a test that failed: nothing is left, and nothing here fails.
pub(crate) fn finally(program: &str, arguments: &[&str], environment: &[(String, String)]) -> String {
    let mut command = std::process::Command::new(program);
    command.args(arguments).envs(environment.iter().cloned()).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = command.stdin(Stdio::null()).output();
    output.map_or_else(
        |error| error.to_string(),
        |output| String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
    )
}
