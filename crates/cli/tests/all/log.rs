//! What the runtime tells while it runs, on standard error.

use std::process::Command;

/// A run in which DARC makes reservations, with `RUST_LOG` as given; what stood on standard error.
fn told(asked: Option<&str>) -> String {
    let line = "bench --policy darc --profile-window 20 --workers 1 --rate 2k --duration 100ms \
                --classes a:5us:1,b:50us:1 --json -";
    let mut command = Command::new(env!("CARGO_BIN_EXE_curtail"));
    command.args(line.split_whitespace()).env_remove("RUST_LOG");
    let output = command.envs(asked.map(|asked| ("RUST_LOG", asked))).output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("nothing but JSON");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn what_the_policy_decides_is_told_to_who_listens() {
    let stderr = told(Some("curtail=info"));
    let decisions = |line: &&str| line.contains(" INFO ") && line.contains("policy=darc");
    // The first look comes before the first profile, the next one a second later.
    let lines: Vec<&str> = stderr.lines().filter(decisions).collect();
    assert!(!lines.is_empty() && lines[0].contains("until the first profile"), "{stderr}");
    assert!(!stderr.contains('\x1b'), "{stderr:?}");
    assert!(!told(None).contains(" INFO "));
    assert!(!told(Some("off")).contains(" INFO "));
    let odd = told(Some("curtail=loudly"));
    assert!(odd.contains("note: RUST_LOG: `curtail=loudly` is no filter"), "{odd}");
}
