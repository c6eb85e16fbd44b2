//! What is told beside the results: on standard error, from any thread. Where that is full or closed
//! there is nobody to tell, which is no reason to end (`eprintln!` panics).

/// As `eprintln!`, and carries on where it cannot write.
macro_rules! say {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($what)*);
    }};
}
