//! Safepoints where none may be.

use crate::common;

use common::program;
use curtail_verify::finding::What;
use curtail_verify::report::{Options, Report, verify};

fn with(body: &str, keep_out: &[&str]) -> Report {
    let keep_out = keep_out.iter().map(|&name| name.to_owned()).collect();
    verify(&program(body, &[]), &Options { keep_out, ..Options::default() }).expect("a program")
}

/// How many findings of a kind, and that there are no others.
fn only(report: &Report, what: What) -> usize {
    let count = report.of(what).len();
    assert_eq!(report.is_clean(), count == 0, "{}", report.to_text("p", 9));
    count
}

fn function(name: &str) -> String {
    format!("function {name}\n instrumented {name}\n check 3\n ret\nend {name}\n")
}

#[test]
fn names_that_mean_no_safepoints() {
    let f = function("f");
    for name in [
        "malloc",
        "_Znwm",
        "_ZdlPv",
        "je_arena_purge",
        "curtail_safepoint_check",
        "_RNvCs1234_13curtail_fiber1f",
        "_ZN7curtail6Server1f17h0123456789abcdefE",
        "_RNvCs5678_7___rustc12___rust_alloc",
        "_GLOBAL__sub_I_main",
        "_ZN2ns4NodenwEm",
        "_ZN60_$LT$a..Mine$u20$as$u20$core..alloc..global..GlobalAlloc$GT$5alloc17h0123456789abcdefE",
        "__cxa_thing",
    ] {
        let report = with(&(f.clone() + &function(name)), &[]);
        assert_eq!(only(&report, What::Forbidden), 1, "{name}");
        assert!(report.to_text("p", 9).contains("a safepoint in"), "{name}");
    }
    for name in ["mallocate", "uncurtailed", "_RNvCs1234_10uncurtaile1f"] {
        assert_eq!(only(&with(&(f.clone() + &function(name)), &[]), What::Forbidden), 0, "{name}");
    }
}

#[test]
fn the_runtime_may_call_the_slow_path_by_hand() {
    let name = "_RNvCs1234_13curtail_fiber4here";
    let body =
        format!("{}function {name}\n call curtail_safepoint_slow\n ret\nend {name}", function("f"));
    assert_eq!(only(&with(&body, &[]), What::Forbidden), 0);
}

#[test]
fn the_keep_out_list_is_kept() {
    let body = function("f") + &function("_ZN3lib5inner4workEv");
    assert_eq!(only(&with(&body, &["lib::inner::work()"]), What::Forbidden), 1);
    assert_eq!(only(&with(&body, &["lib::*"]), What::Forbidden), 1);
    assert_eq!(only(&with(&body, &["_ZN3lib*"]), What::Forbidden), 1);
    assert_eq!(only(&with(&body, &["lib", "other*"]), What::Forbidden), 0);
}

#[test]
fn start_and_end_of_the_program() {
    for (section, word) in
        [(".init_array", "static initialiser"), (".fini_array", "destructor at exit")]
    {
        let body =
            format!("{}{}\n .section {section},\"aw\"\n .quad g\n", function("f"), function("g"));
        let report = with(&body, &[]);
        assert_eq!(only(&report, What::Forbidden), 1);
        assert!(report.to_json().contains(word), "{}", report.to_json());
    }
}

#[test]
fn what_the_pass_left_alone_must_have_none() {
    let body = format!(
        "{}function g\n .pushsection .curtail.functions,\"aw\",@progbits\n .long g - ., 8, 2\n .popsection
         check 3\n ret\nend g",
        function("f")
    );
    let report = with(&body, &[]);
    assert_eq!(only(&report, What::Forbidden), 1);
    assert!(report.to_json().contains("marked as having no safepoint"));
}

#[test]
fn signal_handlers() {
    let stubs = "function signal\n ret\nend signal\nfunction sigaction\n ret\nend sigaction\n";
    let handler = function("handler");
    for install in [
        "mov $10, %edi\n lea handler(%rip), %rsi\n call signal",
        "mov $handler, %esi\n mov $10, %edi\n call signal",
        "sub $168, %rsp\n lea handler(%rip), %rax\n mov %rax, 8(%rsp)\n lea 8(%rsp), %rsi\n xor %edx, %edx\n call sigaction\n add $168, %rsp",
        "sub $168, %rsp\n movq $handler, (%rsp)\n mov %rsp, %rsi\n call sigaction\n add $168, %rsp",
        "lea action(%rip), %rsi\n call sigaction",
    ] {
        let body = format!(
            "{stubs}{handler}function f\n instrumented f\n {install}\n ret\nend f\n .data\naction: .quad handler, 0, 0\n"
        );
        let report = with(&body, &[]);
        assert_eq!(only(&report, What::Forbidden), 1, "{install}");
        assert!(report.to_json().contains("signal handler"));
    }
    // Handed to another function, or to none.
    let other = format!(
        "{stubs}{handler}function f\n instrumented f\n lea handler(%rip), %rsi\n call g\n ret\nend f\nfunction g\n ret\nend g"
    );
    assert_eq!(only(&with(&other, &[]), What::Forbidden), 0);
}

#[test]
fn red_zones() {
    let body =
        |access: &str| format!("function f\n instrumented f\n {access}\n check 3\n ret\nend f");
    assert_eq!(only(&with(&body("mov %rdi, -8(%rsp)"), &[]), What::RedZone), 1);
    assert_eq!(
        only(
            &with(&body("push %rbp\n mov %rsp, %rbp\n mov %rdi, -8(%rbp)\n pop %rbp"), &[]),
            What::RedZone
        ),
        1
    );
    let framed = "push %rbp\n mov %rsp, %rbp\n sub $16, %rsp\n mov %rdi, -8(%rbp)\n add $16, %rsp\n pop %rbp";
    assert_eq!(only(&with(&body(framed), &[]), What::RedZone), 0);
    // What only looks like it: a thread's own block, and a frame pointer no more.
    for other in ["mov %rdi, %fs:-8(%rbp)", "xor %ebp, %ebp\n mov %rdi, -8(%rbp)"] {
        let code = format!("push %rbp\n mov %rsp, %rbp\n {other}\n pop %rbp");
        assert_eq!(only(&with(&body(&code), &[]), What::RedZone), 0, "{other}");
    }
}
