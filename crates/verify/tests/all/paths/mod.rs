//! Paths that are too long, and those that are not.

mod notes;
mod tables;

use crate::common::program;
use curtail_verify::finding::What;
use curtail_verify::report::{Options, Report, verify};

pub(crate) fn check(body: &str) -> Report {
    verify(&program(body, &[]), &Options::default()).expect("a program")
}

pub(crate) fn kinds(report: &Report) -> Vec<What> {
    [What::Forbidden, What::RedZone, What::Loop, What::Recursion, What::LongPath, What::Convention]
        .into_iter()
        .flat_map(|what| report.of(what).iter().map(|_| what).collect::<Vec<_>>())
        .collect()
}

#[test]
fn a_loop_with_a_safepoint_is_fine() {
    let report = check("function f\n instrumented f\n1: check 5\n dec %rdi\n jne 1b\n ret\nend f");
    assert!(report.is_clean(), "{}", report.to_text("p", 9));
    let json = report.to_json();
    assert!(json.contains("\"safepoints\": 1") && json.contains("\"clock\": 1"), "{json}");
}

#[test]
fn a_check_may_have_a_base_register_and_keep_the_sign() {
    let charge = "subq $5, %fs:curtail_safepoint@tpoff(%rax)";
    for (check, clean) in [
        ("js 2f\n3:", true),
        ("sets %cl\n test $1, %cl\n jne 2f\n3:", true),
        ("sets %cl\n test $1, %dl\n jne 2f\n3:", false),
        ("sets %cl\n mov %dl, %cl\n test $1, %cl\n jne 2f\n3:", false),
        ("sets %cl\n test %rdi, %rdi\n sets %cl\n test $1, %cl\n jne 2f\n3:", false),
    ] {
        let report = self::check(&format!(
            "function f\n instrumented f\n xor %eax, %eax\n1: {charge}\n {check} dec %rdi\n jne 1b\n ret\n2: call curtail_safepoint_slow\n jmp 3b\nend f"
        ));
        assert_eq!(report.is_clean(), clean, "{check}: {}", report.to_text("p", 9));
    }
}

#[test]
fn a_loop_without_one_is_found() {
    let report = check("function f\n instrumented f\n check 5\n1: dec %rdi\n jne 1b\n ret\nend f");
    assert_eq!(kinds(&report), [What::Loop]);
}

#[test]
fn code_that_was_not_instrumented_may_loop() {
    let report = check(
        "function f\n instrumented f\n call g\n ret\nend f\nfunction g\n1: dec %rdi\n jne 1b\n ret\nend g",
    );
    assert!(report.is_clean(), "{}", report.to_text("p", 9));
}

#[test]
fn a_counter_alone_proves_nothing() {
    for loop_ in [
        "xor %ecx, %ecx\n1: add $2, %ecx\n cmp $20, %ecx\n jne 1b",
        "and $31, %edi\n xor %ecx, %ecx\n1: inc %ecx\n cmp %edi, %ecx\n jb 1b",
    ] {
        let with = |note: &str| {
            check(&format!("function f\n instrumented f\n{note} {loop_}\n ret\nend f"))
        };
        assert_eq!(kinds(&with("")), [What::Loop], "{loop_}");
        let noted = with("noted 31\n");
        assert!(noted.is_clean(), "{loop_}\n{}", noted.to_text("p", 9));
    }
}

#[test]
fn a_gated_loop_is_as_long_as_its_note_says() {
    // It ends where memory says; on its way back there is a test, and behind that a safepoint.
    for (note, clean) in [("noted 16, 1, 2\n", true), ("noted 65536, 1, 2\n", false), ("", false)] {
        let report = check(&format!(
            "function f\n instrumented f\n {note} mov (%rsi), %rax\n1: add $8, %rsi\n inc %rcx\n cmpq $0, (%rsi)\n je 3f\n test $15, %cl\n jne 1b\n check 5\n jmp 1b\n3: ret\nend f"
        ));
        assert_eq!(report.is_clean(), clean, "{note}\n{}", report.to_text("p", 9));
    }
}

#[test]
fn an_atomic_operation_may_be_a_loop() {
    for (round, clean) in [
        ("mov %rax, %rdx\n or %rcx, %rdx\n lock cmpxchg %rdx, (%rdi)", true),
        // What does more than that in between is a loop, and so is one without the lock prefix.
        ("mov (%rsi), %rdx\n or %rcx, %rdx\n lock cmpxchg %rdx, (%rdi)", false),
        ("mov %rax, %rdx\n or %rcx, %rdx\n cmpxchg %rdx, (%rdi)", false),
        ("mov %rax, %rdx\n lock cmpxchg %rdx, (%rdi)\n dec %rcx", false),
    ] {
        let report = check(&format!(
            "function f\n instrumented f\n mov (%rdi), %rax\n1: {round}\n jne 1b\n ret\nend f"
        ));
        assert_eq!(report.is_clean(), clean, "{round}\n{}", report.to_text("p", 9));
    }
}

#[test]
fn a_large_frame_is_touched_page_by_page() {
    let end = "mov %rsp, %r11\n sub $0x10000, %r11";
    let touch = "movq $0, (%rsp)\n cmp %r11, %rsp";
    for (before, round, clean) in [
        (end, touch, true),
        // So large that it takes long; to an unknown end; or something else than touching.
        ("mov %rsp, %r11\n sub $0x1000000, %r11", touch, false),
        ("mov %rdi, %r11\n sub $0x10000, %r11", touch, false),
        ("mov %rsp, %r11\n sub $0x10800, %r11", touch, false),
        ("mov %rsp, %r11\n sub $0x10000, %r10", touch, false),
        (end, "movq $0, (%rsp)\n cmp %r11, %rdi", false),
        (end, "movq $0, (%rdi)\n cmp %r11, %rsp", false),
    ] {
        let report = check(&format!(
            "function f\n instrumented f\n {before}\n1: sub $0x1000, %rsp\n {round}\n jne 1b\n ret\nend f"
        ));
        assert_eq!(report.is_clean(), clean, "{before}; {round}\n{}", report.to_text("p", 9));
    }
}

#[test]
fn straight_code_is_measured_with_what_it_calls() {
    assert!(
        check("function f\n instrumented f\n work 590\n check 1\n work 590\n ret\nend f")
            .is_clean()
    );
    assert_eq!(
        kinds(&check("function f\n instrumented f\n check 1\n work 1300\n check 1\n ret\nend f")),
        [What::LongPath]
    );
    // Neither is too long by itself.
    let both = "function f\n instrumented f\n check 1\n work 700\n call g\n ret\nend f
        function g\n instrumented g\n work 700\n check 1\n ret\nend g";
    let report = check(both);
    assert_eq!(kinds(&report), [What::LongPath], "{}", report.to_text("p", 9));
    // What comes behind the callee's last safepoint counts as well.
    let after = "function f\n instrumented f\n check 1\n call g\n work 700\n ret\nend f
        function g\n instrumented g\n check 1\n work 700\n ret\nend g";
    assert_eq!(kinds(&check(after)), [What::LongPath]);
}

#[test]
fn paths_that_end_in_a_trap_do_not_count() {
    let report = check(
        "function f\n instrumented f\n test %edi, %edi\n jne 1f\n ret\n1: work 2000\n ud2\nend f",
    );
    assert!(report.is_clean(), "{}", report.to_text("p", 9));
    let through =
        "function f\n instrumented f\n test %edi, %edi\n jne 1f\n ret\n1: work 2000\n call g\nend f
        function g\n hlt\nend g";
    assert!(check(through).is_clean());
}

#[test]
fn recursion_needs_a_safepoint_on_its_way() {
    let endless = "function f\n instrumented f\n test %edi, %edi\n je 1f\n call g\n1: ret\nend f
        function g\n instrumented g\n call f\n ret\nend g";
    assert_eq!(kinds(&check(endless)), [What::Recursion]);
    let fine = endless.replace(" call f\n", " check 3\n call f\n");
    assert!(check(&fine).is_clean(), "{}", check(&fine).to_text("p", 9));
}

#[test]
fn functions_called_through_pointers_keep_to_their_share() {
    let body = |work: u32| {
        format!(
            "function f\n instrumented f\n lea g(%rip), %rax\n call *%rax\n ret\nend f
            function g\n instrumented g\n work {work}\n check 1\n ret\nend g"
        )
    };
    assert!(check(&body(250)).is_clean());
    assert_eq!(kinds(&check(&body(500))), [What::Convention]);
}

#[test]
fn other_forms_of_safepoints_are_recognised() {
    let flag = "function f\n instrumented f\n1: cmpl $0, %fs:curtail_safepoint@tpoff+8\n jne 2f\n3: dec %rdi\n jne 1b\n ret
        2: call curtail_safepoint_slow\n jmp 3b\nend f";
    let report = check(flag);
    assert!(report.is_clean() && report.to_json().contains("\"flag\": 1"), "{}", report.to_json());
    // A call that some condition of the program's own guards is no safepoint of the loop.
    let own = "function f\n instrumented f\n1: cmpl $0, (%rsi)\n jne 2f\n3: dec %rdi\n jne 1b\n ret
        2: call curtail_safepoint_slow\n jmp 3b\nend f";
    let report = check(own);
    assert_eq!(kinds(&report), [What::Loop]);
    assert!(report.to_json().contains("\"by hand\": 1"));
}

#[test]
fn whoever_charges_a_whole_loop_has_looked_at_the_budget() {
    let budget = "%fs:curtail_safepoint@tpoff";
    for (cut, clean) in [
        // Taken back in a block before the check, or in the check's own.
        (format!("add %rdx, {budget}\n jmp 5f\n 5: cmpq $9, {budget}\n jle 6f\n jmp 8b"), true),
        (format!("add %rdx, {budget}\n cmpq $9, {budget}\n jle 6f\n jmp 8b"), true),
        // What is not taken back, or only behind the check, is some other subtraction.
        (format!("cmpq $9, {budget}\n jle 6f\n jmp 8b"), false),
        (format!("cmpq $9, {budget}\n jle 6f\n add %rdx, {budget}\n jmp 8b"), false),
        (format!("add %rdx, {budget}\n jmp 8b"), false),
    ] {
        let report = check(&format!(
            "function f\n instrumented f\n1: sub %rdx, {budget}\n jb 4f\n nop\n noted 0\n
             8: lea 1(%rsi), %rsi\n cmp %rsi, %rcx\n jne 8b\n dec %rdi\n jne 1b\n ret
             4: {cut}\n 6: call curtail_safepoint_slow\n jmp 8b\nend f"
        ));
        assert_eq!(report.is_clean(), clean, "{cut}\n{}", report.to_text("p", 9));
    }
}
