//! Which loop a note speaks of, whatever code generation has copied.

use super::{check, kinds};
use curtail_verify::finding::What;

#[test]
fn a_note_bounds_the_loop_behind_it_and_no_other() {
    let noted = |count: u32| {
        format!(
            "function f\n instrumented f\n noted {count}\n1: add %rdx, %rdi\n jne 1b\n ret\nend f"
        )
    };
    assert!(check(&noted(30)).is_clean());
    assert!(check(&noted(0)).is_clean());
    assert_eq!(kinds(&check(&noted(1_000_000))), [What::Loop]);
    let second = "function f\n instrumented f\n noted 30\n1: add %rdx, %rdi\n jne 1b\n2: add %rcx, %rdi\n jne 2b\n ret\nend f";
    assert_eq!(kinds(&check(second)), [What::Loop]);
    // The place before the inner loop is the first of the outer one.
    let nest = |outer: &str, inner: &str| {
        format!(
            "function f\n instrumented f\n {outer} mov $1, %edx\n3: {inner}\n1: add %rdx, %rdi\n jne 1b\n add %rcx, %rsi\n jne 3b\n ret\nend f"
        )
    };
    assert!(check(&nest("noted 5\n", "noted 9, 2\n mov %ebx, %edi")).is_clean());
    assert_eq!(kinds(&check(&nest("", "noted 9, 2\n mov %ebx, %edi"))), [What::Loop]);
    // Nothing lies between the two headers: they are one.
    assert_eq!(kinds(&check(&nest("noted 5\n", ""))), [What::Loop]);
    assert!(check(&nest("noted 5\n", "noted 9, 2\n")).is_clean());
    assert_eq!(kinds(&check(&nest("noted 50\n", "noted 90, 2\n"))), [What::Loop]);
    // The loop's first test was copied in front of it.
    let copied = "function f\n instrumented f\n noted 30\n test %rdi, %rdi\n je 2f\n nop\n1: add %rdx, %rdi\n jne 1b\n2: ret\nend f";
    assert!(check(copied).is_clean());
}

#[test]
fn a_noted_loop_may_begin_where_a_copied_choice_leads() {
    // The switch at the loop's top was copied in front of it; one of its arms calls behind a safepoint.
    let body = |note: &str, arm: &str| {
        format!(
            "function f\n instrumented f\n {note} mov $6, %ebx\n lea table(%rip), %rdx
        movslq (%rdx,%rdi,4), %rcx\n add %rdx, %rcx\n jmp *%rcx
1:      and $1, %edi\n movslq (%rdx,%rdi,4), %rcx\n add %rdx, %rcx\n jmp *%rcx
2:      check 3\n call f\n jmp 4f
3:      {arm}
4:      mov (%rsi), %rdi\n sub %rax, %rbx\n jne 1b\n ret\nend f
        .section .rodata\n .p2align 2\ntable: .long 2b - table, 3b - table"
        )
    };
    let fine = check(&body("and $1, %edi\n noted 6\n", "nop"));
    assert!(fine.is_clean(), "{}", fine.to_text("p", 9));
    let without = check(&body("and $1, %edi\n", "nop"));
    assert_eq!(kinds(&without), [What::Loop], "{}", without.to_text("p", 9));
    // A loop within it that goes round an unknown number of times.
    let nest = check(&body("and $1, %edi\n noted 6\n", "5: sub %rax, %r8\n jne 5b"));
    assert_eq!(kinds(&nest), [What::Loop], "{}", nest.to_text("p", 9));
    // A path around the note may be taken again and again.
    let around = check(&body("test %r8, %r8\n je 4f\n and $1, %edi\n noted 6\n", "nop"));
    assert_eq!(kinds(&around), [What::Loop], "{}", around.to_text("p", 9));
}

#[test]
fn copies_of_a_latch_are_one() {
    let step = "inc %rdi\n cmp %rdi, %rsi";
    let kept = "inc %rdi\n cmp %rdi, 8(%rsp)";
    for (head, first, second, clean) in [
        ("nop", step, "nop\n inc %rdi\n cmp %rdi, %rsi\n jne 1f\n ret", true),
        // One falls into the header where the other jumps there.
        ("nop", step, "inc %rdi\n cmp %rdi, %rsi\n je 9b", true),
        ("nop", step, "inc %rdi\n cmp %rdi, %rsi\n je 9b\n nop", true),
        ("nop", step, "inc %rdi\n cmp %rdi, %rsi\n je 1f\n ret", false),
        // Another limit, another step, a counter that is set anew: that may be a loop of its own.
        ("nop", step, "inc %rdi\n cmp %rdi, %r8\n jne 1f\n ret", false),
        ("nop", step, "add $2, %rdi\n cmp %rdi, %rsi\n jne 1f\n ret", false),
        ("nop", step, "xor %edi, %edi\n inc %rdi\n cmp %rdi, %rsi\n jne 1f\n ret", false),
        ("nop", step, "mov %rdx, %rsi\n inc %rdi\n cmp %rdi, %rsi\n jne 1f\n ret", false),
        // The step is the test.
        ("nop", "dec %rsi", "nop\n dec %rsi\n jne 1f\n ret", true),
        ("nop", "dec %rsi", "sub $2, %rsi\n jne 1f\n ret", false),
        // The step is not copied with it: every round passes it, or not.
        ("inc %rdi", "cmp %rdi, %rsi", "cmp %rdi, %rsi\n jne 1f\n ret", true),
        ("inc %rdi\n inc %rdi", "cmp %rdi, %rsi", "cmp %rdi, %rsi\n jne 1f\n ret", false),
        ("nop", step, "cmp %rdi, %rsi\n jne 1f\n ret", false),
        // The limit lies on the stack: written in between, or by a call that may have its address.
        ("nop", kept, "inc %rdi\n cmp %rdi, 8(%rsp)\n jne 1f\n ret", true),
        ("nop", kept, "mov %rax, 8(%rsp)\n inc %rdi\n cmp %rdi, 8(%rsp)\n jne 1f\n ret", false),
        (
            "call *%rbx",
            "inc %r12\n cmp %r12, 8(%rsp)",
            "inc %r12\n cmp %r12, 8(%rsp)\n jne 1f\n ret",
            true,
        ),
        (
            "lea 8(%rsp), %rdi\n call *%rbx",
            "inc %r12\n cmp %r12, 8(%rsp)",
            "inc %r12\n cmp %r12, 8(%rsp)\n jne 1f\n ret",
            false,
        ),
    ] {
        let report = check(&format!(
            "function f\n instrumented f\n jmp 8f\n9: ret\n8: noted 9\n jmp 1f\n2: {second}\n1: {head}\n cmpl $0, (%rdx,%rdi,4)\n je 2b\n {first}\n jne 1b\n ret\nend f"
        ));
        assert_eq!(
            report.is_clean(),
            clean,
            "{head}; {first}; {second}\n{}",
            report.to_text("p", 9)
        );
    }
}

#[test]
fn a_noted_loop_may_begin_where_a_copied_test_leads() {
    let body = |before: &str, note: &str, again: &str| {
        format!(
            "function f\n instrumented f\n {before} {note} xor %eax, %eax\n cmpl $2, (%rsi)\n jl 2f\n nop
1:      add %rdx, %rax
2:      add %rax, (%rdi)\n cmp %rax, %rcx\n je 3f\n {again}\n jge 1b\n jmp 2b
3:      ret\nend f"
        )
    };
    let fine = check(&body("", "noted 9\n", "cmpl $2, (%rsi)"));
    assert!(fine.is_clean(), "{}", fine.to_text("p", 9));
    let without = check(&body("", "", "cmpl $2, (%rsi)"));
    assert_eq!(kinds(&without), [What::Loop], "{}", without.to_text("p", 9));
    // A path around the note may be taken again and again.
    let around = check(&body("test %r8, %r8\n je 2f\n nop\n", "noted 9\n", "cmpl $2, (%rsi)"));
    assert_eq!(kinds(&around), [What::Loop], "{}", around.to_text("p", 9));
    // A way round that passes the choice by.
    let by = check(&body("", "noted 9\n", "test %r9, %r9\n jne 2b\n cmpl $2, (%rsi)"));
    assert_eq!(kinds(&by), [What::Loop], "{}", by.to_text("p", 9));
}

#[test]
fn of_two_loops_as_near_the_one_without_a_note_is_meant() {
    let body = |second: &str| {
        format!(
            "function f\n instrumented f\n noted 9, 1, 1, 7\n test %rdi, %rdi\n je 2f
1:      add %rdx, %rax\n jne 1b\n jmp 3f
2:      {second} add %rcx, %rax\n jne 2b\n3: ret\nend f"
        )
    };
    let fine = check(&body("noted 9, 1, 1, 8\n"));
    assert!(fine.is_clean(), "{}", fine.to_text("p", 9));
    // Of the same cost it may be the second's other note.
    assert_eq!(kinds(&check(&body("noted 9, 1, 1, 7\n"))), [What::Loop]);
    assert_eq!(kinds(&check(&body(""))), [What::Loop, What::Loop]);
}
