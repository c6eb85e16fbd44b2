//! Bodies that come in chunks, joined where they lie, as they come (RFC 9112, 7.1).
//!
//! The head and what is joined of the body come first; what is not looked at yet follows directly.
//! So memory grows with the body, not with its wrapping.

use super::Refusal;

/// Bytes of the line in front of a chunk; of all trailers.
const MOST_LINE: usize = 256;
const MOST_TRAILERS: usize = 4 << 10;

/// A body that has not all come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunks {
    head: usize,
    /// Bytes of the head and of what is joined.
    end: usize,
    next: Next,
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// A line with a length.
    Length,
    /// So many bytes of a chunk.
    Bytes(usize),
    /// The end of a chunk's last line.
    End,
    /// Trailers, which have had so many bytes so far.
    Trailers(usize),
}

impl Chunks {
    /// None of a body has been looked at, whose head has so many bytes.
    pub(crate) const fn after(head: usize) -> Self {
        Self { head, end: head, next: Next::Length }
    }

    /// Joins what has come in `held` of the request that begins at `start`: the end of its body,
    /// from there, once that has come. `limit`: of the body.
    ///
    /// # Errors
    /// What came is no body in chunks, or too long; then `held` is good for nothing.
    pub(crate) fn join(
        &mut self,
        held: &mut Vec<u8>,
        start: usize,
        limit: usize,
    ) -> Result<Option<usize>, Refusal> {
        let mut to = start + self.end;
        let mut from = to;
        let whole = loop {
            let rest = &held[from..];
            match self.next {
                Next::Length => {
                    let Some(length) = line(rest, MOST_LINE)? else { break false };
                    let bytes = number(&rest[..length])?;
                    if bytes > limit.saturating_sub(to - start - self.head) {
                        return Err(Refusal::BodyTooLong);
                    }
                    from += length + 2;
                    self.next = if bytes == 0 { Next::Trailers(0) } else { Next::Bytes(bytes) };
                }
                Next::Bytes(left) => {
                    let now = left.min(rest.len());
                    held.copy_within(from..from + now, to);
                    from += now;
                    to += now;
                    if now < left {
                        self.next = Next::Bytes(left - now);
                        break false;
                    }
                    self.next = Next::End;
                }
                Next::End => {
                    match rest {
                        [b'\r', b'\n', ..] => from += 2,
                        [] | [b'\r'] => break false,
                        _ => return Err(Refusal::Bad),
                    }
                    self.next = Next::Length;
                }
                Next::Trailers(before) => {
                    let Some(length) = line(rest, MOST_TRAILERS - before)? else { break false };
                    if length > 0 && !is_field(&rest[..length + 2]) {
                        return Err(Refusal::Bad);
                    }
                    from += length + 2;
                    if length == 0 {
                        break true;
                    }
                    self.next = Next::Trailers(MOST_TRAILERS.min(before + length + 2));
                }
            }
        };
        held.drain(to..from);
        self.end = to - start;
        Ok(whole.then_some(self.end))
    }
}

/// Bytes of the line at the front, without its end; `None`: that has not come.
fn line(bytes: &[u8], most: usize) -> Result<Option<usize>, Refusal> {
    let looked = &bytes[..bytes.len().min(most + 2)];
    let Some(end) = looked.iter().position(|&byte| byte == b'\n') else {
        let too_long = looked.len() == most + 2;
        return if too_long { Err(Refusal::HeadTooLong) } else { Ok(None) };
    };
    match looked[..end].split_last() {
        // A lone one is the end of a line to some servers.
        Some((b'\r', line)) if !line.contains(&b'\r') => Ok(Some(line.len())),
        _ => Err(Refusal::Bad),
    }
}

/// The length that stands there before the end, or before extensions, which mean nothing here.
fn number(line: &[u8]) -> Result<usize, Refusal> {
    let end = line.iter().position(|&byte| byte == b';').unwrap_or(line.len());
    let (digits, extensions) = line.split_at(end);
    // Before a semicolon, and nowhere else, there may be blanks (RFC 9112, 7.1.1).
    let digits = if extensions.is_empty() { digits } else { digits.trim_ascii_end() };
    let right = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    if !right || extensions.iter().any(|&byte| byte.is_ascii_control() && byte != b'\t') {
        return Err(Refusal::Bad);
    }
    let text = std::str::from_utf8(digits).map_err(|_| Refusal::Bad)?;
    // Digits alone: what is no number is too large for one.
    usize::from_str_radix(text, 16).map_err(|_| Refusal::BodyTooLong)
}

/// Whether a line, with its end, is a field.
fn is_field(line: &[u8]) -> bool {
    let mut one = [httparse::EMPTY_HEADER];
    matches!(httparse::parse_headers(line, &mut one), Ok(httparse::Status::Partial))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Head and body, and what is left, where all comes at once.
    fn joined(body: &str, limit: usize) -> Result<Option<(String, String)>, Refusal> {
        let mut held = [&b"before"[..], b"head", body.as_bytes()].concat();
        let end = Chunks::after(4).join(&mut held, 6, limit)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Ok(end.map(|end| (text(&held[6..6 + end]), text(&held[6 + end..]))))
    }

    #[test]
    fn chunks_are_joined() {
        let is = |body: &str, whole: &str, rest: &str| {
            let expected = Some((format!("head{whole}"), rest.to_owned()));
            assert_eq!(joined(body, 20), Ok(expected), "{body:?}");
        };
        is("0\r\n\r\n", "", "");
        is("5\r\nhello\r\n0\r\n\r\n", "hello", "");
        is("5;a=b\r\nhello\r\n00A\r\n, chunks!\n\r\n000\r\n\r\nGET /", "hello, chunks!\n", "GET /");
        is("0000000000000000000000001 \t; a = \"b;c\"\r\nz\r\n0;\r\n\r\n", "z", "");
        is("1\r\n\r\r\n0\r\nTrailer: x\r\nother: y\r\n\r\nnext", "\r", "next");
        is("14\r\n01234567890123456789\r\n0\r\n\r\n", "01234567890123456789", "");
    }

    #[test]
    fn what_can_be_no_chunk_is_refused() {
        for body in [
            "\r\n",
            "x\r\n",
            "-1\r\n",
            "+1\r\n",
            "0x1\r\n",
            " 1\r\n",
            "1 \r\n",
            "1\n",
            "1\r\r\n",
            "\n",
            "1\r\nab\r\n",
            "1\r\na\n0\r\n",
            "0\r\na\n\r\n",
            "1;a\rb\r\n",
            "1\x0b;a\r\n",
            "1;a\0\r\n",
            ";a\r\n",
            "0\r\na : b\r\n",
            "0\r\n: b\r\n",
            "0\r\nno field\r\n",
            "0\r\na: b\r\n folded\r\n",
            "0\r\na: \0\r\n",
        ] {
            assert_eq!(joined(body, 20), Err(Refusal::Bad), "{body:?}");
        }
        for body in [
            "15\r\n",
            "b\r\n01234567890\r\na\r\n",
            "ffffffffffffffff\r\n",
            "10000000000000000000001\r\n",
        ] {
            assert_eq!(joined(body, 20), Err(Refusal::BodyTooLong), "{body:?}");
        }
        let long = "a".repeat(MOST_TRAILERS);
        for body in [
            format!("1;{long}"),
            format!("0\r\n{long}a:"),
            format!("0\r\n{}", "a:b\r\n".repeat(900)),
        ] {
            assert_eq!(joined(&body, 20), Err(Refusal::HeadTooLong), "{}", &body[..9]);
        }
    }

    #[test]
    fn it_matters_not_how_they_come_and_memory_is_the_bodys() {
        let body = "1;x=yyyyyyyy\r\nz\r\n".repeat(500) + "0\r\nlast: one\r\n\r\n";
        let (mut held, mut chunks) = (b"head".to_vec(), Chunks::after(4));
        let mut end = None;
        for byte in body.bytes() {
            assert_eq!(end, None);
            held.push(byte);
            end = chunks.join(&mut held, 0, 500).unwrap();
            assert!(held.len() < 4 + 500 + 20);
        }
        assert_eq!((end, &held[4..]), (Some(504), "z".repeat(500).as_bytes()));
    }
}
