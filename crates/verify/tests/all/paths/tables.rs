//! Jump tables and computed gotos.

use super::{check, kinds};
use crate::common::program;
use curtail_verify::finding::What;
use curtail_verify::report::{Options, verify};

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
