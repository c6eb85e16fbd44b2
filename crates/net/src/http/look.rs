//! What a byte stream begins with: a request's head, and where its body ends.

use super::{Asked, MOST_HEAD, plain};

/// Headers of a request.
pub(super) const MOST_HEADERS: usize = 64;

/// Why a request is not taken. Its connection ends with the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Bad,
    Coding,
    BodyTooLong,
    HeadTooLong,
}

impl Refusal {
    /// Its answer, as a handler would write it.
    pub(crate) fn answer(self) -> Vec<u8> {
        let (status, text) = match self {
            Self::Bad => (400, "this is no request of HTTP/1\n"),
            Self::Coding => (501, "a body comes as it is here, or in chunks\n"),
            Self::BodyTooLong => (413, "the body is longer than this server takes\n"),
            Self::HeadTooLong => (431, "the head is longer than this server takes\n"),
        };
        plain(status, text)
    }
}

/// A request whose head has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    /// Bytes of the head, and of head and body. Of a body in chunks it is [`Whole::OPEN`]: see
    /// [`super::Chunks`].
    pub head: usize,
    pub end: usize,
    /// The client waits for [`super::CONTINUE`].
    pub waits: bool,
    pub asked: Asked,
}

impl Whole {
    /// Where a body ends whose chunks have not all come.
    pub(crate) const OPEN: usize = usize::MAX;
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
    let (mut length, mut chunked) = (None, false);
    let (mut keep, mut waits) = (minor > 0, false);
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
            let known = header.value.trim_ascii().eq_ignore_ascii_case(b"chunked");
            if !known || std::mem::replace(&mut chunked, true) {
                return Err(Refusal::Coding);
            }
        } else if is("connection") {
            keep = !has(b"close") && (keep || has(b"keep-alive"));
        } else if is("expect") {
            waits = has(b"100-continue");
        }
    }
    // Both: as with two lengths. And HTTP/1.0 has no chunks.
    if chunked && (length.is_some() || minor == 0) {
        return Err(Refusal::Bad);
    }
    let body = length.unwrap_or(0);
    if body > limit {
        return Err(Refusal::BodyTooLong);
    }
    let end = if chunked { Whole::OPEN } else { head + body };
    let head_only = request.method == Some("HEAD");
    let waits = waits && minor > 0 && bytes.len() < end;
    Ok(Some(Whole { head, end, waits, asked: Asked { head_only, keep, minor } }))
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
        let chunks = "POST / HTTP/1.1\r\ntransfer-encoding: Chunked\r\n\r\n";
        let found = whole(chunks).unwrap().unwrap();
        assert_eq!((found.head, found.end), (chunks.len(), Whole::OPEN));
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
        let both = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n";
        assert_eq!(refused(both), Refusal::Bad);
        for coding in ["gzip", "gzip, chunked", "chunked, chunked", "identity", ""] {
            let head = format!("Transfer-Encoding: {coding}\r\n");
            assert_eq!(refused(&head), Refusal::Coding, "{coding}");
        }
        assert_eq!(refused(&"Transfer-Encoding: chunked\r\n".repeat(2)), Refusal::Coding);
        let old = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(whole(old), Err(Refusal::Bad));
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
}
