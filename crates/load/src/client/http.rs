//! A connection that speaks HTTP/1.1: messages are the bodies of requests and answers, which come
//! in the requests' order.

use super::socket::{Came, LIMIT, Url};
use std::collections::VecDeque;
use std::io;

/// Bytes and headers of an answer's head.
const MOST_HEAD: usize = 16 << 10;
const MOST_HEADERS: usize = 64;

/// What is half sent, by its id, and what is half received.
#[derive(Debug)]
pub(super) struct Http {
    /// What each request begins with.
    begin: String,
    waiting: VecDeque<u64>,
    held: Vec<u8>,
}

/// An answer whose head has come.
struct Head {
    status: u16,
    /// Bytes of the head, and of head and body.
    head: usize,
    end: usize,
}

impl Http {
    pub(super) fn new(url: &Url) -> Self {
        let Url { address, path, .. } = url;
        let begin = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: ");
        Self { begin, waiting: VecDeque::new(), held: Vec::new() }
    }

    /// Whether a request is not answered yet.
    pub(super) fn is_busy(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Writes a request.
    pub(super) fn ask(&mut self, id: u64, message: &[u8], out: &mut Vec<u8>) {
        self.waiting.push_back(id);
        out.extend_from_slice(self.begin.as_bytes());
        out.extend_from_slice(format!("{}\r\n\r\n", message.len()).as_bytes());
        out.extend_from_slice(message);
    }

    /// Takes the answers out of what has come.
    pub(super) fn take(&mut self, input: &[u8], take: &mut dyn FnMut(Came<'_>)) -> io::Result<()> {
        self.held.extend_from_slice(input);
        let mut start = 0;
        while let Some(Head { status, head, end }) = look(&self.held[start..])?
            && end <= self.held.len() - start
        {
            let bytes = &self.held[start + head..start + end];
            start += end;
            // Others are in between: the answer is still to come.
            if status >= 200 {
                let id = self.waiting.pop_front().ok_or_else(|| bad("an answer to no request"))?;
                take(Came { bytes, of: Some((id, status)) });
            }
        }
        self.held.drain(..start);
        Ok(())
    }
}

/// What the bytes begin with; `None`: with a part of a head.
fn look(bytes: &[u8]) -> io::Result<Option<Head>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut answer = httparse::Response::new(&mut headers);
    let head = match answer.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) if bytes.len() < MOST_HEAD => return Ok(None),
        Ok(httparse::Status::Partial) => return Err(bad("an answer whose head is too long")),
        Err(error) => return Err(bad(&format!("no answer of HTTP/1.1: {error}"))),
    };
    let status = answer.code.unwrap_or_default();
    let bare = status < 200 || status == 204 || status == 304;
    let mut length = bare.then_some(0);
    for header in answer.headers.iter() {
        if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(bad("an answer in chunks"));
        }
        if !bare && header.name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(header.value).unwrap_or_default();
            length = text.trim().parse::<usize>().ok();
        }
    }
    let length = length.ok_or_else(|| bad("an answer without a length"))?;
    if length > LIMIT {
        return Err(bad(&format!("an answer of more than {LIMIT} bytes")));
    }
    Ok(Some(Head { status, head, end: head + length }))
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http() -> Http {
        let mut http = Http::new(&Url::parse("http://127.0.0.1:80/a?b").unwrap());
        let mut out = Vec::new();
        (1..4).for_each(|id| http.ask(id, b"hi", &mut out));
        let one = "POST /a?b HTTP/1.1\r\nHost: 127.0.0.1:80\r\nContent-Length: 2\r\n\r\nhi";
        assert_eq!(String::from_utf8(out).unwrap(), one.repeat(3));
        http
    }

    #[test]
    fn answers_are_cut_anywhere_and_belong_to_requests_in_order() {
        let text = "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 3\r\n\r\nabc\
                    HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n\
                    HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
        let expected = [(1, 200, b"abc".to_vec()), (2, 204, Vec::new()), (3, 503, Vec::new())];
        for length in 1..text.len() {
            let mut http = http();
            let mut came = Vec::new();
            for piece in text.as_bytes().chunks(length) {
                let mut keep = |Came { bytes, of }: Came<'_>| {
                    let (id, status) = of.unwrap();
                    came.push((id, status, bytes.to_vec()));
                };
                http.take(piece, &mut keep).unwrap();
            }
            assert_eq!(came, expected, "{length}");
            assert!(!http.is_busy() && http.held.is_empty());
        }
    }

    #[test]
    fn what_is_no_answer_is_told() {
        for (text, says) in [
            ("hello\r\n\r\n", "no answer of HTTP/1.1"),
            ("HTTP/1.1 200 OK\r\n\r\n", "without a length"),
            ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "without a length"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 65537\r\n\r\n", "65536 bytes"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "in chunks"),
            (&format!("HTTP/1.1 200 OK\r\na: {}", "b".repeat(MOST_HEAD)), "head is too long"),
            (&"HTTP/1.1 204 No Content\r\n\r\n".repeat(4), "to no request"),
        ] {
            let error = http().take(text.as_bytes(), &mut |_| ()).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
