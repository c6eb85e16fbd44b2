//! What a thread of Curtail's can't have, and programs that have no threads.

use crate::{Program, library, text};
use std::process::Command;

#[test]
fn what_cannot_be_has_the_error_that_posix_gives() {
    let output = Program::compile("programs/refused.c").run(2);
    assert_eq!(text(&output.stderr), "");
    assert_eq!(text(&output.stdout), "all refused\n");
    assert!(output.status.success());
}

#[test]
fn a_program_without_threads_runs_as_it_is() {
    let mut command = Command::new("sh");
    let script = "ls /proc/self/task | wc -l; exit 5";
    command.args(["-c", script]).env("LD_PRELOAD", library());
    let output = command.output().unwrap();
    assert_eq!(text(&output.stdout).trim(), "1");
    assert_eq!(output.status.code(), Some(5));
}

/// On one kthread, long before its quantum is over.
#[test]
fn a_thread_that_the_kernel_answers_at_once_lets_others_run() {
    let output = Program::compile("programs/turns.c").run(1);
    assert_eq!(text(&output.stderr), "");
    assert_eq!(text(&output.stdout), "others have turns\n");
    assert!(output.status.success());
}
