//! `cargo curtail`, and the wrapper around rustc that it makes cargo use.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let wrapping = std::env::var_os("CURTAIL_WRAPPER").is_some();
    match arguments.split_first() {
        // Cargo calls a subcommand with its name, and a wrapper with rustc's path.
        Some((first, rest)) if wrapping && first != "curtail" => {
            curtail_driver::wrapper::main(first, rest)
        }
        Some((first, rest)) => {
            let rest = if first == "curtail" { rest } else { &arguments[..] };
            curtail_driver::cargo::main(
                rest.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            )
        }
        None => curtail_driver::cargo::main(Vec::new()),
    }
}
