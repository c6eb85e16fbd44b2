//! Connections that speak the protocols of Redis (RESP 2 and 3) or memcached (text): answers come in
//! the requests' order. Of an answer its first line is kept, which says what it is.

use super::http::bad;
use super::socket::Came;
use std::collections::VecDeque;
use std::io;

/// Bytes of a line.
const MOST_LINE: usize = 64 << 10;

/// Which of the protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Resp,
    Memcached,
}

/// The requests that wait, and the answer that is half received.
#[derive(Debug)]
pub(super) struct Ordered {
    dialect: Dialect,
    waiting: VecDeque<u64>,
    held: Vec<u8>,
    /// Of the answer; empty: it has not begun.
    first: Vec<u8>,
    /// Parts of it that are still to come (RESP).
    parts: usize,
    /// Bytes of data that are still to come, with the end of their line.
    data: usize,
}

impl Ordered {
    pub(super) fn new(dialect: Dialect) -> Self {
        let (held, first) = (Vec::new(), Vec::new());
        Self { dialect, waiting: VecDeque::new(), held, first, parts: 0, data: 0 }
    }

    /// Whether a request is not answered yet.
    pub(super) fn is_busy(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Writes a request.
    pub(super) fn ask(&mut self, id: u64, message: &[u8], out: &mut Vec<u8>) {
        self.waiting.push_back(id);
        out.extend_from_slice(message);
    }

    /// Takes the answers out of what has come.
    pub(super) fn take(&mut self, input: &[u8], take: &mut dyn FnMut(Came<'_>)) -> io::Result<()> {
        let mut held = std::mem::take(&mut self.held);
        held.extend_from_slice(input);
        let mut at = 0;
        loop {
            let some = self.data.min(held.len() - at);
            self.data -= some;
            at += some;
            if self.data > 0 {
                break;
            }
            if self.is_whole() {
                let id = self.waiting.pop_front().ok_or_else(|| bad("an answer to no request"))?;
                take(Came { bytes: &self.first, of: Some((id, 0)) });
                self.first.clear();
            }
            let rest = &held[at..];
            let Some(length) = rest.iter().position(|&byte| byte == b'\n') else {
                if rest.len() > MOST_LINE {
                    return Err(bad("an answer without an end of its line"));
                }
                break;
            };
            let line = rest[..length].strip_suffix(b"\r").unwrap_or(&rest[..length]);
            self.line(line)?;
            at += length + 1;
        }
        held.drain(..at);
        self.held = held;
        Ok(())
    }

    fn is_whole(&self) -> bool {
        !self.first.is_empty() && self.parts == 0
    }

    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        let begins = self.first.is_empty();
        if begins {
            self.first.extend_from_slice(&line[..line.len().min(64)]);
            self.parts = 1;
        }
        match self.dialect {
            Dialect::Resp => self.resp(line),
            Dialect::Memcached => self.memcached(line),
        }
    }

    fn resp(&mut self, line: &[u8]) -> io::Result<()> {
        let (kind, rest) = line.split_first().ok_or_else(|| bad("an empty line of RESP"))?;
        let count = || {
            let text = std::str::from_utf8(rest).unwrap_or_default();
            let count = text.parse::<i64>().map_err(|_| bad("a length of RESP that is none"))?;
            // Below zero it is none at all.
            Ok::<_, io::Error>(usize::try_from(count).ok())
        };
        self.parts -= 1;
        match kind {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => {}
            b'$' | b'=' | b'!' => self.data = count()?.map_or(0, |length| length.saturating_add(2)),
            b'*' | b'~' => self.parts = self.parts.saturating_add(count()?.unwrap_or(0)),
            b'%' => self.parts = self.parts.saturating_add(2 * count()?.unwrap_or(0).min(1 << 40)),
            other => return Err(bad(&format!("no answer of RESP: it begins with {other:#04x}"))),
        }
        Ok(())
    }

    fn memcached(&mut self, line: &[u8]) -> io::Result<()> {
        let text = String::from_utf8_lossy(line);
        let mut words = text.split(' ');
        let (first, length) = match words.next() {
            Some("VALUE") => ("VALUE", words.nth(2)),
            Some("VA") => ("VA", words.next()),
            Some(other) => (other, None),
            None => ("", None),
        };
        match first {
            "" => return Err(bad("an empty line of memcached's")),
            "VALUE" | "VA" => {
                let length = length.and_then(|length| length.parse::<usize>().ok());
                let length = length.ok_or_else(|| bad("a value without a length"))?;
                self.data = length.saturating_add(2);
                // Of a VALUE others may follow, and an END does.
                self.parts = usize::from(first == "VALUE");
            }
            "STAT" => {}
            _ => self.parts = 0,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(dialect: Dialect, text: &[u8], count: u64) -> Vec<(u64, String)> {
        let mut all: Option<Vec<_>> = None;
        for length in 1..=text.len() {
            let mut ordered = Ordered::new(dialect);
            let mut came = Vec::new();
            (1..=count).for_each(|id| ordered.ask(id, b"", &mut Vec::new()));
            for piece in text.chunks(length) {
                let mut keep = |Came { bytes, of }: Came<'_>| {
                    came.push((of.unwrap().0, String::from_utf8_lossy(bytes).into_owned()));
                };
                ordered.take(piece, &mut keep).unwrap();
            }
            assert!(!ordered.is_busy() && ordered.held.is_empty(), "{length}: {came:?}");
            assert_eq!(*all.get_or_insert_with(|| came.clone()), came, "{length}");
        }
        all.unwrap()
    }

    fn firsts(found: &[(u64, String)]) -> Vec<&str> {
        assert!(found.iter().zip(1..).all(|((id, _), at)| *id == at), "{found:?}");
        found.iter().map(|(_, first)| first.as_str()).collect()
    }

    #[test]
    fn resp_is_cut_anywhere() {
        let text = b"+OK\r\n-ERR no\r\n:7\r\n$5\r\na\r\nbc\r\n$-1\r\n$0\r\n\r\n\
            *3\r\n:1\r\n*2\r\n+a\r\n$1\r\nb\r\n$-1\r\n*0\r\n*-1\r\n%1\r\n+k\r\n#t\r\n_\r\n,1.5\r\n";
        let found = answers(Dialect::Resp, text, 12);
        let expected =
            ["+OK", "-ERR no", ":7", "$5", "$-1", "$0", "*3", "*0", "*-1", "%1", "_", ",1.5"];
        assert_eq!(firsts(&found), expected);
    }

    #[test]
    fn memcacheds_text_is_cut_anywhere() {
        let text = b"STORED\r\nEND\r\nVALUE a 0 5\r\nEND\r\n\r\nVALUE b 0 0\r\n\r\nEND\r\n\
            SERVER_ERROR out of memory\r\n7\r\nHD\r\nVA 2 c\r\nhi\r\nSTAT a 1\r\nSTAT b 2\r\nEND\r\n";
        // Five bytes of data: `END`, and the end of a line.
        let found = answers(Dialect::Memcached, text, 8);
        let expected = [
            "STORED",
            "END",
            "VALUE a 0 5",
            "SERVER_ERROR out of memory",
            "7",
            "HD",
            "VA 2 c",
            "STAT a 1",
        ];
        assert_eq!(firsts(&found), expected);
    }

    #[test]
    fn what_is_no_answer_is_told() {
        for (dialect, text, says) in [
            (Dialect::Resp, "HTTP/1.1 400\r\n", "no answer of RESP"),
            (Dialect::Resp, "$x\r\n", "a length of RESP"),
            (Dialect::Resp, "\r\n", "an empty line"),
            (Dialect::Resp, "+OK\r\n+OK\r\n", "to no request"),
            (Dialect::Memcached, "VALUE a 0\r\n", "without a length"),
        ] {
            let mut ordered = Ordered::new(dialect);
            ordered.ask(1, b"", &mut Vec::new());
            let error = ordered.take(text.as_bytes(), &mut |_| ()).unwrap_err().to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }
}
