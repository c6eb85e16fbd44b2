//! Drop-in for clang, with safepoints; called as `curtail-c++` (a link to it), for clang++.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    curtail_driver::cc::main()
}
