//! Stacks that end: a message that says whose it was, and nobody else's memory touched.

use curtail::{Builder, Runtime};
use std::process::{Command, Output};

const CHILD: &str = "CURTAIL_TEST_OVERFLOW";

/// The test `name` in a process of its own, where [`is_child`].
fn in_child(name: &str) -> Output {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", &format!("overflow::{name}"), "--nocapture", "--test-threads=1"]);
    child.env(CHILD, "1").output().unwrap()
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

fn said(output: &Output) -> String {
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    if depth == u64::MAX { 0 } else { frame[1] + recurse(depth + 1) + frame[63] }
}

#[test]
fn a_thread_is_named() {
    if is_child() {
        curtail::run(|| {
            let thread = Builder::new().name("digger").class(3).stack_size(128 << 10);
            thread.spawn(|| recurse(0)).unwrap().join().unwrap()
        });
    }
    let text = said(&in_child("a_thread_is_named"));
    assert!(text.contains("stack overflow in a fiber"), "{text}");
    assert!(text.contains("thread \"digger\" of class 3, stack of 1"), "{text}");
}

#[test]
fn a_frame_that_is_not_probed_meets_the_guard() {
    /// A frame of 900 KiB, of which the low end is written first, as C does it.
    fn leap() {
        // SAFETY: meets the guard, and does not return; else the stack pointer is as it was.
        unsafe {
            std::arch::asm!("sub rsp, 921600", "mov byte ptr [rsp], 90", "add rsp, 921600",);
        }
    }
    if is_child() {
        Runtime::builder().stack_size(64 << 10).run(leap);
    }
    let text = said(&in_child("a_frame_that_is_not_probed_meets_the_guard"));
    assert!(text.contains("thread \"main\" of class 0"), "{text}");
}
