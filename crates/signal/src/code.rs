//! Where a fiber may be interrupted.

use curtail_fiber::ticks::Refusal;
use std::ops::Range;
use std::sync::OnceLock;

/// Where fibers may be interrupted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// The application's, sorted, without overlaps.
    pub application: Vec<Range<usize>>,
    /// All code of the program, the application's and the rest.
    pub program: Range<usize>,
}

impl Code {
    /// Whether a fiber that is about to execute the instruction at `address` may be interrupted.
    pub(super) fn check(&self, address: usize) -> Result<(), Refusal> {
        let after = self.application.partition_point(|range| range.start <= address);
        match after.checked_sub(1).map(|index| &self.application[index]) {
            Some(range) if range.contains(&address) => Ok(()),
            _ if self.program.contains(&address) => Err(Refusal::Runtime),
            _ => Err(Refusal::Library),
        }
    }
}

pub(super) static CODE: OnceLock<Code> = OnceLock::new();

/// Declares where fibers may be interrupted, once for the process.
///
/// # Safety
/// In all of `code.application` the code is re-entrant: it leaves nothing half-done in memory that
/// another fiber of the same thread reaches (thread-locals, statics), it holds no lock that another
/// fiber of that thread waits for without yielding, and it may be continued after others ran. Nor is
/// it called by code of which that does not hold.
pub unsafe fn allow(code: Code) {
    let _ = CODE.set(code);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart() {
        let code = Code { application: vec![100..200, 200..210, 400..500], program: 50..600 };
        for inside in [100, 199, 200, 209, 400, 499] {
            assert_eq!(code.check(inside), Ok(()), "{inside}");
        }
        for outside in [50, 99, 210, 399, 500, 599] {
            assert_eq!(code.check(outside), Err(Refusal::Runtime), "{outside}");
        }
        for library in [0, 49, 600, usize::MAX] {
            assert_eq!(code.check(library), Err(Refusal::Library), "{library}");
        }
        assert_eq!(Code::default().check(7), Err(Refusal::Library));
    }
}
