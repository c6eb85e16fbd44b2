//! `curtail_response`: the runtime's own, behind a pointer that handlers are given.

use crate::border::Status;
use curtail::Response;
use std::ffi::c_void;
use std::ptr;

/// See the header.
///
/// # Safety
/// `response` is null or what the running handler was given; `bytes` is valid for `length` bytes, which
/// are not the response's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curtail_response_write(
    response: *mut Response,
    bytes: *const c_void,
    length: usize,
) -> Status {
    // SAFETY: the caller's promise.
    let Some(response) = (unsafe { response.as_mut() }) else { return Status::Misuse };
    if length == 0 {
        return Status::Ok;
    }
    if bytes.is_null() {
        return Status::Misuse;
    }
    if response.as_mut_vec().try_reserve(length).is_err() {
        return Status::NoMemory;
    }
    // SAFETY: the caller's promise.
    response.write(unsafe { std::slice::from_raw_parts(bytes.cast(), length) });
    Status::Ok
}

/// See the header.
///
/// # Safety
/// `response` is null or what the running handler was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curtail_response_extend(
    response: *mut Response,
    length: usize,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    let Some(response) = (unsafe { response.as_mut() }) else { return ptr::null_mut() };
    let bytes = response.as_mut_vec();
    if bytes.try_reserve(length).is_err() {
        return ptr::null_mut();
    }
    let before = bytes.len();
    bytes.resize(before + length, 0);
    bytes[before..].as_mut_ptr().cast()
}

/// See the header.
///
/// # Safety
/// `response` is null or what the running handler was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curtail_response_clear(response: *mut Response) {
    // SAFETY: the caller's promise.
    if let Some(response) = unsafe { response.as_mut() } {
        response.clear();
    }
}
