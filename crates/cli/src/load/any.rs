//! `curtail load` against any server of HTTP, of Redis' protocol or of memcached's.

use crate::failure::Failure;
use clap::Args;
use curtail_load::client::{Plain, Scheme, Url, WebRequest};
use curtail_workload::{Class, Mix, Service};

/// What is asked of a server that runs no application of ours.
#[derive(Args, Clone, Debug)]
pub(super) struct AnyServer {
    /// Any server: the method of the request (http), GET where a header or body is given
    #[arg(long, value_name = "METHOD", conflicts_with_all = ["app", "workload", "classes"],
          help_heading = "Any server")]
    method: Option<String>,
    /// A header of the request (http), `NAME: VALUE`; may be repeated
    #[arg(long, value_name = "HEADER", conflicts_with_all = ["app", "workload", "classes"],
          help_heading = "Any server")]
    header: Vec<String>,
    /// The request's body (http), or `@FILE`; `{key}` (`{key:16}`: in 16 digits) and `{value}` in it
    /// and in the URL change from request to request
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["app", "workload", "classes"],
          help_heading = "Any server")]
    body: Option<String>,
    /// What is asked (redis, memcached): 'GET key:{key}', 'set key:{key} {value}'; may be repeated,
    /// with shares as in '99.8:get {key:16}', '0.2:set {key:16} {value}', or each is asked as often
    /// [default: get key:{key}]
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["app", "workload", "classes"],
          help_heading = "Any server")]
    command: Vec<String>,
}

impl AnyServer {
    /// The requests, where they are none of our own applications.
    pub(super) fn requests(
        &self,
        url: &Url,
        keys: u32,
        value: usize,
    ) -> Result<Option<Plain>, Failure> {
        let web = self.method.is_some() || !self.header.is_empty() || self.body.is_some();
        match url.scheme {
            Scheme::Redis | Scheme::Memcached if web => {
                Err(Failure::usage("--method, --header and --body are for http://, not for this"))
            }
            Scheme::Redis | Scheme::Memcached => {
                let usual = ["get key:{key}".to_owned()];
                let lines = if self.command.is_empty() { &usual[..] } else { &self.command };
                Plain::commands(url, lines, keys, value).map(Some).map_err(Failure::usage)
            }
            _ if !self.command.is_empty() => {
                Err(Failure::usage("--command is for redis:// and memcached://, not for this"))
            }
            Scheme::Http if web => {
                let method = self.method.clone().unwrap_or_else(|| "GET".to_owned());
                let request =
                    WebRequest { method, headers: self.header.clone(), body: self.body()? };
                Plain::web(url, &request, keys, value).map(Some).map_err(Failure::usage)
            }
            _ if web => Err(Failure::usage("--method, --header and --body are for http://")),
            _ => Ok(None),
        }
    }

    fn body(&self) -> Result<Option<String>, Failure> {
        let Some(file) = self.body.as_deref().and_then(|body| body.strip_prefix('@')) else {
            return Ok(self.body.clone());
        };
        let read = std::fs::read_to_string(file);
        read.map(Some).map_err(|error| Failure::failed(format!("--body: {file}: {error}")))
    }
}

/// Its classes, and what to call it. What their service takes is unknown.
pub(super) fn workload(plain: &Plain) -> Result<(String, Mix), Failure> {
    let all: Vec<&str> = plain.classes().map(|(name, _)| name).collect();
    let all = all.join(", ");
    let classes = plain.classes().map(|(name, share)| Class {
        name: name.to_owned(),
        share,
        service: Service::Constant(0),
    });
    let mix = Mix::new(classes.collect()).map_err(Failure::usage)?;
    Ok((all, mix))
}
