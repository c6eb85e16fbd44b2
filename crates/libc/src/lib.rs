//! The functions of C that Curtail defines instead of the C library: locks, condition variables,
//! `pthread_once`, sleeping, futexes by `syscall`, `getaddrinfo`, `sigaltstack`, and what tells of the
//! calling thread.
//!
//! The program's own definitions win over libc's, for the program and for all libraries that it loads. A
//! thread of Curtail's that must wait blocks by [`curtail_rt::block`], and its kthread goes on; other
//! threads get libc's own functions.
//!
//! Programs depend on `curtail`, which links this. What `curtail-pthread` shares is called by its path, and
//! nothing else.

/// The thread sanitizer calls `sigaltstack` before it can run code that it instruments.
#[cfg(not(curtail_sanitize = "thread"))]
mod alternate;
mod condclock;
mod futex;
mod identity;
mod linked;
mod once;
mod own_words;
mod owner;
mod pthread;
#[doc(hidden)]
pub mod real;
mod resolve;
mod sleep;
#[doc(hidden)]
pub mod until;
