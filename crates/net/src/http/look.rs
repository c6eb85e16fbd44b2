//! What a byte stream begins with: a request's head, and where its body ends.
//!
//! What could mean two things to two servers on a request's way is refused, also where RFC 9112
//! leaves the choice: a line that ends with a lone line feed, a length that is said twice.

use super::target::{Target, is_host};
use super::{Asked, MOST_HEAD, Refusal, begun};

/// Headers of a request.
pub(super) const MOST_HEADERS: usize = 64;

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
        Ok(httparse::Status::Complete(head)) if has_lone_feed(&bytes[..head]) => {
            return Err(Refusal::Bad);
        }
        Ok(httparse::Status::Partial) if has_lone_feed(bytes) => return Err(Refusal::Bad),
        Ok(httparse::Status::Complete(head)) if head <= MOST_HEAD => head,
        Ok(httparse::Status::Partial) if bytes.len() < MOST_HEAD => return Ok(None),
        Ok(_) => return Err(too_long(bytes)),
        Err(httparse::Error::TooManyHeaders) => return Err(Refusal::HeadTooLong),
        Err(httparse::Error::Version) => return of_version(bytes),
        Err(_) => return Err(Refusal::Bad),
    };
    let (method, minor) = (request.method.unwrap_or_default(), request.version.unwrap_or(1));
    look_at_target(method, request.path.unwrap_or_default())?;
    let mut fields = Fields::default();
    for header in request.headers.iter() {
        fields.take(header.name, header.value)?;
    }
    let (body, waits) = fields.body(minor)?;
    if body.is_some_and(|body| body > limit) {
        return Err(Refusal::BodyTooLong);
    }
    let end = body.map_or(Whole::OPEN, |body| head + body);
    let keep = !fields.closes && (minor > 0 || fields.keeps);
    let waits = waits && minor > 0 && bytes.len() < end;
    let asked = Asked { head_only: method == "HEAD", keep, minor };
    Ok(Some(Whole { head, end, waits, asked }))
}

/// Whether a line ends with a line feed alone.
fn has_lone_feed(head: &[u8]) -> bool {
    // All of it in any case, which the processor does many bytes at a time.
    let pairs = head.iter().zip(head.iter().skip(1));
    let is_lone = |(&before, &byte): (&u8, &u8)| byte == b'\n' && before != b'\r';
    head.first() == Some(&b'\n') || pairs.fold(false, |found, pair| found | is_lone(pair))
}

/// The first line, as far as it has come, and whether its end has.
fn first_line(bytes: &[u8]) -> (&[u8], bool) {
    let line = begun(bytes);
    match line.iter().position(|byte| b"\r\n".contains(byte)) {
        Some(end) => (&line[..end], true),
        None => (line, false),
    }
}

/// A head is too long: which part of it.
fn too_long(bytes: &[u8]) -> Refusal {
    match first_line(&bytes[..MOST_HEAD]) {
        (_, true) | (b"", _) => Refusal::HeadTooLong,
        (line, false) if line.contains(&b' ') => Refusal::TargetTooLong,
        _ => Refusal::Method,
    }
}

/// The version is none of HTTP/1.0 and HTTP/1.1, or a part of another.
fn of_version(bytes: &[u8]) -> Result<Option<Whole>, Refusal> {
    const FORM: &[u8] = b"HTTP/0.0";
    let (line, ended) = first_line(bytes);
    let version = line.splitn(3, |&byte| byte == b' ').nth(2).unwrap_or_default();
    let fits = |(&byte, &form): (&u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        form => byte == form,
    };
    if version.len() > FORM.len() || !version.iter().zip(FORM).all(fits) {
        return Err(Refusal::Bad);
    }
    match (ended, version) {
        (true, [_, _, _, _, _, major, _, _]) if *major != b'1' => Err(Refusal::Version),
        (true, _) => Err(Refusal::Bad),
        (false, _) => Ok(None),
    }
}

/// Refuses a target that the method can't have.
fn look_at_target(method: &str, target: &str) -> Result<(), Refusal> {
    if method == "CONNECT" {
        let host = target
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && !port.is_empty());
        // What follows may be for the other end of a tunnel.
        return Err(if host && is_host(target.as_bytes()) {
            Refusal::Method
        } else {
            Refusal::Bad
        });
    }
    Target::of(method, target).map(drop).ok_or(Refusal::Bad)
}

/// What the fields of a head say of the request and its connection.
#[derive(Default)]
struct Fields {
    length: Option<Length>,
    /// Those of all lines, where there are some.
    codings: Option<Codings>,
    hosts: u32,
    closes: bool,
    keeps: bool,
    waits: bool,
    expects_more: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Bytes(usize),
    /// More than there can be.
    Vast,
}

/// The transfer codings, in their order.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Codings {
    #[default]
    None,
    /// So far, others.
    Others,
    Chunked,
    /// Others, then chunks.
    OthersChunked,
}

impl Fields {
    fn take(&mut self, name: &str, value: &[u8]) -> Result<(), Refusal> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if is("host") {
            self.hosts += 1;
            return if is_host(value.trim_ascii()) { Ok(()) } else { Err(Refusal::Bad) };
        }
        if is("content-length") {
            let found = Length::of(value).ok_or(Refusal::Bad)?;
            // One server's end of a request is another's middle.
            return if self.length.replace(found).is_some() { Err(Refusal::Bad) } else { Ok(()) };
        }
        if is("transfer-encoding") {
            self.codings = Some(self.codings.unwrap_or_default().then(value)?);
        } else if is("connection") {
            self.closes |= members(value).any(|part| part.eq_ignore_ascii_case(b"close"));
            self.keeps |= members(value).any(|part| part.eq_ignore_ascii_case(b"keep-alive"));
        } else if is("expect") {
            for member in members(value) {
                let known = member.eq_ignore_ascii_case(b"100-continue");
                self.waits |= known;
                self.expects_more |= !known;
            }
        }
        Ok(())
    }

    /// The length of the body (`None`: it comes in chunks), and whether the client waits before it
    /// sends that.
    fn body(&self, minor: u8) -> Result<(Option<usize>, bool), Refusal> {
        let (coded, length) = (self.codings.is_some(), self.length);
        // A body in chunks with a length: as with two lengths. And HTTP/1.0 has no chunks.
        if self.hosts > 1
            || minor > 0 && self.hosts == 0
            || coded && (length.is_some() || minor == 0)
            // Nothing says where the body ends.
            || matches!(self.codings, Some(Codings::None | Codings::Others))
        {
            return Err(Refusal::Bad);
        }
        if self.codings == Some(Codings::OthersChunked) {
            return Err(Refusal::Coding);
        }
        if self.expects_more {
            return Err(Refusal::Expectation);
        }
        match length {
            _ if coded => Ok((None, self.waits)),
            Some(Length::Vast) => Err(Refusal::BodyTooLong),
            Some(Length::Bytes(bytes)) => Ok((Some(bytes), self.waits)),
            None => Ok((Some(0), self.waits)),
        }
    }
}

impl Codings {
    /// With those of one more line.
    fn then(mut self, line: &[u8]) -> Result<Self, Refusal> {
        for member in members(line) {
            self = match (self, member.eq_ignore_ascii_case(b"chunked")) {
                (Self::None, true) => Self::Chunked,
                (Self::Others, true) => Self::OthersChunked,
                (Self::None | Self::Others, false) => Self::Others,
                // Chunks come last, and once.
                (Self::Chunked | Self::OthersChunked, _) => return Err(Refusal::Bad),
            };
        }
        Ok(self)
    }
}

impl Length {
    /// Of digits only.
    fn of(value: &[u8]) -> Option<Self> {
        let digits = value.trim_ascii();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let more = |sum: usize, digit: &u8| {
            sum.checked_mul(10)?.checked_add(usize::from(digit - b'0')).filter(|&sum| sum < MOST)
        };
        Some(digits.iter().try_fold(0, more).map_or(Self::Vast, Self::Bytes))
    }
}

/// No body is so long, and a head more can be added without an overflow.
const MOST: usize = usize::MAX / 2;

/// The members of a list; empty ones do not count.
fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let all = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    all.filter(|member| !member.is_empty())
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
        let post = "POST / HTTP/1.1\r\nhost:\r\ncontent-LENGTH: 5\r\nExpect: 100-continue\r\n\r\n";
        let found = whole(post).unwrap().unwrap();
        assert_eq!((found.end, found.waits), (post.len() + 5, true));
        assert!(!whole(&format!("{post}12345")).unwrap().unwrap().waits);
        let chunks = "POST / HTTP/1.1\r\nHOST: h\r\ntransfer-encoding: Chunked\r\n\r\n";
        let found = whole(chunks).unwrap().unwrap();
        assert_eq!((found.head, found.end), (chunks.len(), Whole::OPEN));
    }

    #[test]
    fn connections_are_kept_or_not() {
        let keep = |version: &str, header: &str| {
            let text = format!("HEAD / HTTP/{version}\r\nHost: x\r\n{header}\r\n");
            let asked = whole(&text).unwrap().unwrap().asked;
            assert!(asked.head_only);
            asked.keep
        };
        assert!(keep("1.1", "") && keep("1.0", "Connection: Keep-Alive\r\n"));
        assert!(!keep("1.0", "") && !keep("1.1", "connection: te, CLOSE\r\n"));
        assert!(!keep("1.0", "Connection: close, keep-alive\r\n"));
        for version in ["1.0", "1.1"] {
            assert!(!keep(version, "Connection: close\r\nConnection: keep-alive\r\n"));
            assert!(!keep(version, "Connection: keep-alive\r\nConnection: x, ,close\r\n"));
        }
    }

    #[test]
    fn what_is_too_long_is_told_by_its_place() {
        let long = "a".repeat(MOST_HEAD);
        for (text, refusal) in [
            (long.clone(), Refusal::Method),
            (format!("GET /{long}"), Refusal::TargetTooLong),
            (format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n"), Refusal::TargetTooLong),
            (format!("GET / HTTP/1.1\r\na: {long}"), Refusal::HeadTooLong),
            (format!("GET / HTTP/1.1\r\nHost: x\r\na: {long}\r\n\r\n"), Refusal::HeadTooLong),
            (format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(65)), Refusal::HeadTooLong),
            ("\r\n".repeat(MOST_HEAD), Refusal::HeadTooLong),
        ] {
            assert_eq!(whole(&text), Err(refusal), "{}", &text[..20]);
        }
    }

    #[test]
    fn a_version_that_has_not_come_is_waited_for() {
        for version in ["", "H", "HTTP/", "HTTP/2", "HTTP/2.", "HTTP/2.0", "HTTP/1.1"] {
            assert_eq!(whole(&format!("\r\nPRI * {version}")), Ok(None), "{version}");
        }
        for version in ["x", "http", "HTTP/x", "HTTP/2,", "HTTP/2.0 ", "HTTP/22.0"] {
            assert_eq!(whole(&format!("PRI * {version}")), Err(Refusal::Bad), "{version}");
        }
    }
}
