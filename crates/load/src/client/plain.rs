//! Requests to any server of HTTP, Redis' protocol or memcached's: a text that the user gives, in
//! which `{key}` and `{value}` change from request to request.

use super::own::Body;
use super::socket::{Came, Scheme, Url};
use super::template::{Places, Template};
use super::wire::Outcome;
use std::collections::BTreeMap;

/// A request over HTTP.
#[derive(Clone, Debug, Default)]
pub struct WebRequest {
    /// `GET`, …
    pub method: String,
    /// `NAME: VALUE` each.
    pub headers: Vec<String>,
    /// What is sent with it.
    pub body: Option<Body>,
}

/// How the requests of a class are written.
#[derive(Clone, Debug)]
enum Form {
    Http { head: Template, body: Option<Template> },
    Resp(Vec<Template>),
    Memcached { line: Template, value: Option<Template> },
}

/// Requests of one form.
#[derive(Clone, Debug)]
struct Class {
    name: String,
    share: f64,
    form: Form,
}

/// What is asked of a server whose application is not one of ours.
#[derive(Clone, Debug)]
pub struct Plain {
    scheme: Scheme,
    classes: Vec<Class>,
    places: Places,
    scratch: Vec<u8>,
    heads: bool,
}

impl Plain {
    /// One request, over HTTP.
    ///
    /// # Errors
    /// A method or a header that is none.
    pub fn web(url: &Url, request: &WebRequest, keys: u32, value: usize) -> Result<Self, String> {
        let WebRequest { method, headers, body } = request;
        let token = |text: &str| !text.is_empty() && text.bytes().all(is_token);
        if !token(method) {
            return Err(format!("`{method}` is no method of HTTP"));
        }
        let mut head = format!("{method} {} HTTP/1.1\r\n", url.path);
        let has = |name: &str| {
            headers.iter().any(|header| {
                header.split_once(':').is_some_and(|(it, _)| it.trim().eq_ignore_ascii_case(name))
            })
        };
        if !has("host") {
            head.push_str(&format!("Host: {}\r\n", url.host));
        }
        if !has("user-agent") {
            head.push_str("User-Agent: curtail\r\n");
        }
        if has("content-length") || has("transfer-encoding") {
            return Err("the body says how long it is: leave that header out".to_owned());
        }
        for header in headers {
            let named = header.split_once(':').filter(|(name, _)| token(name));
            let (name, text) =
                named.filter(|(_, text)| !text.contains(['\r', '\n', '\0'])).ok_or_else(|| {
                    format!("`{}` is no header: write NAME: VALUE", header.escape_debug())
                })?;
            head.push_str(&format!("{name}: {}\r\n", text.trim()));
        }
        let form =
            Form::Http { head: Template::new(head), body: body.as_ref().map(Body::template) };
        let heads = method == "HEAD";
        let class = Class { name: method.to_lowercase(), share: 1.0, form };
        Ok(Self::of(url, vec![class], keys, value, heads))
    }

    /// These commands, to a server of Redis' or memcached's protocol; each with its share before it
    /// (`99.8:get a`), or as often as another of share 1.
    ///
    /// # Errors
    /// A command that is none.
    pub fn commands(url: &Url, lines: &[String], keys: u32, value: usize) -> Result<Self, String> {
        let mut classes: Vec<Class> = Vec::new();
        for line in lines {
            let (share, line) = share(line)?;
            if line.contains(char::is_control) {
                return Err(format!("`{}`: a command is one line", line.escape_debug()));
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let Some(first) = words.first() else { return Err("an empty command".to_owned()) };
            let form = match url.scheme {
                Scheme::Redis => Form::Resp(words.iter().map(Template::new).collect()),
                _ => memcached(&words)?,
            };
            let name = first.to_lowercase();
            let known = classes.iter().filter(|other| other.name.split(' ').next() == Some(&name));
            let name = match known.count() {
                0 => name,
                others => format!("{name} {}", others + 1),
            };
            classes.push(Class { name, share, form });
        }
        Ok(Self::of(url, classes, keys, value, false))
    }

    fn of(url: &Url, classes: Vec<Class>, keys: u32, value: usize, heads: bool) -> Self {
        let (scheme, places) = (url.scheme, Places::new(keys, value));
        Self { scheme, classes, places, scratch: Vec::new(), heads }
    }

    /// What each class is called, and its share.
    pub fn classes(&self) -> impl Iterator<Item = (&str, f64)> {
        self.classes.iter().map(|class| (class.name.as_str(), class.share))
    }

    /// Answers are heads alone.
    pub(super) fn heads(&self) -> bool {
        self.heads
    }

    /// Adds a request to `out`. `random`: decides keys and values.
    pub(super) fn request(&mut self, class: u16, random: u64, out: &mut Vec<u8>) {
        let Self { classes, places, scratch, .. } = self;
        let key = places.draw(random);
        let value = &places.value;
        match &classes[usize::from(class)].form {
            Form::Http { head, body } => {
                head.write(key, value, out);
                scratch.clear();
                if let Some(body) = body {
                    body.write(key, value, scratch);
                    out.extend_from_slice(
                        format!("Content-Length: {}\r\n", scratch.len()).as_bytes(),
                    );
                }
                out.extend_from_slice(b"\r\n");
                out.extend_from_slice(scratch);
            }
            Form::Resp(words) => {
                out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
                for word in words {
                    scratch.clear();
                    word.write(key, value, scratch);
                    out.extend_from_slice(format!("${}\r\n", scratch.len()).as_bytes());
                    out.extend_from_slice(scratch);
                    out.extend_from_slice(b"\r\n");
                }
            }
            Form::Memcached { line, value: stored } => {
                line.write(key, value, out);
                if let Some(stored) = stored {
                    scratch.clear();
                    stored.write(key, value, scratch);
                    out.extend_from_slice(format!(" 0 0 {}\r\n", scratch.len()).as_bytes());
                    out.extend_from_slice(scratch);
                }
                out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// What an answer says, in a word, and what became of the request.
    pub(super) fn status(&self, came: &Came<'_>) -> (Status, Outcome) {
        let code = came.of.map_or(0, |(_, code)| code);
        if self.scheme == Scheme::Http {
            let outcome = match code {
                100..400 => Outcome::Done,
                429 | 503 => Outcome::Overloaded,
                _ => Outcome::Failed,
            };
            return (Status::Code(code), outcome);
        }
        let line = String::from_utf8_lossy(came.bytes);
        let first = line.split(' ').next().unwrap_or_default();
        let failed = match self.scheme {
            Scheme::Redis => first.starts_with(['-', '!']),
            _ => first.ends_with("ERROR"),
        };
        let word = match (self.scheme, first) {
            (Scheme::Redis, "$-1" | "*-1" | "_") => "nil".to_owned(),
            (Scheme::Redis, _) if failed => first.trim_start_matches(['-', '!']).to_owned(),
            (Scheme::Redis, _) => "ok".to_owned(),
            (_, "VALUE" | "VA") => "hit".to_owned(),
            (_, "END" | "EN") => "miss".to_owned(),
            (_, number) if number.bytes().all(|byte| byte.is_ascii_digit()) => "number".to_owned(),
            (_, other) => other.to_owned(),
        };
        (Status::Word(word), if failed { Outcome::Failed } else { Outcome::Done })
    }
}

/// A command's share, which may stand before it, and the command.
fn share(line: &str) -> Result<(f64, &str), String> {
    let Some((share, command)) = line.split_once(':') else { return Ok((1.0, line)) };
    let is_meant = share.starts_with(|c: char| c.is_ascii_digit() || ".,%-+".contains(c))
        && share.bytes().all(|byte| byte.is_ascii_digit() || b".,%-+eE".contains(&byte));
    if !is_meant {
        return Ok((1.0, line));
    }
    match share.parse() {
        Ok(number) if number > 0.0 && f64::is_finite(number) => Ok((number, command)),
        _ => Err(format!(
            "`{line}`: `{share}` is no share: write a number above 0, as in 99.8:{command}"
        )),
    }
}

fn memcached(words: &[&str]) -> Result<Form, String> {
    let stores = ["set", "add", "replace", "append", "prepend"].contains(&words[0]);
    if !stores {
        return Ok(Form::Memcached { line: Template::new(words.join(" ")), value: None });
    }
    let [verb, key, value] = words else {
        return Err(format!("`{}`: write {} KEY VALUE", words.join(" "), words[0]));
    };
    let line = Template::new(format!("{verb} {key}"));
    Ok(Form::Memcached { line, value: Some(Template::new(value)) })
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// What an answer says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// Of HTTP; 0: the connection ended first.
    Code(u16),
    Word(String),
}

/// How often each status came.
#[derive(Clone, Debug, Default)]
pub struct Statuses(BTreeMap<String, u64>);

impl Statuses {
    pub(super) fn count(&mut self, status: Status) {
        let name = match status {
            Status::Code(0) => "closed".to_owned(),
            Status::Code(code) => code.to_string(),
            Status::Word(word) => word,
        };
        *self.0.entry(name).or_default() += 1;
    }

    /// By name.
    #[must_use]
    pub fn all(&self) -> &BTreeMap<String, u64> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(plain: &mut Plain, class: u16) -> String {
        let mut out = Vec::new();
        plain.request(class, u64::MAX, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn requests_of_http_are_whole() {
        let url = Url::parse("http://localhost:80/item/{key}?a=1").unwrap();
        let get = WebRequest { method: "GET".into(), ..WebRequest::default() };
        let mut plain = Plain::web(&url, &get, 10, 0).unwrap();
        assert_eq!(
            written(&mut plain, 0),
            "GET /item/9?a=1 HTTP/1.1\r\nHost: localhost:80\r\nUser-Agent: curtail\r\n\r\n"
        );
        let put = WebRequest {
            method: "PUT".into(),
            headers: vec!["Host: x".into(), "Accept:  */*".into(), "user-agent: me".into()],
            body: Some(Body::Text("k={key}&v={value}".into())),
        };
        let mut plain = Plain::web(&url, &put, 1, 9).unwrap();
        let text = written(&mut plain, 0);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert_eq!(
            head,
            "PUT /item/0?a=1 HTTP/1.1\r\nHost: x\r\nAccept: */*\r\nuser-agent: me\r\nContent-Length: 15"
        );
        assert_eq!((body.len(), &body[..6], &body[14..]), (15, "k=0&v=", "x"));
        for (method, header) in [
            ("GE T", "a: b"),
            ("", "a: b"),
            ("GET", "none"),
            ("GET", "a: b\r\nc: d"),
            ("GET", "Content-Length: 3"),
        ] {
            let bad =
                WebRequest { method: method.into(), headers: vec![header.into()], body: None };
            assert!(Plain::web(&url, &bad, 1, 1).is_err(), "{method} {header}");
        }
    }

    #[test]
    fn commands_are_written_as_their_servers_read_them() {
        let lines = |all: &[&str]| all.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
        let redis = Url::parse("redis://127.0.0.1:6379").unwrap();
        let all = lines(&["GET key:{key}", "SET a {value}", "GET b"]);
        let mut plain = Plain::commands(&redis, &all, 100, 3).unwrap();
        let classes: Vec<_> = plain.classes().collect();
        assert_eq!(classes, [("get", 1.0), ("set", 1.0), ("get 2", 1.0)]);
        assert_eq!(written(&mut plain, 0), "*2\r\n$3\r\nGET\r\n$6\r\nkey:99\r\n");
        assert!(written(&mut plain, 1).starts_with("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$3\r\n"));
        let memcached = Url::parse("memcached://127.0.0.1:11211").unwrap();
        let all = lines(&["99.8:get a{key}", "0.2:set k v{key}"]);
        let mut plain = Plain::commands(&memcached, &all, 100, 3).unwrap();
        assert_eq!(plain.classes().collect::<Vec<_>>(), [("get", 99.8), ("set", 0.2)]);
        assert_eq!(written(&mut plain, 0), "get a99\r\n");
        assert_eq!(written(&mut plain, 1), "set k 0 0 3\r\nv99\r\n");
        for bad in [".5%:get a", "-1:get a", "0:get a", "0,2:set k v", "99%:get a", "-:get a"] {
            let error = Plain::commands(&redis, &lines(&[bad]), 1, 1).unwrap_err();
            assert!(error.contains("is no share"), "{error}");
        }
        let half = Plain::commands(&redis, &lines(&[".5:get a", "get 1:2"]), 1, 1).unwrap();
        assert_eq!(half.classes().map(|(_, share)| share).collect::<Vec<_>>(), [0.5, 1.0]);
        for bad in ["", "set k", "set k 0 0 3 v", "get a\r\nget b"] {
            assert!(Plain::commands(&memcached, &lines(&[bad]), 1, 1).is_err(), "{bad}");
        }
    }

    #[test]
    fn answers_say_what_they_are() {
        let status = |url: &str, line: &str, code| {
            let url = Url::parse(url).unwrap();
            let plain = match url.scheme {
                Scheme::Http => Plain::web(
                    &url,
                    &WebRequest { method: "GET".into(), ..WebRequest::default() },
                    1,
                    1,
                ),
                _ => Plain::commands(&url, &["get a".to_owned()], 1, 1),
            };
            let (status, outcome) =
                plain.unwrap().status(&Came { bytes: line.as_bytes(), of: Some((1, code)) });
            let mut statuses = Statuses::default();
            statuses.count(status);
            (statuses.all().keys().next().unwrap().clone(), outcome)
        };
        let said = |word: &str, outcome| (word.to_owned(), outcome);
        let (http, redis, memcached) =
            ("http://127.0.0.1:80", "redis://127.0.0.1:6379", "memcached://127.0.0.1:11211");
        assert_eq!(status(http, "", 302), said("302", Outcome::Done));
        assert_eq!(status(http, "", 404), said("404", Outcome::Failed));
        assert_eq!(status(http, "", 503), said("503", Outcome::Overloaded));
        assert_eq!(status(http, "", 0), said("closed", Outcome::Failed));
        assert_eq!(status(redis, "$-1", 0), said("nil", Outcome::Done));
        assert_eq!(status(redis, "$5", 0), said("ok", Outcome::Done));
        assert_eq!(status(redis, "-WRONGTYPE Operation", 0), said("WRONGTYPE", Outcome::Failed));
        assert_eq!(status(memcached, "VALUE a 0 1", 0), said("hit", Outcome::Done));
        assert_eq!(status(memcached, "END", 0), said("miss", Outcome::Done));
        assert_eq!(status(memcached, "STORED", 0), said("STORED", Outcome::Done));
        assert_eq!(status(memcached, "SERVER_ERROR out", 0), said("SERVER_ERROR", Outcome::Failed));
    }
}
