//! Curtail for applications in C and C++: what `include/curtail.h` declares, over the runtime's Rust
//! API. `libcurtail_c.a` has it with all that it stands on.
//!
//! The header says who may call what from which thread; the functions here say no more than their
//! safety. What holds everywhere:
//!
//! * no panic leaves a function: each runs within `border::guard`, or cannot panic;
//! * no C++ exception comes in: handlers are called inside the runtime's own edge, all other functions
//!   of the application through `contain`;
//! * this crate is native code: handlers, which are instrumented, are behind function pointers.
//!
//! `app` is called by the runtime's threads; `settings`, `server`, `stats` and `client` by the application's.

mod app;
mod border;
mod client;
mod contain;
mod http;
mod log2;
mod response;
mod server;
mod settings;
mod stats;

pub use app::{CApp, CClass, ClassifyFn};
pub use border::{CError, Status};
pub use client::{
    CAnswer, CClient, curtail_client_connect, curtail_client_free, curtail_client_next,
    curtail_client_submit,
};
pub use http::{CBytes, CHttp, curtail_http_header, curtail_http_parse, curtail_response_http};
pub use response::{curtail_response_clear, curtail_response_extend, curtail_response_write};
pub use server::{
    CServer, curtail_server_address, curtail_server_classify_by, curtail_server_free,
    curtail_server_new, curtail_server_run, curtail_server_set_quantum, curtail_server_shutdown,
    curtail_server_stats, curtail_server_switch,
};
pub use settings::{Settings, curtail_set, curtail_settings_free, curtail_settings_new};
pub use stats::{CClassStats, CStats, CTimes, curtail_stats_free};

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn curtail_request_class() -> u16 {
    curtail::class().unwrap_or(curtail::ClassId::UNKNOWN).0
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn curtail_safepoint_here() {
    curtail::safepoint();
}
