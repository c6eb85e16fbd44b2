//! HTTP/1.1: what of a byte stream is a request, and what an answer looks like on it. Pure, but for
//! the date.
//!
//! A transport with [`Wire::Http`](crate::Wire) hands each request over as it came, head and body,
//! but for a body in chunks, which is joined; [`parse`] takes it apart, in a classifier or a
//! handler. An answer is the bytes of its body, with [`head`] or [`head_with`] in front where it
//! is to be another than `200`, or to have fields of its own.
//!
//! One request of a connection is in progress at a time: answers are in the order of the requests,
//! also where a client sends many at once.

mod answer;
mod chunks;
mod date;
mod look;
mod refusal;
mod target;

pub(crate) use answer::{answer, plain};
pub use answer::{head, head_with};
pub(crate) use chunks::Chunks;
pub(crate) use date::Date;
pub(crate) use look::{Whole, look};
pub(crate) use refusal::Refusal;

use look::MOST_HEADERS;
use target::Target;

/// Bytes that a request's line and headers may have.
pub(crate) const MOST_HEAD: usize = 16 << 10;

/// A request, taken apart. All of it lies in the bytes that it was made of.
#[derive(Debug)]
pub struct Request<'a> {
    /// `GET`, `POST` …
    pub method: &'a str,
    /// What is asked for: path and query, as they came; `*` for the server itself (`OPTIONS`). Of
    /// an absolute form (`http://host/path`), what follows the host.
    pub target: &'a str,
    /// Names and values, in their order. Where the target has a host, `Host` is that one.
    pub headers: Vec<(&'a str, &'a [u8])>,
    /// What follows the head. One that came in chunks is joined, and its trailers are left out.
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    /// The target without its query: at least `/`.
    #[must_use]
    pub fn path(&self) -> &'a str {
        target::path(self.target)
    }

    /// What follows the `?`, as it came.
    #[must_use]
    pub fn query(&self) -> Option<&'a str> {
        self.target.split_once('?').map(|(_, query)| query)
    }

    /// The first header of that name, in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        let mut all = self.headers.iter();
        all.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }
}

/// Takes apart what a transport with [`Wire::Http`](crate::Wire) has handed over; `None` for other
/// bytes.
#[must_use]
pub fn parse(payload: &[u8]) -> Option<Request<'_>> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(head) = request.parse(payload).ok()? else { return None };
    let method = request.method?;
    let Target { authority, rest: target } = Target::of(method, request.path?)?;
    let mut headers: Vec<(&str, &[u8])> =
        request.headers.iter().map(|header| (header.name, header.value)).collect();
    if let Some(authority) = authority {
        match headers.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case("host")) {
            Some((_, host)) => *host = authority.as_bytes(),
            None => headers.push(("Host", authority.as_bytes())),
        }
    }
    Some(Request { method, target, headers, body: &payload[head..] })
}

/// Method and path, from the first line alone: for classifiers. `None` for other bytes.
#[must_use]
pub fn line(payload: &[u8]) -> Option<(&str, &str)> {
    let payload = begun(payload);
    let end = payload.iter().position(|&byte| byte == b'\r' || byte == b'\n')?;
    let mut words = std::str::from_utf8(&payload[..end]).ok()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    words.next().filter(|version| version.starts_with("HTTP/"))?;
    Some((method, Target::of(method, target)?.path()))
}

/// From the first line on: empty ones before it are passed over, as HTTP says.
fn begun(bytes: &[u8]) -> &[u8] {
    let first = bytes.iter().position(|byte| !b"\r\n".contains(byte));
    &bytes[first.unwrap_or(bytes.len())..]
}

/// What follows the head, found by its empty line alone; nothing, for other bytes.
#[must_use]
pub fn body(payload: &[u8]) -> &[u8] {
    let mut rest = begun(payload);
    while let Some(length) = rest.iter().position(|&byte| byte == b'\n') {
        let line = &rest[..length];
        rest = &rest[length + 1..];
        if line.is_empty() || line == b"\r" {
            return rest;
        }
    }
    &[]
}

/// What the answer to a request depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// It is to have no body (`HEAD`).
    pub head_only: bool,
    /// More may come on the connection.
    pub keep: bool,
    /// The version's minor number.
    pub minor: u8,
}

impl Asked {
    /// For a request that nothing is known of: its connection ends.
    pub(crate) const BAD: Self = Self { head_only: false, keep: false, minor: 1 };
}

/// What a client is sent that waits for it before it sends a body.
pub(crate) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_taken_apart() {
        let text = b"PUT /a/b?c=d HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi";
        let request = parse(text).unwrap();
        assert_eq!((request.method, request.path(), request.query()), ("PUT", "/a/b", Some("c=d")));
        assert_eq!((request.header("HOST"), request.body), (Some(&b"x"[..]), &b"hi"[..]));
        assert_eq!((line(text), body(text)), (Some(("PUT", "/a/b")), &b"hi"[..]));
        assert_eq!(body(b"\r\n\r\nGET / HTTP/1.1\nHost: x\n\n\nhi"), b"\nhi");
        assert_eq!(line(b"\r\nGET /big HTTP/1.1\r\n\r\n"), Some(("GET", "/big")));
        let absolute = b"GET http://y:80?c=d HTTP/1.1\r\nhost: x\r\n\r\n";
        let request = parse(absolute).unwrap();
        assert_eq!((request.path(), request.query()), ("/", Some("c=d")));
        assert_eq!((request.headers.len(), request.header("Host")), (1, Some(&b"y:80"[..])));
        assert_eq!(line(absolute), Some(("GET", "/")));
        let old = parse(b"GET http://y/ HTTP/1.0\r\n\r\n").unwrap();
        assert_eq!(old.header("host"), Some(&b"y"[..]));
        for other in [&b""[..], b"\0\0", b"PUT", b"PUT /a", b"a b c\r\n", b"\xff\xff\r\n"] {
            assert!(parse(other).is_none() && line(other).is_none(), "{other:?}");
            assert!(body(other).is_empty(), "{other:?}");
        }
    }
}
