//! RESP, the protocol of Redis: where answers end, however long they are, and what requests say.

use crate::ask::Protocol;

/// Where the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// In a line, of which this many bytes have come.
    Line,
    /// In a string, of which so much is left, its end included.
    Bulk(usize),
}

/// What has come so far of an answer.
#[derive(Debug)]
pub struct Resp {
    at: At,
    /// The line so far.
    line: Vec<u8>,
    /// Values that are still to come until the answer ends.
    left: usize,
}

impl Default for Resp {
    fn default() -> Self {
        Self { at: At::Line, line: Vec::new(), left: 1 }
    }
}

impl Resp {
    /// A value ended; whether the answer did.
    fn value(&mut self) -> bool {
        self.at = At::Line;
        self.left -= 1;
        if self.left == 0 {
            self.left = 1;
            return true;
        }
        false
    }

    /// A line has come; whether the answer ends with it.
    fn line(&mut self) -> Result<bool, String> {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        let number = || text[1..].trim_end().parse::<i64>().map_err(|_| format!("sent `{text}`"));
        match line.first() {
            Some(b'+' | b':') => Ok(self.value()),
            Some(b'$') => match number()? {
                ..0 => Ok(self.value()),
                length => {
                    self.at = At::Bulk(length as usize + 2);
                    Ok(false)
                }
            },
            Some(b'*') => {
                self.left += number()?.max(0) as usize;
                Ok(self.value())
            }
            _ => Err(format!("answered `{}`", text.trim_end())),
        }
    }
}

impl Protocol for Resp {
    fn feed(&mut self, mut bytes: &[u8]) -> Result<usize, String> {
        let mut ended = 0;
        while !bytes.is_empty() {
            match self.at {
                At::Bulk(left) if left > bytes.len() => {
                    self.at = At::Bulk(left - bytes.len());
                    break;
                }
                At::Bulk(left) => {
                    bytes = &bytes[left..];
                    ended += usize::from(self.value());
                }
                At::Line => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    let (line, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
                    self.line.extend_from_slice(line);
                    bytes = rest;
                    if end.is_some() {
                        ended += usize::from(self.line()?);
                    }
                }
            }
        }
        Ok(ended)
    }
}

/// A request of these words.
#[must_use]
pub fn request(words: &[&str]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len());
    for word in words {
        out.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_cut_anywhere() {
        let text = b"+OK\r\n$-1\r\n$5\r\na\r\nbc\r\n*2\r\n$1\r\na\r\n:3\r\n*0\r\n$0\r\n\r\n";
        for size in 1..text.len() {
            let mut resp = Resp::default();
            let ended: usize = text.chunks(size).map(|part| resp.feed(part).unwrap()).sum();
            assert_eq!(ended, 6, "{size}");
        }
        assert_eq!(Resp::default().feed(b"*2\r\n$1\r\na\r\n"), Ok(0));
        assert_eq!(Resp::default().feed(b"-ERR no\r\n"), Err("answered `-ERR no`".to_owned()));
    }

    #[test]
    fn a_request() {
        assert_eq!(request(&["GET", "key:1"]), b"*2\r\n$3\r\nGET\r\n$5\r\nkey:1\r\n");
    }
}
