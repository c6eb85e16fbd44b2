//! rustls with ring, and HTTP to a server on this machine.
#![forbid(unsafe_code)]

use curtail_sweep::handshake::handshake;
use curtail_sweep::inside::{self, Check, ticket};
use curtail_sweep::{Outcome, must, text};
use reqwest::StatusCode;
use reqwest::blocking::Client;
use rustls::crypto::ring;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::LazyLock;

fn tls() -> Outcome {
    handshake(ring::default_provider)
}

/// Its address; on threads of the kernel, one for each connection. It sends back the path and the
/// body.
static SERVER: LazyLock<Result<String, String>> = LazyLock::new(|| {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(text)?;
    let address = listener.local_addr().map_err(text)?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    Ok(format!("http://{address}"))
});

fn serve(mut stream: TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let (mut first, mut length) = (String::new(), 0);
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        loop {
            let mut header = String::new();
            reader.read_line(&mut header)?;
            if header.trim().is_empty() {
                break;
            }
            if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let path = first.split(' ').nth(1).unwrap_or_default();
        let answer = format!("{path} {}", String::from_utf8_lossy(&body));
        let code = if path == "/nowhere" { "404 Not Found" } else { "200 OK" };
        let head = format!("HTTP/1.1 {code}\r\ncontent-length: {}\r\n\r\n", answer.len());
        stream.write_all((head + &answer).as_bytes())?;
    }
}
static CLIENT: LazyLock<Result<Client, String>> =
    LazyLock::new(|| Client::builder().no_proxy().build().map_err(text));

fn requests() -> Outcome {
    let server = SERVER.as_ref().map_err(Clone::clone)?;
    let client = CLIENT.as_ref().map_err(Clone::clone)?;
    let own = ticket();
    let got = client.get(format!("{server}/get/{own}")).send().map_err(|it| format!("{it:?}"))?;
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
