//! JavaScript, by Boa.
#![forbid(unsafe_code)]

use boa_engine::property::Attribute;
use boa_engine::{Context, Source, js_string};
use curtail_sweep::inside::{self, Check};
use curtail_sweep::javascript::SCRIPT;
use curtail_sweep::{Outcome, must, text};
use std::process::ExitCode;

fn boa() -> Outcome {
    let mut context = Context::default();
    let set = context.register_global_property(js_string!("start"), 5, Attribute::all());
    set.map_err(text)?;
    let found = context.eval(Source::from_bytes(SCRIPT)).map_err(text)?;
    let found = found.to_string(&mut context).map_err(text)?.to_std_string_escaped();
    must!(context.eval(Source::from_bytes("throw 1")).is_err(), "no exception came out");
    Ok(found)
}

fn main() -> ExitCode {
    inside::main(&[Check::new("boa_engine", boa)])
}
