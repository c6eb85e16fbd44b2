//! rustls with ring, and HTTP to a server on this machine.
#![forbid(unsafe_code)]

use curtail_sweep::handshake::handshake;
use curtail_sweep::inside::{self, Check, ticket};
use curtail_sweep::{Outcome, must, text};
use reqwest::StatusCode;
use reqwest::blocking::Client;
use rustls::crypto::ring;
use std::process::ExitCode;
use std::sync::{Arc, LazyLock};
use tiny_http::{Response, Server};

fn tls() -> Outcome {
    handshake(ring::default_provider)
}

/// Its address; on threads of the kernel. It sends back the path and the body.
static SERVER: LazyLock<Result<String, String>> = LazyLock::new(|| {
    let server = Arc::new(Server::http("127.0.0.1:0").map_err(text)?);
    let address = server.server_addr();
    for _ in 0..4 {
        let server = server.clone();
        std::thread::spawn(move || {
            for mut request in server.incoming_requests() {
                let mut body = String::new();
                let _ = request.as_reader().read_to_string(&mut body);
                let code = if request.url() == "/nowhere" { 404 } else { 200 };
                let answer = format!("{} {body}", request.url());
                let _ = request.respond(Response::from_string(answer).with_status_code(code));
            }
        });
    }
    Ok(format!("http://{address}"))
});
static CLIENT: LazyLock<Result<Client, String>> =
    LazyLock::new(|| Client::builder().no_proxy().build().map_err(text));

fn requests() -> Outcome {
    let server = SERVER.as_ref().map_err(Clone::clone)?;
    let client = CLIENT.as_ref().map_err(Clone::clone)?;
    let own = ticket();
    let got = client.get(format!("{server}/get/{own}")).send().map_err(text)?;
    let got = got.text().map_err(text)?;
    must!(got == format!("/get/{own} "), "{own} got {got}");
    let body: String = (0..300).map(|n| format!("{own}-{n},")).collect();
    let posted = client.post(format!("{server}/post/{own}")).body(body.clone()).send();
    let posted = posted.and_then(reqwest::blocking::Response::text).map_err(text)?;
    must!(posted == format!("/post/{own} {body}"), "{own} posted, and got {posted:.100}");
    let nowhere = client.get(format!("{server}/nowhere")).send().map_err(text)?.status();
    must!(nowhere == StatusCode::NOT_FOUND, "nowhere is {nowhere}");
    Ok("came back".to_owned())
}

fn main() -> ExitCode {
    inside::main(&[Check::new("rustls/ring", tls), Check::new("reqwest", requests)])
}
