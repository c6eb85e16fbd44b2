//! What changes a descriptor: from then on its number may be another file's, or it is in another mode.

#![allow(unreachable_pub, reason = "C reaches these by their names")]

use crate::descriptors::{entry, forget, forget_from};
use crate::pause::is_ours;
use crate::process;
use curtail_libc::real;
use libc::{FILE, c_int, c_long, c_uint, c_ulong};

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    type Call = unsafe extern "C" fn(c_int) -> c_int;
    forget(fd);
    real!(c"close", new, Call; fd)
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(old: c_int, new: c_int) -> c_int {
    type Call = unsafe extern "C" fn(c_int, c_int) -> c_int;
    if old != new {
        forget(new);
    }
    real!(c"dup2", new, Call; old, new)
}

/// # Safety
/// As Linux asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    type Call = unsafe extern "C" fn(c_int, c_int, c_int) -> c_int;
    if old != new {
        forget(new);
    }
    real!(c"dup3", new, Call; old, new, flags)
}

/// # Safety
/// As Linux asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    type Call = unsafe extern "C" fn(c_uint, c_uint, c_int) -> c_int;
    forget_from(first, last);
    real!(c"close_range", new, Call; first, last, flags)
}

/// # Safety
/// As glibc asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closefrom(first: c_int) {
    type Call = unsafe extern "C" fn(c_int);
    forget_from(first.max(0).cast_unsigned(), u32::MAX);
    real!(c"closefrom", new, Call; first);
}

/// # Safety
/// As C asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fclose(file: *mut FILE) -> c_int {
    type Call = unsafe extern "C" fn(*mut FILE) -> c_int;
    // SAFETY: the caller's file.
    forget(unsafe { libc::fileno(file) });
    real!(c"fclose", new, Call; file)
}

/// C declares it variadic: see `syscall` in `curtail-libc`.
///
/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int {
    type Call = unsafe extern "C" fn(c_int, c_int, c_long) -> c_int;
    let answer = process::lock_file(|| real!(c"fcntl", new, Call; fd, command, argument), command);
    if command == libc::F_SETFL && answer == 0 {
        note_mode(fd, argument & c_long::from(libc::O_NONBLOCK) != 0);
    }
    answer
}

/// # Safety
/// As for `fcntl`: with large files, it is the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int {
    // SAFETY: the caller's own call.
    unsafe { fcntl(fd, command, argument) }
}

/// C declares it variadic: see `syscall` in `curtail-libc`.
///
/// # Safety
/// As Linux asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: c_long) -> c_int {
    type Call = unsafe extern "C" fn(c_int, c_ulong, c_long) -> c_int;
    let answer = real!(c"ioctl", new, Call; fd, request, argument);
    if request == libc::FIONBIO && answer == 0 {
        let value: *const c_int = std::ptr::with_exposed_provenance(argument as usize);
        // SAFETY: the caller's number, which the kernel has just read.
        note_mode(fd, unsafe { *value } != 0);
    }
    answer
}

fn note_mode(fd: c_int, nonblocking: bool) {
    if is_ours()
        && let Some(entry) = entry(fd)
    {
        entry.note_mode(nonblocking);
    }
}
