//! What an answer looks like: the handler's bytes, with the transport's own in front.

use super::{Asked, Date};
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// What an answer begins with that says its status by itself, before this process's [`word`].
const MARK: &[u8; 6] = b"\0HTTP\0";
/// Fields that a handler adds, and bytes of them.
const MOST_FIELDS: usize = 32;
const MOST_BYTES: usize = 8 << 10;

/// What to write in front of an answer's body for another status than `200`, or a content type. A
/// status is from 200 to 599; anything else is 500. A content type that can't be sent is left out.
#[must_use]
pub fn head(status: u16, content_type: &str) -> Vec<u8> {
    let kind = [("Content-Type", content_type)];
    head_with(status, if content_type.is_empty() { &[] } else { &kind })
}

/// As [`head`], with any fields: names and values, such as `("Location", "/there")`. Some statuses
/// need one: `405` needs `Allow`, `401` needs `WWW-Authenticate`.
///
/// Those that can't be sent are left out: what is no name or no value; what is the transport's own
/// (`Date`, `Content-Length`, `Connection` and the like); what comes after 32 fields or 8 KiB.
#[must_use]
pub fn head_with(status: u16, fields: &[(&str, &str)]) -> Vec<u8> {
    let status = if (200..600).contains(&status) { status } else { 500 };
    let mut text = String::new();
    let mut count = 0;
    for (name, value) in fields {
        let length = text.len() + name.len() + value.len() + 6;
        if is_sent(name, value) && count < MOST_FIELDS && length <= MOST_BYTES {
            count += 1;
            let _ = write!(text, "{name}: {value}\r\n");
        }
    }
    let mut bytes = Vec::with_capacity(START + text.len());
    bytes.extend(MARK);
    bytes.extend(word());
    bytes.extend(status.to_le_bytes());
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

/// Bytes in front of the fields.
const START: usize = MARK.len() + 8 + 4;

/// A word that no client knows: bytes of its own that a handler sends back are no head.
fn word() -> [u8; 8] {
    static WORD: OnceLock<[u8; 8]> = OnceLock::new();
    *WORD.get_or_init(|| RandomState::new().hash_one(MARK).to_le_bytes())
}

fn is_sent(name: &str, value: &str) -> bool {
    // These are the connection's, and the transport knows better.
    const OWN: [&str; 8] = [
        "connection",
        "content-length",
        "date",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    let in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let in_value = |byte: u8| byte == b'\t' || (b' '..=b'~').contains(&byte);
    !name.is_empty()
        && name.bytes().all(in_name)
        && value.bytes().all(in_value)
        && !OWN.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// Status, fields and body of what a handler has written.
fn taken_apart(answer: &[u8]) -> (u16, &str, &[u8]) {
    let found = || {
        let rest = answer.strip_prefix(MARK)?.strip_prefix(&word())?;
        let (status, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (fields, body) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        Some((u16::from_le_bytes(*status), std::str::from_utf8(fields).ok()?, body))
    };
    found().unwrap_or((200, "", answer))
}

/// The bytes in front of an answer's body, and that body.
pub(crate) fn answer<'a>(payload: &'a [u8], asked: Asked, date: &Date) -> (String, &'a [u8]) {
    let (status, fields, body) = taken_apart(payload);
    let reason = reason(status);
    let mut text = format!("HTTP/1.1 {status} {reason}\r\nDate: {}\r\n", date.as_str());
    text.push_str(fields);
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
    fn answers_have_the_fields_of_their_handlers() {
        let keep = Asked { head_only: false, keep: true, minor: 1 };
        let told = head_with(405, &[("Allow", "GET, POST"), ("X-a", "b\tc")]);
        let (text, _) = answer(&told, keep, &date());
        assert!(text.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"), "{text}");
        assert!(
            text.contains("\r\nAllow: GET, POST\r\nX-a: b\tc\r\nContent-Length: 0\r\n"),
            "{text}"
        );
        let reset = [head(205, "a/b"), b"no body".to_vec()].concat();
        let (text, body) = answer(&reset, keep, &date());
        assert!(text.contains("Content-Length: 0\r\n") && body.is_empty());
        for (name, value) in [
            ("Date", "now"),
            ("content-LENGTH", "1"),
            ("Transfer-Encoding", "chunked"),
            ("Connection", "close"),
            ("X", "a\r\nSet-Cookie: x"),
            ("X", "\u{fc}"),
            ("X", "a\0"),
            ("X: y\r\nZ", "a"),
            ("X Y", "a"),
            ("", "a"),
            ("X", &"a".repeat(MOST_BYTES)),
        ] {
            assert_eq!(head_with(200, &[(name, value)]), head(200, ""), "{name:?}: {value:?}");
        }
        let (name, value) = ("X", "a".repeat(MOST_BYTES / 20));
        let many = head_with(200, &[(name, value.as_str()); 100]);
        assert!(many.len() < START + MOST_BYTES && many.len() > START + MOST_BYTES / 2);
        let many = head_with(200, &[(name, "a"); 100]);
        assert_eq!(many.len(), START + MOST_FIELDS * "X: a\r\n".len());
    }

    #[test]
    fn bytes_of_a_client_are_no_head() {
        let keep = Asked { head_only: false, keep: true, minor: 1 };
        let mut forged = head(404, "text/plain");
        forged[MARK.len()] ^= 1;
        let (text, body) = answer(&forged, keep, &date());
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && body == forged, "{text}");
        for length in 0..head(404, "text/plain").len() {
            let short = &head(404, "text/plain")[..length];
            assert_eq!(answer(short, keep, &date()).1, short);
        }
    }
}
