//! `libcurtail_pthread.so`: programs of pthreads, as they are, on Curtail's threads.
//!
//! It is loaded before the C library (`LD_PRELOAD`, or linked in), so its definitions win, for the program
//! and for all libraries that it loads. `main` runs as a thread of Curtail's, and so does whatever
//! `pthread_create` starts there; what waits in a function that is defined here, or in `curtail-libc`,
//! waits as a thread, and its kthread goes on.
//!
//! * `begin`: whether the program has threads at all, and its `main`; `interrupt`: where threads that
//!   compute are pre-empted;
//! * `thread`, `registry`: threads come and go; `schedule`, `refused`: what the kernel alone could give;
//! * `semaphore`, `barrier`, `c11`: what waits for other threads (locks are `curtail-libc`'s);
//! * `descriptors`: what is known of each; `stream`, `socket`, `connection`: reading and writing, sockets;
//!   `ready`, `select`: waiting for several; `closing`: what changes a descriptor;
//! * `signals`: masks of a thread's own; `handlers`: waits that handlers end; `process`, `identity`:
//!   children, and who the process is.
//!
//! **Plain threads** of the program's, such as a library starts before `main`, get the C library's own
//! functions. So does everything in a program without threads, and in the child of a fork.

mod barrier;
mod begin;
mod c11;
mod call;
mod closing;
mod connection;
mod descriptors;
mod follow;
mod handlers;
mod identity;
mod interrupt;
mod pause;
mod process;
mod ready;
mod refused;
mod registry;
mod schedule;
mod select;
mod semaphore;
mod signals;
mod socket;
mod stream;
mod thread;
