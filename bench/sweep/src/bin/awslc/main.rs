//! rustls with AWS-LC.
#![forbid(unsafe_code)]

use curtail_sweep::Outcome;
use curtail_sweep::handshake::handshake;
use curtail_sweep::inside::{self, Check};
use rustls::crypto::aws_lc_rs;
use std::process::ExitCode;

fn tls() -> Outcome {
    handshake(aws_lc_rs::default_provider)
}

fn main() -> ExitCode {
    inside::main(&[Check::new("rustls/aws-lc-rs", tls)])
}
