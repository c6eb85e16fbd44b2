//! Popular crates inside of jobs and threads of Curtail's that are pre-empted every 2 µs.
//!
//! [`catalogue`] says which crates there are and what is checked of each. The checks are in the
//! programs of `src/bin`, one for each group of crates, so that a group that does not build takes no
//! other with it; [`inside`] is what they have in common. The program `sweep` builds them, starts
//! them once for each crate and setting, and writes down what came out.
#![forbid(unsafe_code)]

#[cfg(feature = "inside")]
pub mod blocks;
pub mod catalogue;
#[cfg(any(feature = "in-tls", feature = "in-awslc"))]
pub mod handshake;
#[cfg(feature = "inside")]
pub mod inside;
#[cfg(feature = "inside")]
pub mod javascript;
#[cfg(feature = "inside")]
pub mod wasm;

/// What a check found: its result, which must be the same each time, or what is wrong.
pub type Outcome = Result<String, String>;

/// The settings in which each crate runs. The first is the control, on the kernel's threads: what is
/// wrong there is the check's fault.
pub const SETTINGS: [&str; 4] = ["std", "pool", "one", "two"];

/// What a program of a group puts before the line with its result.
pub const MARK: &str = "sweep-result: ";

/// Ends a check with an error unless the condition holds.
#[macro_export]
macro_rules! must {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+));
        }
    };
}

/// The error of a call that should have none.
pub fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
