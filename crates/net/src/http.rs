//! HTTP/1.1: what of a byte stream is a request, and what an answer looks like on it. Pure, but for
//! the date.
//!
//! A transport with [`Wire::Http`](crate::Wire) hands each request over as it came, head and body,
//! but for a body in chunks, which is joined; [`parse`] takes it apart, in a classifier or a
//! handler. An answer is the bytes of its body, with [`head`] in front where it is to be another
//! than `200`.
//!
//! One request of a connection is in progress at a time: answers are in the order of the requests,
//! also where a client sends many at once.

mod chunks;
mod date;
mod look;
mod refusal;
mod target;

pub(crate) use chunks::Chunks;
pub(crate) use date::Date;
pub(crate) use look::{Whole, look};
pub(crate) use refusal::Refusal;

use look::MOST_HEADERS;
use std::fmt::Write;
use target::Target;

/// Bytes that a request's line and headers may have.
pub(crate) const MOST_HEAD: usize = 16 << 10;
/// What an answer begins with that says its status by itself.
const MARK: &[u8; 6] = b"\0HTTP\0";
/// Bytes of a content type.
const MOST_TYPE: usize = 100;

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

/// What to write in front of an answer's body for another status than `200`, or a content type. A
/// status is from 200 to 599; anything else is 500. A content type that can't be sent is left out.
///
/// Bytes of others that are sent back as they came should have one in front, too: they could begin
/// like one.
#[must_use]
pub fn head(status: u16, content_type: &str) -> Vec<u8> {
    let status = if (200..600).contains(&status) { status } else { 500 };
    let kind = if is_type(content_type.as_bytes()) { content_type } else { "" };
    let mut bytes = MARK.to_vec();
    bytes.extend(status.to_le_bytes());
    bytes.push(kind.len() as u8);
    bytes.extend(kind.as_bytes());
    bytes
}

fn is_type(bytes: &[u8]) -> bool {
    bytes.len() <= MOST_TYPE && bytes.iter().all(|byte| (b' '..=b'~').contains(byte))
}

/// Status, content type and body of what a handler has written.
fn taken_apart(answer: &[u8]) -> (u16, &str, &[u8]) {
    let whole = (200, "", answer);
    let Some((status, rest)) = answer.strip_prefix(MARK).and_then(<[u8]>::split_first_chunk) else {
        return whole;
    };
    let status = u16::from_le_bytes(*status);
    let Some((&length, rest)) = rest.split_first() else { return whole };
    let Some((kind, body)) = rest.split_at_checked(length.into()) else { return whole };
    match std::str::from_utf8(kind) {
        Ok(text) if is_type(kind) && (200..600).contains(&status) => (status, text, body),
        _ => whole,
    }
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

    /// Of a whole request.
    pub(crate) fn of(payload: &[u8]) -> Self {
        let found = look(payload, usize::MAX);
        if let Ok(Some(Whole { asked, .. })) = found { asked } else { Self::BAD }
    }
}

/// The bytes in front of an answer's body, and that body.
pub(crate) fn answer<'a>(payload: &'a [u8], asked: Asked, date: &Date) -> (String, &'a [u8]) {
    let (status, kind, body) = taken_apart(payload);
    let reason = reason(status);
    let mut text = format!("HTTP/1.1 {status} {reason}\r\nDate: {}\r\n", date.as_str());
    if !kind.is_empty() {
        let _ = write!(text, "Content-Type: {kind}\r\n");
    }
    // These have no body, and those of the first say nothing of its length.
    let (says, body) = match status {
        204 | 304 => (false, &[][..]),
        205 => (true, &[][..]),
        _ => (true, body),
    };
    if says {
        let _ = write!(text, "Content-Length: {}\r\n", body.len());
    }
    match (asked.keep, asked.minor) {
        (false, _) => text.push_str("Connection: close\r\n"),
        (true, 0) => text.push_str("Connection: keep-alive\r\n"),
        _ => {}
    }
    text.push_str("\r\n");
    (text, if asked.head_only { &[] } else { body })
}

/// What a client is sent that waits for it before it sends a body.
pub(crate) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        // The words are for people; the number is what counts.
        _ => "Status",
    }
}

/// A line of text, as a handler would write it.
pub(crate) fn plain(status: u16, text: &str) -> Vec<u8> {
    let mut bytes = head(status, "text/plain");
    bytes.extend(text.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    const DATE: &str = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";

    fn date() -> Date {
        Date::of(UNIX_EPOCH + Duration::from_secs(784_111_777))
    }

    #[test]
    fn answers_say_their_length_and_status() {
        let keep = Asked { head_only: false, keep: true, minor: 1 };
        let (head_text, body) = answer(b"abc", keep, &date());
        assert_eq!(head_text, format!("HTTP/1.1 200 OK\r\n{DATE}Content-Length: 3\r\n\r\n"));
        assert_eq!(body, b"abc");
        let told = [head(404, "text/plain"), b"no".to_vec()].concat();
        let (head_text, body) = answer(&told, Asked { keep: false, ..keep }, &date());
        assert!(
            head_text.starts_with("HTTP/1.1 404 Not Found\r\n")
                && head_text.contains("Content-Type: text/plain\r\n")
        );
        assert!(head_text.contains("Connection: close\r\n") && body == b"no");
        let (head_text, body) = answer(b"abc", Asked { head_only: true, ..keep }, &date());
        assert!(head_text.contains("Content-Length: 3\r\n") && body.is_empty());
        let (head_text, _) = answer(&head(204, ""), keep, &date());
        assert_eq!(head_text, format!("HTTP/1.1 204 No Content\r\n{DATE}\r\n"));
    }

    #[test]
    fn a_head_can_smuggle_nothing() {
        let keep = Asked { head_only: false, keep: true, minor: 1 };
        for kind in ["a\r\nSet-Cookie: x", "ü", &"a".repeat(101)] {
            let (text, _) = answer(&head(200, kind), keep, &date());
            assert!(!text.contains("Content-Type"), "{text}");
        }
        // As bytes of a client's that a handler sends back.
        let mut forged = MARK.to_vec();
        forged.extend([200, 0, 4]);
        forged.extend(b"a\r\nb body");
        let (text, body) = answer(&forged, keep, &date());
        assert!(!text.contains("Content-Type") && body == forged);
        for length in 0..MARK.len() + 4 {
            let short = &head(404, "text/plain")[..length];
            assert_eq!(answer(short, keep, &date()).1, short);
        }
    }

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
