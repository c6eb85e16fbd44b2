//! HTTP/1.1: what of a byte stream is a request, and what an answer looks like on it. Pure.
//!
//! A transport with [`Wire::Http`](crate::Wire) hands each request over as it came, head and body;
//! [`parse`] takes it apart, in a classifier or a handler. An answer is the bytes of its body, with
//! [`head`] in front where it is to be another than `200`.
//!
//! One request of a connection is in progress at a time: answers are in the order of the requests,
//! also where a client sends many at once.

use std::fmt::Write;

/// Bytes that a request's line and headers may have.
pub(crate) const MOST_HEAD: usize = 16 << 10;
/// Headers of a request.
const MOST_HEADERS: usize = 64;
/// What an answer begins with that says its status by itself.
const MARK: &[u8; 6] = b"\0HTTP\0";
/// Bytes of a content type.
const MOST_TYPE: usize = 100;

/// A request, taken apart. All of it lies in the bytes that it was made of.
#[derive(Debug)]
pub struct Request<'a> {
    /// `GET`, `POST` …
    pub method: &'a str,
    /// What is asked for: path and query, as they came.
    pub target: &'a str,
    /// Names and values, in their order.
    pub headers: Vec<(&'a str, &'a [u8])>,
    /// What follows the head.
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    /// The target without its query.
    #[must_use]
    pub fn path(&self) -> &'a str {
        self.target.split_once('?').map_or(self.target, |(path, _)| path)
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
    Some(Request {
        method: request.method?,
        target: request.path?,
        headers: request.headers.iter().map(|header| (header.name, header.value)).collect(),
        body: &payload[head..],
    })
}

/// Method and path, from the first line alone: for classifiers. `None` for other bytes.
#[must_use]
pub fn line(payload: &[u8]) -> Option<(&str, &str)> {
    let end = payload.iter().position(|&byte| byte == b'\r' || byte == b'\n')?;
    let mut words = std::str::from_utf8(&payload[..end]).ok()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    words.next().filter(|version| version.starts_with("HTTP/"))?;
    Some((method, target.split_once('?').map_or(target, |(path, _)| path)))
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
pub(crate) fn answer(payload: &[u8], asked: Asked) -> (String, &[u8]) {
    let (status, kind, body) = taken_apart(payload);
    let mut text = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    if !kind.is_empty() {
        let _ = write!(text, "Content-Type: {kind}\r\n");
    }
    // These have no body, and say nothing of its length.
    let bare = status == 204 || status == 304;
    if !bare {
        let _ = write!(text, "Content-Length: {}\r\n", body.len());
    }
    match (asked.keep, asked.minor) {
        (false, _) => text.push_str("Connection: close\r\n"),
        (true, 0) => text.push_str("Connection: keep-alive\r\n"),
        _ => {}
    }
    text.push_str("\r\n");
    (text, if bare || asked.head_only { &[] } else { body })
}

/// What a client is sent that waits for it before it sends a body.
pub(crate) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        // The words are for people; the number is what counts.
        _ => "Status",
    }
}

/// Why a request is not taken. Its connection ends with the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Bad,
    Chunked,
    BodyTooLong,
    HeadTooLong,
}

impl Refusal {
    /// Its answer, as a handler would write it.
    pub(crate) fn answer(self) -> Vec<u8> {
        let (status, text) = match self {
            Self::Bad => (400, "this is no request of HTTP/1\n"),
            Self::Chunked => (411, "a body needs a Content-Length here\n"),
            Self::BodyTooLong => (413, "the body is longer than this server takes\n"),
            Self::HeadTooLong => (431, "the head is longer than this server takes\n"),
        };
        plain(status, text)
    }
}

/// A line of text, as a handler would write it.
pub(crate) fn plain(status: u16, text: &str) -> Vec<u8> {
    let mut bytes = head(status, "text/plain");
    bytes.extend(text.as_bytes());
    bytes
}

/// A request whose head has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    /// Bytes of head and body.
    pub end: usize,
    /// The client waits for [`CONTINUE`].
    pub waits: bool,
    pub asked: Asked,
}

/// What the bytes begin with; `None`: with a part of a head. `limit`: of a body.
pub(crate) fn look(bytes: &[u8], limit: usize) -> Result<Option<Whole>, Refusal> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let head = match request.parse(bytes) {
        Ok(httparse::Status::Complete(head)) if head <= MOST_HEAD => head,
        Ok(httparse::Status::Partial) if bytes.len() < MOST_HEAD => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(Refusal::HeadTooLong),
        Err(_) => return Err(Refusal::Bad),
    };
    let minor = request.version.unwrap_or(1);
    let (mut length, mut keep, mut waits) = (None, minor > 0, false);
    for header in request.headers.iter() {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        let has = |word: &[u8]| {
            header
                .value
                .split(|&byte| byte == b',')
                .any(|part| part.trim_ascii().eq_ignore_ascii_case(word))
        };
        if is("content-length") {
            let found = digits(header.value).ok_or(Refusal::Bad)?;
            // Two that differ: one server's end of a request is another's middle.
            if length.is_some_and(|length| length != found) {
                return Err(Refusal::Bad);
            }
            length = Some(found);
        } else if is("transfer-encoding") {
            return Err(Refusal::Chunked);
        } else if is("connection") {
            keep = !has(b"close") && (keep || has(b"keep-alive"));
        } else if is("expect") {
            waits = has(b"100-continue");
        }
    }
    let body = length.unwrap_or(0);
    if body > limit {
        return Err(Refusal::BodyTooLong);
    }
    let end = head + body;
    let head_only = request.method == Some("HEAD");
    let waits = waits && minor > 0 && bytes.len() < end;
    Ok(Some(Whole { end, waits, asked: Asked { head_only, keep, minor } }))
}

/// Digits only, and not too many.
fn digits(value: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(value.trim_ascii()).ok()?;
    let right = !text.is_empty() && text.len() <= 18 && text.bytes().all(|b| b.is_ascii_digit());
    right.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Result<Option<Whole>, Refusal> {
        look(text.as_bytes(), 100)
    }

    #[test]
    fn a_request_ends_where_its_length_says() {
        let get = "GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n";
        let found = whole(get).unwrap().unwrap();
        assert_eq!((found.end, found.asked.keep, found.waits), (get.len(), true, false));
        assert_eq!(whole(&format!("{get}GET /next")).unwrap().unwrap().end, get.len());
        for end in 0..get.len() {
            assert_eq!(whole(&get[..end]), Ok(None), "{end}");
        }
        let post = "POST / HTTP/1.1\r\ncontent-LENGTH: 5\r\nExpect: 100-continue\r\n\r\n";
        let found = whole(post).unwrap().unwrap();
        assert_eq!((found.end, found.waits), (post.len() + 5, true));
        assert!(!whole(&format!("{post}12345")).unwrap().unwrap().waits);
    }

    #[test]
    fn connections_are_kept_or_not() {
        let keep = |version: &str, header: &str| {
            let text = format!("HEAD / HTTP/{version}\r\n{header}\r\n");
            let asked = whole(&text).unwrap().unwrap().asked;
            assert!(asked.head_only);
            asked.keep
        };
        assert!(keep("1.1", "") && keep("1.0", "Connection: Keep-Alive\r\n"));
        assert!(!keep("1.0", "") && !keep("1.1", "connection: te, CLOSE\r\n"));
        assert!(!keep("1.0", "Connection: close, keep-alive\r\n"));
    }

    #[test]
    fn what_could_mean_two_things_is_refused() {
        let refused = |head: &str| whole(&format!("POST / HTTP/1.1\r\n{head}\r\n")).unwrap_err();
        assert_eq!(refused("Content-Length: 5\r\nContent-Length: 6\r\n"), Refusal::Bad);
        assert_eq!(refused("Transfer-Encoding: chunked\r\n"), Refusal::Chunked);
        let both = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n";
        assert_eq!(refused(both), Refusal::Chunked);
        for length in ["+5", "-5", "5 5", "0x5", "", "5,5", "99999999999999999999"] {
            let head = format!("Content-Length: {length}\r\n");
            assert_eq!(refused(&head), Refusal::Bad, "{length}");
        }
        assert_eq!(refused("Content-Length: 101\r\n"), Refusal::BodyTooLong);
        assert_eq!(refused("a b: c\r\n"), Refusal::Bad);
        assert_eq!(refused("Content-Length : 5\r\n"), Refusal::Bad);
        assert_eq!(refused(&"a: b\r\n".repeat(65)), Refusal::HeadTooLong);
        assert_eq!(refused(&format!("a: {}\r\n", "b".repeat(MOST_HEAD))), Refusal::HeadTooLong);
        assert_eq!(whole(&"a".repeat(MOST_HEAD)), Err(Refusal::HeadTooLong));
        for text in ["\0", "GET / HTTP/2.0\r\n\r\n", "GET /\r\n\r\n", "\x04\0\0\0abcd"] {
            assert_eq!(whole(text), Err(Refusal::Bad), "{text:?}");
        }
    }

    #[test]
    fn answers_say_their_length_and_status() {
        let keep = Asked { head_only: false, keep: true, minor: 1 };
        let (head_text, body) = answer(b"abc", keep);
        assert_eq!(head_text, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n");
        assert_eq!(body, b"abc");
        let told = [head(404, "text/plain"), b"no".to_vec()].concat();
        let (head_text, body) = answer(&told, Asked { keep: false, ..keep });
        assert!(head_text.starts_with("HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n"));
        assert!(head_text.contains("Connection: close\r\n") && body == b"no");
        let (head_text, body) = answer(b"abc", Asked { head_only: true, ..keep });
        assert!(head_text.contains("Content-Length: 3\r\n") && body.is_empty());
        let (head_text, _) = answer(&head(204, ""), keep);
        assert_eq!(head_text, "HTTP/1.1 204 No Content\r\n\r\n");
    }

    #[test]
    fn a_head_can_smuggle_nothing() {
        let keep = Asked { head_only: false, keep: true, minor: 1 };
        for kind in ["a\r\nSet-Cookie: x", "ü", &"a".repeat(101)] {
            let (text, _) = answer(&head(200, kind), keep);
            assert!(!text.contains("Content-Type"), "{text}");
        }
        // As bytes of a client's that a handler sends back.
        let mut forged = MARK.to_vec();
        forged.extend([200, 0, 4]);
        forged.extend(b"a\r\nb body");
        let (text, body) = answer(&forged, keep);
        assert!(!text.contains("Content-Type") && body == forged);
        for length in 0..MARK.len() + 4 {
            let short = &head(404, "text/plain")[..length];
            assert_eq!(answer(short, keep).1, short);
        }
    }

    #[test]
    fn requests_are_taken_apart() {
        let text = b"PUT /a/b?c=d HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi";
        let request = parse(text).unwrap();
        assert_eq!((request.method, request.path(), request.query()), ("PUT", "/a/b", Some("c=d")));
        assert_eq!((request.header("HOST"), request.body), (Some(&b"x"[..]), &b"hi"[..]));
        assert_eq!(line(text), Some(("PUT", "/a/b")));
        for other in [&b""[..], b"\0\0", b"PUT", b"PUT /a", b"a b c\r\n", b"\xff\xff\r\n"] {
            assert!(parse(other).is_none() && line(other).is_none(), "{other:?}");
        }
    }
}
