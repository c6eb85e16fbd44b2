//! A connection that speaks HTTP/1.1. Requests are messages that become bodies, or are written whole
//! by the caller; answers come in the requests' order.

use super::socket::{Came, LIMIT, Url};
use std::collections::VecDeque;
use std::io;

/// Bytes and headers of an answer's head, and bytes of a line between chunks.
const MOST_HEAD: usize = 16 << 10;
const MOST_HEADERS: usize = 64;
const MOST_LINE: usize = 4 << 10;

/// What is half sent, by its id, and what is half received.
#[derive(Debug)]
pub(super) struct Http {
    /// What each request begins with; `None`: requests are whole, and answers' bodies nobody's
    /// concern.
    begin: Option<String>,
    /// Requests ask for heads alone.
    heads: bool,
    waiting: VecDeque<u64>,
    held: Vec<u8>,
    state: State,
    status: u16,
    body: Vec<u8>,
    /// The last answer said that the connection ends.
    closing: bool,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    /// So many bytes of the body, which are all that is left of it.
    Body(usize),
    /// The length of a chunk.
    Size,
    /// So many bytes of a chunk.
    Chunk(usize),
    /// The end of a chunk's last line.
    ChunkEnd,
    /// What may follow the last chunk.
    Trailer,
    /// A body until the connection ends.
    ToTheEnd,
}

/// An answer whose head has come.
struct Head {
    status: u16,
    /// Bytes of the head.
    length: usize,
    body: State,
    closing: bool,
}

impl Http {
    /// `whole`: requests are written by the caller; `heads`: and ask for heads alone.
    pub(super) fn new(url: &Url, whole: bool, heads: bool) -> Self {
        let Url { host, path, .. } = url;
        let begin = format!("POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: ");
        Self {
            begin: (!whole).then_some(begin),
            heads,
            waiting: VecDeque::new(),
            held: Vec::new(),
            state: State::Head,
            status: 0,
            body: Vec::new(),
            closing: false,
        }
    }

    /// Whether a request is not answered yet.
    pub(super) fn is_busy(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether a connection that ends is made anew.
    pub(super) fn survives(&self) -> bool {
        self.begin.is_none()
    }

    /// Whether the server said that it ends the connection.
    pub(super) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether an answer has come in part.
    pub(super) fn is_amid(&self) -> bool {
        self.state != State::Head
    }

    /// Writes a request.
    pub(super) fn ask(&mut self, id: u64, message: &[u8], out: &mut Vec<u8>) {
        self.waiting.push_back(id);
        if let Some(begin) = &self.begin {
            out.extend_from_slice(begin.as_bytes());
            out.extend_from_slice(format!("{}\r\n\r\n", message.len()).as_bytes());
        }
        out.extend_from_slice(message);
    }

    /// Takes the answers out of what has come.
    pub(super) fn take(&mut self, input: &[u8], take: &mut dyn FnMut(Came<'_>)) -> io::Result<()> {
        let mut held = std::mem::take(&mut self.held);
        held.extend_from_slice(input);
        let mut at = 0;
        while let Some(used) = self.step(&held[at..], take)? {
            at += used;
        }
        held.drain(..at);
        self.held = held;
        Ok(())
    }

    /// One step over what has come; how many bytes it used, `None`: more must come first.
    fn step(&mut self, rest: &[u8], take: &mut dyn FnMut(Came<'_>)) -> io::Result<Option<usize>> {
        match self.state {
            State::Head => {
                let Some(head) = look(rest, self.heads)? else { return Ok(None) };
                // Others are in between: the answer is still to come.
                if head.status >= 200 || head.status == 101 {
                    (self.status, self.state) = (head.status, head.body);
                    self.closing |= head.closing;
                    self.body.clear();
                    if head.body == State::Body(0) {
                        self.answered(take)?;
                    }
                }
                Ok(Some(head.length))
            }
            State::Body(left) | State::Chunk(left) => {
                let some = left.min(rest.len());
                if some == 0 {
                    return Ok(None);
                }
                self.keep(&rest[..some])?;
                match (self.state, left - some) {
                    (State::Body(_), 0) => self.answered(take)?,
                    (State::Body(_), left) => self.state = State::Body(left),
                    (_, 0) => self.state = State::ChunkEnd,
                    (_, left) => self.state = State::Chunk(left),
                }
                Ok(Some(some))
            }
            State::ToTheEnd => {
                self.keep(rest)?;
                Ok((!rest.is_empty()).then_some(rest.len()))
            }
            State::Size | State::ChunkEnd | State::Trailer => {
                let Some(line) = line(rest)? else { return Ok(None) };
                self.line(line, take)?;
                Ok(Some(line.len() + 2))
            }
        }
    }

    /// A line around a chunk.
    fn line(&mut self, line: &[u8], take: &mut dyn FnMut(Came<'_>)) -> io::Result<()> {
        match self.state {
            State::ChunkEnd if line.is_empty() => self.state = State::Size,
            State::Trailer if line.is_empty() => self.answered(take)?,
            State::Trailer => {}
            State::Size => {
                let digits = line.split(|&byte| byte == b';').next().unwrap_or_default();
                let digits = std::str::from_utf8(digits).unwrap_or_default().trim();
                let size = usize::from_str_radix(digits, 16);
                let size = size.ok().filter(|_| !digits.starts_with('+'));
                self.state = match size.ok_or_else(|| bad("a chunk without a length"))? {
                    0 => State::Trailer,
                    size => State::Chunk(size),
                };
            }
            _ => return Err(bad("a chunk that is longer than its length")),
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.begin.is_some() {
            if self.body.len() + bytes.len() > LIMIT {
                return Err(bad(&format!("an answer of more than {LIMIT} bytes")));
            }
            self.body.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn answered(&mut self, take: &mut dyn FnMut(Came<'_>)) -> io::Result<()> {
        self.state = State::Head;
        let id = self.waiting.pop_front().ok_or_else(|| bad("an answer to no request"))?;
        take(Came { bytes: &self.body, of: Some((id, self.status)) });
        Ok(())
    }

    /// The connection has ended. What waits for an answer gets none, which is status 0.
    pub(super) fn ended(&mut self, take: &mut dyn FnMut(Came<'_>)) -> io::Result<()> {
        if self.state == State::ToTheEnd {
            self.answered(take)?;
        }
        for id in self.waiting.drain(..) {
            take(Came { bytes: &[], of: Some((id, 0)) });
        }
        self.held.clear();
        (self.state, self.closing) = (State::Head, false);
        Ok(())
    }
}

/// What the bytes begin with; `None`: with a part of a head.
fn look(bytes: &[u8], heads: bool) -> io::Result<Option<Head>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut answer = httparse::Response::new(&mut headers);
    let length = match answer.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) if bytes.len() < MOST_HEAD => return Ok(None),
        Ok(httparse::Status::Partial) => return Err(bad("an answer whose head is too long")),
        Err(error) => return Err(bad(&format!("no answer of HTTP/1.1: {error}"))),
    };
    let status = answer.code.unwrap_or_default();
    let mut closing = answer.version == Some(0);
    let mut body = State::ToTheEnd;
    for header in answer.headers.iter() {
        let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
        let has = |word: &str| value.split(',').any(|it| it.trim().eq_ignore_ascii_case(word));
        if header.name.eq_ignore_ascii_case("connection") {
            closing = has("close") || (closing && !has("keep-alive"));
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            body = if has("chunked") { State::Size } else { State::ToTheEnd };
        } else if header.name.eq_ignore_ascii_case("content-length") && body == State::ToTheEnd {
            let length = value.parse().map_err(|_| bad("an answer without a length"))?;
            body = State::Body(length);
        }
    }
    if heads || status < 200 || status == 204 || status == 304 {
        body = State::Body(0);
    }
    closing |= body == State::ToTheEnd;
    Ok(Some(Head { status, length, body, closing }))
}

/// The line that the bytes begin with, without its end.
fn line(bytes: &[u8]) -> io::Result<Option<&[u8]>> {
    match bytes.windows(2).position(|pair| pair == b"\r\n") {
        Some(at) => Ok(Some(&bytes[..at])),
        None if bytes.len() < MOST_LINE => Ok(None),
        None => Err(bad("a chunk without a length")),
    }
}

pub(super) fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests;
