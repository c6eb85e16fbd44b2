//! Pre-emption by signal (`curtail-signal`), or, without the feature `signal`, that there is none.

pub use curtail_fiber::ticks::{Refusal, Ticks};
#[cfg(feature = "signal")]
pub use curtail_signal::{Interruptible, Owner, Ticker, interruptible};
#[cfg(not(feature = "signal"))]
pub use without::{Interruptible, Owner, Ticker, interruptible};

/// Whether this program can be pre-empted by signal ([`crate::Preempt::Signal`]), and how much of it.
///
/// # Errors
/// A reason why not.
pub fn signals() -> Result<Interruptible, String> {
    interruptible(&[])
}

#[cfg(not(feature = "signal"))]
mod without {
    use super::Ticks;
    use std::convert::Infallible;
    use std::io;

    const REASON: &str = "it was built without curtail's feature `signal`";

    /// What there is to interrupt: nothing.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Interruptible {
        /// Functions of the application.
        pub functions: usize,
        /// Other functions of the program.
        pub others: usize,
    }

    /// An owner of ticks, of which there is none.
    #[derive(Debug)]
    pub struct Owner(Infallible);

    /// A handle of an owner's.
    #[derive(Clone, Debug)]
    pub struct Ticker(Infallible);

    /// Nothing can be interrupted.
    ///
    /// # Errors
    /// That, always.
    pub fn interruptible(_: &[String]) -> Result<Interruptible, String> {
        Err(REASON.to_owned())
    }

    impl Owner {
        /// There can be none.
        ///
        /// # Errors
        /// That, always.
        pub fn new(_: u64) -> io::Result<Self> {
            Err(io::Error::other(REASON))
        }

        /// See `curtail-signal`.
        pub fn ticker(&self) -> Ticker {
            match self.0 {}
        }

        /// See `curtail-signal`.
        pub fn arm(&self, _: u64, _: u64, _: bool) {
            match self.0 {}
        }
    }

    impl Ticker {
        /// See `curtail-signal`.
        pub fn tick(&self, _: u64) {
            match self.0 {}
        }

        /// See `curtail-signal`.
        pub fn counts(&self) -> Ticks {
            match self.0 {}
        }
    }
}
