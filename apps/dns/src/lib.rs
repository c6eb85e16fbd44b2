//! An authoritative DNS server, over UDP and TCP.
//!
//! * [`Zone`] and [`Zones`]: what is known, as zone files say it (RFC 1035 §5);
//! * [`respond`]: bytes of a query in, bytes of the answer out; plain, without a server;
//! * [`Dns`]: the server, an [`App`](curtail::App).
//!
//! It answers what RFC 1034 §4.3.2 says for the zones that it has, and refuses all else. There is no
//! DNSSEC, no transfer, no update and no recursion: a zone that is signed, or has a `DNAME`, is not
//! loaded.
#![forbid(unsafe_code)]

mod answer;
mod app;
mod find;
mod load;
mod query;
mod zone;

pub use answer::respond;
pub use app::Dns;
pub use load::LoadError;
pub use zone::{Zone, Zones};

/// The longest answer in a datagram: no path of today fragments it (DNS flag day 2020).
pub const MAX_DATAGRAM: u16 = 1_232;
