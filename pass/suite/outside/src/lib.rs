//! Nothing: this package is a list of others. Its manifest says what for.

#![forbid(unsafe_code)]
