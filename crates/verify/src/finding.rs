//! One thing that is wrong, and where.

use serde::Serialize;

/// What kind of thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// A safepoint where none may be.
    Forbidden,
    /// A safepoint above which the red zone is in use.
    RedZone,
    /// A loop without a safepoint that is not known to end soon.
    Loop,
    /// Recursion without a safepoint.
    Recursion,
    /// A path longer than the bound.
    LongPath,
    /// A function called through pointers uses more than its share of the bound.
    Convention,
}

impl What {
    /// As a heading.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            What::Forbidden => "safepoints in forbidden places",
            What::RedZone => "safepoints over a red zone in use",
            What::Loop => "loops without a safepoint",
            What::Recursion => "recursion without a safepoint",
            What::LongPath => "paths longer than the bound",
            What::Convention => "functions called through pointers that use too much of the bound",
        }
    }
}

/// A finding.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What kind of thing.
    pub what: What,
    /// In which function.
    pub function: usize,
    /// At which instruction.
    pub address: u64,
    /// Where the path begins that ends there.
    pub from: Option<u64>,
    /// How long it is, in units of about one instruction.
    pub length: Option<u64>,
    /// In words.
    pub detail: String,
}

impl Finding {
    /// Of a place.
    #[must_use]
    pub fn new(what: What, function: usize, address: u64, detail: String) -> Self {
        Finding { what, function, address, from: None, length: None, detail }
    }

    /// With a length.
    #[must_use]
    pub fn of_length(mut self, length: u64) -> Self {
        self.length = Some(length);
        self
    }

    /// Of a path that begins elsewhere.
    #[must_use]
    pub fn from(mut self, address: u64) -> Self {
        self.from = Some(address);
        self
    }
}
