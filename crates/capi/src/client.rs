//! A client of a server's `shm://`: the header says what it does. One thread at a time.

use crate::border::{CError, Failure, Status, given, guard, text};
use curtail::net::{NoResponse, ShmClient, ShmRefused};
use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::time::{Duration, Instant};

/// `curtail_answer`.
#[repr(C)]
pub struct CAnswer {
    tag: u32,
    bytes: *const u8,
    length: usize,
    why: *const c_char,
}

/// `curtail_client`.
pub struct CClient {
    client: ShmClient,
    come: VecDeque<(u32, Result<Vec<u8>, NoResponse>)>,
    /// What the caller was given last.
    last: Vec<u8>,
}

/// What there is in place of an answer.
fn why(none: NoResponse) -> &'static CStr {
    match none {
        NoResponse::Silent => c"the handler gave no response",
        NoResponse::Failed => c"the handler failed",
        NoResponse::Dropped => c"the server had no room for the request",
        NoResponse::Cancelled => c"the request was cancelled",
        NoResponse::TooLong => c"longer than the transport carries",
        NoResponse::Closed => c"the session has ended",
    }
}

impl CClient {
    fn connect(path: &str) -> Result<Self, Failure> {
        let failed = |error| Failure::new(Status::System, format!("shm://{path}: {error}"));
        let client = ShmClient::connect(path).map_err(failed)?;
        Ok(Self { client, come: VecDeque::new(), last: Vec::new() })
    }

    fn submit(&mut self, request: &[u8]) -> Result<u32, Failure> {
        self.client.submit(request).map_err(|refused| {
            let status = match refused {
                ShmRefused::Full => Status::Full,
                ShmRefused::TooLong => Status::Misuse,
                ShmRefused::Closed => Status::Ended,
            };
            Failure::new(status, refused)
        })
    }

    /// The next answer; `within`: none, it is waited for however long it takes.
    fn next(&mut self, within: Option<Duration>) -> Result<CAnswer, Failure> {
        let until = within.and_then(|within| Instant::now().checked_add(within));
        while self.come.is_empty() {
            let come = &mut self.come;
            let mut take =
                |tag, answer: Result<&[u8], _>| come.push_back((tag, answer.map(<[u8]>::to_vec)));
            let count = self.client.receive(&mut take);
            if count.map_err(|closed| Failure::new(Status::Ended, closed))? > 0 {
                break;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(Failure::new(Status::Full, "there is no answer yet"));
            }
            if until.is_none() && self.client.under_way() == 0 {
                return Err(Failure::misuse("no request is under way, so none has an answer"));
            }
            let waited = self.client.wait(left);
            waited.map_err(|error| Failure::new(Status::System, error))?;
        }
        let (tag, answer) = self.come.pop_front().expect("it is not empty");
        let why = answer.as_ref().err().map_or(ptr::null(), |none| why(*none).as_ptr());
        self.last = answer.unwrap_or_default();
        Ok(CAnswer { tag, bytes: self.last.as_ptr(), length: self.last.len(), why })
    }
}

/// See the header.
///
/// # Safety
/// `path` is null or a text; `client` and `error` are null or valid to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curtail_client_connect(
    path: *const c_char,
    client: *mut *mut CClient,
    error: *mut CError,
) -> Status {
    let call = || {
        // SAFETY: the caller's promise; nothing is there that needs a drop.
        let to = unsafe { client.as_mut() };
        let to = to.ok_or_else(|| Failure::misuse("where to put the client is NULL"))?;
        *to = ptr::null_mut();
        // SAFETY: the caller's promise.
        let path = unsafe { text(path, "the path") }?;
        *to = Box::into_raw(Box::new(CClient::connect(path)?));
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { guard(error, call) }
}

/// See the header.
///
/// # Safety
/// `client` is null or from `curtail_client_connect`, not freed, and used by no other thread; `request`
/// has `length` bytes; `tag` and `error` are null or valid to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curtail_client_submit(
    client: *mut CClient,
    request: *const c_void,
    length: usize,
    tag: *mut u32,
    error: *mut CError,
) -> Status {
    let call = || {
        // SAFETY: the caller's promise.
        let client = unsafe { client.as_mut() };
        let client = client.ok_or_else(|| Failure::misuse("the client is NULL"))?;
        let request = match length {
            0 => &[],
            _ => {
                // SAFETY: as above; `given` only looks whether it is null.
                let first = unsafe { given(request.cast::<u8>(), "the request") }?;
                // SAFETY: as above.
                unsafe { std::slice::from_raw_parts(ptr::from_ref(first), length) }
            }
        };
        let submitted = client.submit(request)?;
        // SAFETY: as above.
        if let Some(tag) = unsafe { tag.as_mut() } {
            *tag = submitted;
        }
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { guard(error, call) }
}

/// See the header.
///
/// # Safety
/// `client` is null or from `curtail_client_connect`, not freed, and used by no other thread; `answer`
/// and `error` are null or valid to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curtail_client_next(
    client: *mut CClient,
    within_ns: i64,
    answer: *mut CAnswer,
    error: *mut CError,
) -> Status {
    let call = || {
        // SAFETY: the caller's promise.
        let (client, to) = unsafe { (client.as_mut(), answer.as_mut()) };
        let client = client.ok_or_else(|| Failure::misuse("the client is NULL"))?;
        let to = to.ok_or_else(|| Failure::misuse("where to put the answer is NULL"))?;
        *to = client.next(u64::try_from(within_ns).ok().map(Duration::from_nanos))?;
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { guard(error, call) }
}

/// See the header.
///
/// # Safety
/// `client` is null or from `curtail_client_connect`, and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curtail_client_free(client: *mut CClient) {
    if !client.is_null() {
        // SAFETY: from `Box::into_raw`, by the caller's promise.
        drop(unsafe { Box::from_raw(client) });
    }
}
