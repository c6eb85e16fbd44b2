//! The integration tests, one program: what it takes to link them is spent once.

#[path = "../common/mod.rs"]
mod common;

#[cfg(feature = "dpdk")]
mod dpdk;
mod fault;
mod frame;
mod http;
mod local;
mod packet;
mod packet_hostile;
mod shm;
mod shm_hostile;
mod tcp;
mod tcp_ends;
mod tcp_fin;
mod tcp_load;
mod tcp_share;
mod tcp_slow;
mod udp;
mod url;
mod waiter;
mod xdp;
