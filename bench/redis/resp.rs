// The protocol of Redis, as far as the small ones need it.

use std::io::{self, BufRead, ErrorKind};

pub enum Command {
    Ping,
    Get(Vec<u8>),
    Set(Vec<u8>, Vec<u8>),
    Keys(Vec<u8>),
    Unknown(String),
}

impl Command {
    fn of(words: Vec<Vec<u8>>) -> Self {
        let mut words = words.into_iter();
        let name = words.next().unwrap_or_default().to_ascii_uppercase();
        match (&name[..], words.next(), words.next()) {
            (b"PING", None, None) => Self::Ping,
            (b"GET", Some(key), None) => Self::Get(key),
            (b"SET", Some(key), Some(value)) => Self::Set(key, value),
            (b"KEYS", Some(pattern), None) => Self::Keys(pattern),
            _ => Self::Unknown(String::from_utf8_lossy(&name).into_owned()),
        }
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

/// The number of a line such as `*3` or `$11`; `None` at the end.
fn number(input: &mut impl BufRead, kind: u8) -> io::Result<Option<usize>> {
    let mut line = Vec::new();
    if input.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    let text = line
        .strip_suffix(b"\r\n")
        .ok_or_else(|| io::Error::from(ErrorKind::UnexpectedEof))?
        .strip_prefix(&[kind])
        .ok_or_else(|| bad("another kind of value"))?;
    let text = std::str::from_utf8(text).map_err(|_| bad("no number"))?;
    text.parse().map(Some).map_err(|_| bad("no number"))
}

/// The next command; `None`: the client has gone.
pub fn parse(input: &mut impl BufRead) -> io::Result<Option<Command>> {
    let Some(count) = number(input, b'*')? else {
        return Ok(None);
    };
    let mut words = Vec::new();
    for _ in 0..count.min(16) {
        let length = number(input, b'$')?.ok_or(ErrorKind::UnexpectedEof)?;
        let mut word = vec![0; length.min(1 << 20) + 2];
        input.read_exact(&mut word)?;
        word.truncate(word.len() - 2);
        words.push(word);
    }
    Ok(Some(Command::of(words)))
}

pub fn bulk(value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("${}\r\n", value.len()).as_bytes());
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}
