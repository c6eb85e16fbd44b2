//! How calls from C end: a status, and a message where the caller wants one.
//!
//! Any thread's. The invariant: nothing unwinds past [`guard`].

use std::any::Any;
use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// `curtail_status`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It was done.
    Ok = 0,
    /// The call itself was wrong.
    Misuse = 1,
    /// A setting does not do.
    BadSetting = 2,
    /// The application refused.
    Refused = 3,
    /// The operating system refused.
    System = 4,
    /// The server has ended.
    Ended = 5,
    /// No memory for a response.
    NoMemory = 6,
    /// A fault of the library.
    Internal = 7,
    /// Not now.
    Full = 8,
}

/// Bytes of a message, its zero byte included.
const MESSAGE: usize = 1024;

/// `curtail_error`. The application may write what it likes into it.
#[repr(C)]
pub struct CError {
    status: c_int,
    message: [c_char; MESSAGE],
}

impl CError {
    /// No error yet: what a function of the application is given to write into.
    pub(crate) const fn blank() -> Self {
        Self { status: 0, message: [0; MESSAGE] }
    }

    /// What was written into it, or `otherwise`.
    pub(crate) fn words(&self, otherwise: &str) -> String {
        let bytes = self.message.iter().map(|&byte| byte.cast_unsigned());
        let bytes: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
        if bytes.is_empty() {
            return otherwise.to_owned();
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn tell(&mut self, failure: &Failure) {
        let words = shortened(&failure.message);
        let words = words.bytes().filter(|&byte| byte != 0);
        *self = Self { status: failure.status as c_int, ..Self::blank() };
        self.message.iter_mut().zip(words).for_each(|(to, byte)| *to = byte.cast_signed());
    }
}

/// A message that has room; of one that has none, the words that do, and a sign that there was more.
fn shortened(message: &str) -> Cow<'_, str> {
    const MORE: &str = " …";
    if message.len() < MESSAGE {
        return Cow::Borrowed(message);
    }
    let most = &message[..message.floor_char_boundary(MESSAGE - 1 - MORE.len())];
    // A word without an end is cut.
    let at = most.rfind(char::is_whitespace).filter(|&at| at > MESSAGE / 2);
    let whole = at.unwrap_or(most.len());
    Cow::Owned(format!("{}{MORE}", most[..whole].trim_end()))
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    status: Status,
    message: String,
}

impl Failure {
    pub(crate) fn new(status: Status, message: impl ToString) -> Self {
        Self { status, message: message.to_string() }
    }

    pub(crate) fn misuse(message: impl ToString) -> Self {
        Self::new(Status::Misuse, message)
    }

    pub(crate) fn setting(message: impl ToString) -> Self {
        Self::new(Status::BadSetting, message)
    }

    pub(crate) fn panicked(payload: &(dyn Any + Send)) -> Self {
        let words = payload.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| payload.downcast_ref::<&str>().copied());
        Self::new(Status::Internal, format!("a fault of curtail: {}", words.unwrap_or("a panic")))
    }
}

/// Runs a call, and tells how it ended.
///
/// # Safety
/// `error` is null or valid to write to.
pub(crate) unsafe fn guard(
    error: *mut CError,
    call: impl FnOnce() -> Result<(), Failure>,
) -> Status {
    let ended = catch_unwind(AssertUnwindSafe(call));
    let failure = match ended {
        Ok(Ok(())) => return Status::Ok,
        Ok(Err(failure)) => failure,
        Err(payload) => Failure::panicked(&*payload),
    };
    // SAFETY: the caller's promise; what was there needs no drop.
    if let Some(error) = unsafe { error.as_mut() } {
        error.tell(&failure);
    }
    failure.status
}

/// What `pointer` points to.
///
/// # Safety
/// It is null, or valid for reads and shared for as long as the reference lives.
pub(crate) unsafe fn given<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::misuse(format!("{what} is NULL")))
}

/// A text of C's.
///
/// # Safety
/// It is null, or ends in a zero byte and stays as it is for as long as the reference lives.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Failure> {
    // SAFETY: the caller's promise.
    let first = unsafe { given(pointer, what) }?;
    // SAFETY: as above, it has an end.
    let bytes = unsafe { CStr::from_ptr(first) };
    bytes.to_str().map_err(|_| Failure::misuse(format!("{what} is no UTF-8")))
}
