//! Paths that are too long, and those that are not.

mod common;

use common::program;
use curtail_verify::finding::What;
use curtail_verify::report::{Options, Report, verify};

fn check(body: &str) -> Report {
    verify(&program(body, &[]), &Options::default()).expect("a program")
}

fn kinds(report: &Report) -> Vec<What> {
    [
        What::Forbidden,
        What::RedZone,
        What::ThreadLocal,
        What::Loop,
        What::Recursion,
        What::LongPath,
        What::Convention,
    ]
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
fn counters_prove_loops_short() {
    for (loop_, clean) in [
        ("xor %ecx, %ecx\n1: add $2, %ecx\n cmp $20, %ecx\n jne 1b", true),
        ("xor %ecx, %ecx\n1: add $2, %ecx\n cmp $21, %ecx\n jne 1b", false),
        ("mov $-64, %rcx\n1: add $8, %rcx\n jne 1b", true),
        ("mov $50, %ecx\n1: dec %ecx\n jns 1b", true),
        ("and $31, %edi\n xor %ecx, %ecx\n1: inc %ecx\n cmp %edi, %ecx\n jb 1b", true),
        ("xor %ecx, %ecx\n1: inc %ecx\n cmp %edi, %ecx\n jb 1b", false),
        (
            "mov $30, %esi\n cmp %rsi, %rdi\n cmovb %rdi, %rsi\n xor %ecx, %ecx\n1: inc %rcx\n cmp %rsi, %rcx\n jb 1b",
            true,
        ),
        ("movzbl %dil, %edi\n xor %ecx, %ecx\n1: inc %ecx\n cmp %edi, %ecx\n jb 1b", true),
        ("xor %ecx, %ecx\n1: inc %ecx\n cmp $100000, %ecx\n jne 1b", false),
        // The counter is changed twice, or its limit is.
        (
            "xor %ecx, %ecx\n1: inc %ecx\n test %edi, %edi\n je 2f\n dec %ecx\n2: cmp $9, %ecx\n jb 1b",
            false,
        ),
        ("mov $9, %edi\n xor %ecx, %ecx\n1: inc %ecx\n inc %edi\n cmp %edi, %ecx\n jb 1b", false),
        // A way round that does not pass the test.
        ("xor %ecx, %ecx\n1: inc %ecx\n test %edi, %edi\n je 1b\n cmp $9, %ecx\n jb 1b", false),
        // A nest.
        (
            "xor %edx, %edx\n3: xor %ecx, %ecx\n1: inc %ecx\n cmp $9, %ecx\n jne 1b\n inc %edx\n cmp $9, %edx\n jne 3b",
            true,
        ),
        (
            "xor %edx, %edx\n3: xor %ecx, %ecx\n1: inc %ecx\n cmp $90, %ecx\n jne 1b\n inc %edx\n cmp $90, %edx\n jne 3b",
            false,
        ),
    ] {
        let report = check(&format!("function f\n instrumented f\n{loop_}\n ret\nend f"));
        assert_eq!(report.is_clean(), clean, "{loop_}\n{}", report.to_text("p", 9));
    }
}

#[test]
fn gates_prove_loops_short() {
    // Each loop ends where memory says; on its way back there is a test, and behind that a safepoint.
    for (round, gate, clean) in [
        ("inc %rcx", "test $15, %cl", true),
        ("add $24, %rcx", "test $0x38, %cl", true),
        ("sub $3, %ecx", "test $7, %cl", true),
        // Bits that the counter may not have, or pass by.
        ("add $24, %rcx", "test $0x70, %cl", false),
        ("add $24, %rcx", "test $7, %cl", false),
        ("inc %rcx", "test $10, %cl", false),
        ("inc %rcx", "test $15, %ch", false),
        // Too rarely.
        ("inc %rcx", "test $0xffff, %ecx", false),
        // A copy of the counter, and what is none.
        ("inc %rcx", "lea -1(%rcx), %rdx\n test $15, %dl", true),
        ("mov %rcx, %rdx\n inc %rcx\n cmp $0, (%rsi)\n je 3f", "test $15, %dl", true),
        ("inc %rcx", "mov %rcx, %rdx\n imul %rcx, %rdx\n test $15, %dl", false),
        // What a call left there, and a copy that no call can have changed.
        ("inc %rbx\n mov %rbx, %rdx\n call g", "test $15, %dl", false),
        ("inc %rbx\n call g\n mov %rbx, %r12", "test $15, %r12b", true),
        // The counter and what stays the same: on the stack, in a register.
        ("add $96, %rcx", "mov 24(%rsp), %rdx\n add %ecx, %edx\n test $0xe0, %dl", true),
        ("add $96, %rcx", "mov %ecx, %edx\n add 24(%rsp), %edx\n test $0xe0, %dl", true),
        ("add $96, %rcx", "mov %rdi, %rdx\n add %rcx, %rdx\n test $0xe0, %dl", true),
        ("inc %rcx", "lea (%rdi,%rcx,8), %rdx\n test $0x38, %dl", true),
        ("inc %rcx", "mov %ecx, %edx\n shl $5, %edx\n add %edi, %edx\n test $0xe0, %dl", true),
        // What only seems to: memory that others may write, or the loop; a register that it moves.
        ("add $96, %rcx", "mov 24(%rdi), %rdx\n add %ecx, %edx\n test $0xe0, %dl", false),
        (
            "add $96, %rcx\n mov %eax, (%rdi)",
            "mov 24(%rsp), %rdx\n add %ecx, %edx\n test $0xe0, %dl",
            false,
        ),
        (
            "add $96, %rcx\n mov %eax, 28(%rsp)",
            "mov 24(%rsp), %rdx\n add %ecx, %edx\n test $0xe0, %dl",
            false,
        ),
        (
            "add $96, %rcx\n mov %eax, 32(%rsp)",
            "mov 24(%rsp), %rdx\n add %ecx, %edx\n test $0xe0, %dl",
            true,
        ),
        ("inc %rcx", "lea (%rsi,%rcx,8), %rdx\n test $0x38, %dl", false),
        ("inc %rcx", "lea (%rdi,%rcx,8), %rdx\n test $7, %dl", false),
        ("add $96, %rcx", "add %rcx, %rdx\n test $0xe0, %dl", false),
        // Fewer bits than the test looks at.
        ("add $256, %rcx", "mov %cl, %dl\n test $0xf00, %edx", false),
        // A counter that is set anew, and one that does not move each time.
        ("inc %rcx\n mov (%rsi), %ecx", "test $15, %cl", false),
        ("cmp $0, 8(%rsi)\n je 4f\n inc %rcx\n4:", "test $15, %cl", false),
    ] {
        let report = check(&format!(
            "function f\n instrumented f\n1: add $8, %rsi\n {round}\n cmpq $0, (%rsi)\n je 3f\n {gate}\n jne 1b\n check 5\n jmp 1b\n3: ret\nend f\nfunction g\n ret\nend g"
        ));
        assert_eq!(report.is_clean(), clean, "{round}; {gate}\n{}", report.to_text("p", 9));
    }
}

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
    // A loop within it, of which nobody knows how often it goes round.
    let nest = check(&body("and $1, %edi\n noted 6\n", "5: sub %rax, %r8\n jne 5b"));
    assert_eq!(kinds(&nest), [What::Loop], "{}", nest.to_text("p", 9));
    // Who comes around the note may come again and again.
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
    // Who comes around the note may come again and again.
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

#[test]
fn an_atomic_operation_may_be_a_loop() {
    for (round, clean) in [
        ("mov %rax, %rdx\n or %rcx, %rdx\n lock cmpxchg %rdx, (%rdi)", true),
        // Whoever does more than that in between is a loop, and so is one that nobody may disturb.
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
fn jump_tables_are_followed() {
    // A loop through a table; one of its arms has the only safepoint.
    let body = |arm: &str| {
        format!(
            "function f\n instrumented f\n lea table(%rip), %rdx
1:      cmp $2, %rdi\n ja 9f\n movslq (%rdx,%rdi,4), %rcx\n add %rdx, %rcx\n jmp *%rcx
2:      check 3\n mov (%rsi), %rdi\n jmp 1b
3:      {arm}\n mov 8(%rsi), %rdi\n jmp 1b
4:      ret\n9: ret\nend f
        .section .rodata\n .p2align 2\ntable: .long 2b - table, 3b - table, 4b - table, 0"
        )
    };
    assert!(check(&body("check 3")).is_clean());
    let report = check(&body("nop"));
    assert_eq!(kinds(&report), [What::Loop], "{}", report.to_text("p", 9));
    assert!(report.to_json().contains("\"unresolved_jumps\": 0"));
}

#[test]
fn a_jump_table_is_as_long_as_its_index_allows_or_as_there_is_room_for() {
    // The third entry leads back: a loop, if the index may be 2.
    let body = |index: &str| {
        format!(
            "function f\n instrumented f\n lea table(%rip), %rdx\n1: {index}
        movslq (%rdx,%rax,4), %rcx\n add %rdx, %rcx\n jmp *%rcx\n2: ret\nend f
        function g\n nop\n ret\nend g
        .section .rodata\n .p2align 2\ntable: .long 2b - table, 2b - table, 1b - table, 0"
        )
    };
    for (index, clean) in [
        ("cmp $1, %eax\n ja 2f", true),
        ("cmp $2, %eax\n ja 2f", false),
        // Kept on the stack in between.
        ("cmp $1, %eax\n ja 2f\n mov %eax, 8(%rsp)\n mov 8(%rsp), %eax", true),
        ("cmp $1, %eax\n ja 2f\n mov %eax, 8(%rsp)\n mov 16(%rsp), %eax", false),
        // Changed since.
        ("cmp $1, %eax\n ja 2f\n add %edi, %eax", false),
        ("cmp $1, %eax\n ja 2f\n cwtl", false),
        ("cmp $1, %eax\n ja 2f\n call g\n lea table(%rip), %rdx", false),
        ("cmp $1, %eax\n ja 2f\n mov %eax, 8(%rsp)\n pop %rsi\n mov 8(%rsp), %eax", false),
        ("cmp $1, %eax\n ja 2f\n mov (%rsi), %eax", false),
    ] {
        let report = check(&body(index));
        assert_eq!(report.is_clean(), clean, "{index}\n{}", report.to_text("p", 9));
    }
    // Two tables in a row, neither index compared. Read past its end, the first would lead into the
    // second's arm by another way than through its safepoint.
    let report = check(
        "function f\n instrumented f\n lea table(%rip), %rdx\n lea other(%rip), %r8
1:      movslq (%rdx,%rdi,4), %rcx\n add %rdx, %rcx\n jmp *%rcx
2:      check 3\n movslq (%r8,%rsi,4), %rcx\n add %r8, %rcx\n jmp *%rcx
3:      ret
        .nops 4
4:      jmp 1b\n jmp 4b\nend f
        .section .rodata\n .p2align 2\ntable: .long 2b - table, 3b - table
other:  .long 4b - other + 4, 3b - other, 0",
    );
    assert!(report.is_clean(), "{}", report.to_text("p", 9));
}

#[test]
fn computed_gotos_lead_to_labels_that_data_point_to() {
    // The handlers have the dispatch copied; where the table's address comes from memory, no register
    // tells of it.
    let body = |arm: &str| {
        format!(
            "function f\n instrumented f\n lea table(%rip), %rbx\n mov %rbx, (%rsi)
        jmp *(%rbx,%rdi,8)
2:      check 3\n mov 8(%rsi), %rdi\n jmp *(%rbx,%rdi,8)
3:      {arm}\n mov (%rsi), %rbx\n mov 16(%rsi), %rdi\n jmp *(%rbx,%rdi,8)
4:      ret\nend f
        .section .data.rel.ro,\"aw\"\n .p2align 3\ntable: .quad 2b, 3b, 4b, 0"
        )
    };
    let check = |arm: &str| {
        let program = program(&body(arm), &["-pie"]);
        verify(&program, &Options::default()).expect("a program")
    };
    let report = check("check 3");
    assert!(report.is_clean(), "{}", report.to_text("p", 9));
    assert!(report.to_json().contains("\"unresolved_jumps\": 0"), "{}", report.to_json());
    let report = check("nop");
    assert_eq!(kinds(&report), [What::Loop], "{}", report.to_text("p", 9));
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
    let register = "function f\n instrumented f\n mov %fs:curtail_safepoint@tpoff, %rcx
        1: add $-9, %rcx\n js 2f\n3: dec %rdi\n jne 1b\n mov %rcx, %fs:curtail_safepoint@tpoff\n ret
        2: mov %rcx, %fs:curtail_safepoint@tpoff\n call curtail_safepoint_slow\n mov %fs:curtail_safepoint@tpoff, %rcx\n jmp 3b\nend f";
    let report = check(register);
    assert!(
        report.is_clean() && report.to_json().contains("in a register\": 1"),
        "{}",
        report.to_json()
    );
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
