//! What the connections count, by the names that statistics have.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($field:ident: $name:literal;)*) => {
        #[derive(Default)]
        pub(super) struct Counters {
            $(pub(super) $field: AtomicU64,)*
        }
        impl Counters {
            pub(super) fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$(($name, self.$field.load(Relaxed)),)*]
            }
        }
    };
}

counters! {
    accepted: "tcp_accepted";
    // All places taken, or no descriptors.
    refused: "tcp_refused";
    accept_errors: "tcp_accept_errors";
    // Connections ended for an oversized frame; streams that ended within a frame.
    too_long: "tcp_too_long";
    cut: "tcp_cut";
    // Connections closed because more responses waited than may; because a begun frame did not end
    // or no response was taken in time; for silence; because the peer's FIN did not come in time.
    unread: "tcp_unread";
    stalled: "tcp_stalled";
    idle: "tcp_idle";
    no_fin: "tcp_no_fin";
    // Connections whose peers have gone before their answers came.
    hung_up: "tcp_hung_up";
    // Connections closed because all together had too much, and this one much of it for long.
    evicted: "tcp_evicted";
    // How often a connection was not read for what it had in progress, or for what all had.
    paused: "tcp_paused";
    starved: "tcp_starved";
    dropped: "tcp_responses_dropped";
    // Requests that were not run, for their connections had gone.
    orphaned: "tcp_requests_orphaned";
}
