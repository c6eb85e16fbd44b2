//! `curtail load` against any server: of HTTP, of Redis' protocol or memcached's, or of datagrams or
//! frames of its own.

use crate::failure::Failure;
use clap::Args;
use curtail_load::client::{Body, IdAt, Own, Plain, Scheme, Url, WebRequest, Wire};
use curtail_workload::{Class, Mix, Service};

/// What is asked of a server that runs no application of ours.
#[derive(Args, Clone, Debug)]
pub(super) struct AnyServer {
    /// Any server: the method of the request (http), GET where a header or body is given
    #[arg(long, value_name = "METHOD", conflicts_with_all = OURS, help_heading = "Any server")]
    method: Option<String>,
    /// A header of the request (http), `NAME: VALUE`; may be repeated
    #[arg(long, value_name = "HEADER", conflicts_with_all = OURS, help_heading = "Any server")]
    header: Vec<String>,
    /// The request's body (http), or the whole request, a datagram (udp) or frame (tcp): a text, or
    /// `@FILE`. `{key}` (`{key:16}`: in 16 digits) and `{value}` in it, and in the URL, change from
    /// request to request. Of udp and tcp it may be repeated: each is asked as often as it is given
    #[arg(long, value_name = "TEXT", conflicts_with_all = OURS, help_heading = "Any server")]
    body: Vec<String>,
    /// A body in hexadecimal digits; otherwise as --body
    #[arg(long, value_name = "DIGITS", conflicts_with_all = OURS, help_heading = "Any server")]
    body_hex: Vec<String>,
    /// Where requests and answers of --body have an id (udp, tcp), in bytes; the client writes it,
    /// and the server sends it back at the same place. Without, each connection has one request in
    /// progress at a time
    #[arg(long, value_name = "AT:LENGTH", conflicts_with_all = OURS, help_heading = "Any server")]
    id: Option<IdAt>,
    /// What is asked (redis, memcached): 'GET key:{key}', 'set key:{key} {value}'; may be repeated,
    /// with shares as in '99.8:get {key:16}', '0.2:set {key:16} {value}', or each is asked as often
    /// [default: get key:{key}]
    #[arg(long, value_name = "COMMAND", conflicts_with_all = OURS, help_heading = "Any server")]
    command: Vec<String>,
}

/// Classes by their names, with their shares.
type Classes = Vec<(String, f64)>;

/// What is asked of our own applications.
const OURS: [&str; 3] = ["app", "workload", "classes"];

impl AnyServer {
    /// The requests, and their classes with their shares, where they are none of our own applications.
    pub(super) fn requests(
        &self,
        url: &Url,
        keys: u32,
        value: usize,
    ) -> Result<Option<(Wire, Classes)>, Failure> {
        let bodies = self.bodies()?;
        let web = self.method.is_some() || !self.header.is_empty();
        let plain = match url.scheme {
            Scheme::Redis | Scheme::Memcached if web || !bodies.is_empty() => {
                let says = "--method, --header and --body are for http://, not for this";
                return Err(Failure::usage(says));
            }
            Scheme::Redis | Scheme::Memcached => {
                let usual = ["get key:{key}".to_owned()];
                let lines = if self.command.is_empty() { &usual[..] } else { &self.command };
                Plain::commands(url, lines, keys, value)
            }
            _ if !self.command.is_empty() => {
                let says = "--command is for redis:// and memcached://, not for this";
                return Err(Failure::usage(says));
            }
            Scheme::Http if self.id.is_some() => {
                return Err(Failure::usage("--id is for udp:// and tcp://"));
            }
            Scheme::Http if web || !bodies.is_empty() => {
                let ([] | [_]) = &bodies[..] else {
                    return Err(Failure::usage("--body: one for http://, please"));
                };
                let method = self.method.clone().unwrap_or_else(|| "GET".to_owned());
                let body = bodies.into_iter().next();
                let request = WebRequest { method, headers: self.header.clone(), body };
                Plain::web(url, &request, keys, value)
            }
            _ if web => return Err(Failure::usage("--method and --header are for http://")),
            Scheme::Udp | Scheme::Tcp if !bodies.is_empty() => {
                let (bodies, shares) = counted(bodies);
                let own = Own::new(url, &bodies, self.id, keys, value);
                let own = own.map_err(|error| Failure::usage(format!("--body: {error}")))?;
                let classes = own.names().map(str::to_owned).zip(shares).collect();
                return Ok(Some((Wire::Own(Box::new(own)), classes)));
            }
            _ if !bodies.is_empty() => {
                return Err(Failure::usage("--body is for udp://, tcp:// and http://"));
            }
            _ if self.id.is_some() => {
                return Err(Failure::usage("--id says where --body has an id: give a --body"));
            }
            _ => return Ok(None),
        };
        let plain = plain.map_err(Failure::usage)?;
        let classes = plain.classes().map(|(name, share)| (name.to_owned(), share)).collect();
        Ok(Some((Wire::Plain(Box::new(plain)), classes)))
    }

    fn bodies(&self) -> Result<Vec<Body>, Failure> {
        let text = |body: &String| match body.strip_prefix('@') {
            None => Ok(Body::Text(body.clone().into_bytes())),
            Some(file) => std::fs::read(file)
                .map(Body::Text)
                .map_err(|error| Failure::failed(format!("--body: {file}: {error}"))),
        };
        let hex = |digits: &String| {
            Body::hex(digits).map_err(|error| Failure::usage(format!("--body-hex: {error}")))
        };
        self.body.iter().map(text).chain(self.body_hex.iter().map(hex)).collect()
    }
}

/// Each body once, and how often it was given.
fn counted(bodies: Vec<Body>) -> (Vec<Body>, Vec<f64>) {
    let (mut each, mut shares) = (Vec::new(), Vec::new());
    for body in bodies {
        if let Some(at) = each.iter().position(|other| *other == body) {
            shares[at] += 1.0;
        } else {
            each.push(body);
            shares.push(1.0);
        }
    }
    (each, shares)
}

/// Their classes, and what to call it. What their service takes is unknown.
pub(super) fn workload(classes: Classes) -> Result<(String, Mix), Failure> {
    let names: Vec<&str> = classes.iter().map(|(name, _)| name.as_str()).collect();
    let all = names.join(", ");
    let class = |(name, share)| Class { name, share, service: Service::Constant(0) };
    let mix = Mix::new(classes.into_iter().map(class).collect()).map_err(Failure::usage)?;
    Ok((all, mix))
}
