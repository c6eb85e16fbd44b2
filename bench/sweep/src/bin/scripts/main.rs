//! Templates, and interpreters of other languages.
#![forbid(unsafe_code)]

mod javascript;
mod languages;
mod templates;
mod wasm;

use curtail_sweep::inside::{self, Check};
use std::process::ExitCode;

const CHECKS: &[Check] = &[
    Check::new("minijinja", templates::minijinja),
    Check::new("tera", templates::tera),
    Check::new("rhai", languages::rhai),
    Check::new("wasmi", wasm::wasmi),
    Check::new("rquickjs", javascript::rquickjs),
    Check::new("mlua", languages::mlua),
];

fn main() -> ExitCode {
    inside::main(CHECKS)
}
