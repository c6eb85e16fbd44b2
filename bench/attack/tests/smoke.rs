//! Every attack, small: the well-behaved client gets its answers, and the server ends as it should.
#![forbid(unsafe_code)]

use attack_bench::{Attack, Options, attack, table};
use std::path::Path;

fn answers_are_right(kind: Attack) {
    let home = std::env::var_os("CURTAIL_HOME").expect("CURTAIL_HOME: where curtail is");
    let curtail = Path::new(&home).join("curtail");
    let options = Options { curtail, size: None, is_small: true, serve: Vec::new() };
    for policy in ["tq", "shenango"] {
        let figure = attack(kind, policy, &options).unwrap();
        assert!(figure.is_right(), "{}", table(&[figure]));
    }
}

macro_rules! each {
    ($($name:ident: $kind:ident;)*) => {
        $(#[test]
        #[ignore = "needs an instrumented curtail: ci/instrumented.sh"]
        fn $name() {
            answers_are_right(Attack::$kind);
        })*
    };
}

each! {
    datagrams: Datagrams;
    connections: Connections;
    pipelining: Pipelining;
    peers_that_never_read: Deaf;
    frames_that_trickle: Trickle;
    an_end_under_load: Sigterm;
    an_end_on_a_full_disk: FullDisk;
}
