//! What is told beside the results: on standard error, from any thread. Where that is full or
//! closed, the text is lost, which is no reason to end (`eprintln!` panics).

/// As `eprintln!`, and carries on where it cannot write.
macro_rules! say {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($what)*);
    }};
}
