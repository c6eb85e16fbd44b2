//! Requests of HTTP, taken apart, and answers with a status.
//!
//! By handlers and classifiers, on any thread; what is handed out lies in the request's own bytes.

use crate::border::{Failure, Status, guard, text};
use curtail::Response;
use curtail::net::http::{self, Request};
use std::ffi::c_char;
use std::ptr;

/// `curtail_bytes`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CBytes {
    at: *const c_char,
    length: usize,
}

impl CBytes {
    const NONE: Self = Self { at: ptr::null(), length: 0 };
}

impl From<&[u8]> for CBytes {
    fn from(bytes: &[u8]) -> Self {
        Self { at: bytes.as_ptr().cast(), length: bytes.len() }
    }
}

/// `curtail_http`.
#[repr(C)]
#[derive(Debug)]
pub struct CHttp {
    method: CBytes,
    path: CBytes,
    query: CBytes,
    body: CBytes,
}

/// # Safety
/// `request` is null or valid for `length` bytes, for as long as what is returned is in use.
unsafe fn parse<'a>(request: *const u8, length: usize) -> Result<Request<'a>, Failure> {
    if request.is_null() {
        return Err(Failure::misuse("the request is NULL"));
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(request, length) };
    http::parse(bytes).ok_or_else(|| Failure::misuse("the request is none of HTTP"))
}

/// See the header.
///
/// # Safety
/// `request` is null or valid for `length` bytes; `http` is null or valid to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curtail_http_parse(
    request: *const u8,
    length: usize,
    http: *mut CHttp,
) -> Status {
    let call = || {
        // SAFETY: the caller's promise; nothing is there that needs a drop.
        let to = unsafe { http.as_mut() };
        let to = to.ok_or_else(|| Failure::misuse("where to put it is NULL"))?;
        // SAFETY: the caller's promise.
        let request = unsafe { parse(request, length) }?;
        let query = request.query().map_or(CBytes::NONE, |query| query.as_bytes().into());
        let (method, path) = (request.method.as_bytes(), request.path().as_bytes());
        *to = CHttp { method: method.into(), path: path.into(), query, body: request.body.into() };
        Ok(())
    };
    // SAFETY: no place for an error.
    unsafe { guard(ptr::null_mut(), call) }
}

/// See the header.
///
/// # Safety
/// `request` is null or valid for `length` bytes; `name` is null or ends in a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curtail_http_header(
    request: *const u8,
    length: usize,
    name: *const c_char,
) -> CBytes {
    let mut found = CBytes::NONE;
    let call = || {
        // SAFETY: the caller's promises.
        let (request, name) = unsafe { (parse(request, length)?, text(name, "the name")?) };
        found = request.header(name).map_or(CBytes::NONE, CBytes::from);
        Ok(())
    };
    // SAFETY: no place for an error.
    unsafe { guard(ptr::null_mut(), call) };
    found
}

/// See the header.
///
/// # Safety
/// `response` is null or what the running handler was given; `content_type` is null or ends in a zero
/// byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curtail_response_http(
    response: *mut Response,
    status: u16,
    content_type: *const c_char,
) -> Status {
    let call = || {
        if !(200..600).contains(&status) {
            return Err(Failure::misuse(format!("a status is from 200 to 599, not {status}")));
        }
        let kind = match content_type.is_null() {
            true => "",
            // SAFETY: the caller's promise.
            false => unsafe { text(content_type, "the content type") }?,
        };
        // SAFETY: the caller's promise.
        let response = unsafe { response.as_mut() };
        let response = response.ok_or_else(|| Failure::misuse("the response is NULL"))?;
        response.clear();
        response.write(&http::head(status, kind));
        Ok(())
    };
    // SAFETY: no place for an error.
    unsafe { guard(ptr::null_mut(), call) }
}
