//! The integration tests, one program: what it takes to link them is spent once.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/daemon.rs"]
mod daemon;
#[path = "../common/sockets.rs"]
mod streams;
#[path = "../together/mod.rs"]
mod together;

mod alone;
mod asking;
mod auto_traits;
mod batch_threads;
mod cancel;
mod cancel_peers;
mod channels;
mod classes;
mod conditions;
mod connections;
mod darc;
mod datagrams;
mod dispatcherless;
mod dispatcherless_network;
mod dispatchers;
mod dispatchers_network;
mod edges;
mod elastic;
mod elastic_ends;
mod elastic_evict;
mod elastic_port;
mod elastic_server;
mod ends;
mod floods;
mod fork;
mod futex;
mod handlers;
mod hang_ups;
mod hostile;
mod http;
mod http_rfc;
mod idle;
mod left_behind;
mod lists;
mod locks;
mod migrate;
mod moving;
mod network;
mod once;
mod overdue;
mod overflow;
mod own_policy;
mod panic_report;
mod panics;
mod pool;
mod quota;
mod ranked;
mod record;
mod refusals;
mod relay;
mod server;
mod shm;
mod signal;
mod signal_stacks;
mod sleep;
mod sockets;
mod spans;
mod stalls;
mod stuck;
mod suspended;
mod sync;
mod terminate;
mod thread_locals;
mod threads;
mod timeline;
mod waits;
