//! Files that are no programs, or damaged ones: an error in one line, never a panic.

use crate::common;

use common::{Scratch, program};
use curtail_verify::report::{Options, verify};
use std::process::Command;

const BODY: &str = "function f\n instrumented f\n lea table(%rip), %rdx
1:      cmp $2, %rdi\n ja 9f\n movslq (%rdx,%rdi,4), %rcx\n add %rdx, %rcx\n jmp *%rcx
2:      check 3\n mov (%rsi), %rdi\n jmp 1b
3:      noted 7\n4: inc %rax\n cmp %rdi, %rax\n jb 4b\n mov %fs:0, %rax\n call *(%rax)
9:      .cfi_startproc\n ret\n .cfi_endproc\nend f
        .section .rodata\n .p2align 2\ntable: .long 2b - table, 3b - table, 9b - table\n
        .section .init_array,\"aw\"\n .quad f\n .data\n .quad f, 1b";

/// A generator that needs no crate (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

fn look(bytes: &[u8], what: &str) {
    let result = std::panic::catch_unwind(|| verify(bytes, &Options::default()));
    match result.unwrap_or_else(|_| panic!("panics: {what}")) {
        Ok(report) => drop((report.to_json(), report.to_text("p", 5))),
        Err(reason) => assert!(!reason.contains('\n') && !reason.is_empty(), "{what}: {reason:?}"),
    }
}

#[test]
fn damaged_files_do_not_panic() {
    for flags in [&[][..], &["-static-pie"]] {
        let good = program(BODY, flags);
        look(&good, "undamaged");
        for cut in (0..good.len()).step_by(61) {
            look(&good[..cut], &format!("cut at {cut}"));
        }
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for round in 0..1500 {
            let mut bad = good.clone();
            for _ in 0..=random.below(12) {
                // Headers and tables are small; half of the flips go there.
                let low = random.below(2) == 0;
                let at = random.below(if low { bad.len().min(512) } else { bad.len() });
                bad[at] ^= 1 << random.below(8);
            }
            if random.below(4) == 0 {
                let at = random.below(bad.len() - 8);
                let word = [u64::MAX, 1 << 63, 0x7fff_ffff_ffff_fff8, 1 << 32][random.below(4)];
                bad[at & !7..(at & !7) + 8].copy_from_slice(&word.to_le_bytes());
            }
            look(&bad, &format!("round {round} of {flags:?}"));
        }
    }
}

#[test]
fn what_is_no_program_is_refused() {
    let mut other = program("function f\n ret\nend f", &[]);
    let refused = |bytes: &[u8], word: &str| {
        let reason = verify(bytes, &Options::default()).expect_err("refused");
        assert!(reason.contains(word), "{reason}");
    };
    refused(b"", "not an ELF");
    refused(b"#!/bin/sh\n", "not an ELF");
    refused(&other[..40], "bad ELF");
    other[18] = 0xb7; // AArch64
    refused(&other, "x86-64");
    other[18] = 0x3e;
    other[16] = 1; // an object
    refused(&other, "linked");
}

#[test]
fn the_command_tells_by_its_status() {
    let scratch = Scratch::new();
    let file = |name: &str, bytes: &[u8]| {
        let path = scratch.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let clean = file("clean", &program("function f\n instrumented f\n check 3\n ret\nend f", &[]));
    let loops = file(
        "loops",
        &program("function f\n instrumented f\n1: dec %rdi\n jne 1b\n ret\nend f", &[]),
    );
    let plain = file("plain", &program("function f\n ret\nend f", &[]));
    let list = file("list", b"fine\n[bad\n");
    let json = scratch.path().join("out.json");
    let json = json.to_str().expect("UTF-8");
    for (arguments, status, word) in [
        (vec![clean.as_str()], 0, "clean"),
        (vec![&loops, "--json", json], 1, "1 finding"),
        (vec![plain.as_str()], 1, "no safepoints"),
        (vec![&loops, "--json=-"], 1, "\"kind\": \"loop\""),
        (vec![&clean, "--bound", "3"], 2, "--bound=3"),
        (vec![&clean, "--keep-out", &list], 2, "line 2"),
        (vec![&clean, &clean], 2, "one program"),
        (vec!["--often"], 2, "--often"),
        (vec![], 2, "which program"),
        (vec!["/nowhere/x"], 2, "/nowhere/x"),
        (vec![&list], 2, "not an ELF"),
        (vec!["--help"], 0, "usage"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_curtail-verify"))
            .args(&arguments)
            .output()
            .expect("runs");
        let text =
            String::from_utf8_lossy(if status == 2 { &output.stderr } else { &output.stdout });
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {text}");
        assert!(text.contains(word), "{arguments:?}: {text}");
        assert!(status != 2 || text.lines().count() == 1, "{arguments:?}: {text}");
    }
    let written = std::fs::read_to_string(json).expect("written");
    let value: serde_json::Value = serde_json::from_str(&written).expect("JSON");
    assert_eq!((&value["clean"], &value["findings"][0]["function"]), (&false.into(), &"f".into()));
}
