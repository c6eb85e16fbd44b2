//! What a program says and how it ends does not depend on what its threads are.

use crate::{Program, text};

fn says_the_same(name: &str) {
    let program = Program::compile(name);
    let native = program.run_native();
    assert!(native.status.code().is_some_and(|code| code != 1), "{native:?}");
    for kthreads in [1, 2, 4] {
        let output = program.run(kthreads);
        assert_eq!(text(&output.stderr), "", "{kthreads} kthreads");
        assert_eq!(text(&output.stdout), text(&native.stdout), "{kthreads} kthreads");
        assert_eq!(output.status, native.status, "{kthreads} kthreads");
    }
}

/// Starts and ends, keys, barriers, semaphores, conditions, C11's threads.
#[test]
fn threads() {
    says_the_same("programs/threads.c");
}

#[test]
fn locks() {
    says_the_same("programs/locks.c");
}

/// Sockets, pipes, counters, `poll`, `select`, `epoll_wait`.
#[test]
fn descriptors() {
    says_the_same("programs/descriptors.c");
}

/// Masks, handlers, `EINTR`, children.
#[test]
fn signals() {
    says_the_same("programs/signals.c");
}

/// Threads that wait for each other in loops, more of them than there are kthreads.
#[test]
fn spinning() {
    says_the_same("programs/spinning.c");
}

/// Threads of a fork's child: the kernel's, with all that these have.
#[test]
fn children() {
    says_the_same("programs/children.c");
}
