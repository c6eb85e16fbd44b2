//! What RFC 9110 and RFC 9112 ask of a server: the rows of `http_rfc.txt`, and what no row can say.

use crate::common;

use common::{End, STUCK, preset};
use curtail::net::{http, open};
use curtail::{App, Response, Server, WorkerId};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// With a dispatcher, and without.
const POLICIES: [&str; 2] = ["tq", "shenango"];
const MOST_BODY: usize = 1_000;

const ROWS: &str = include_str!("http_rfc.txt");

/// Statuses that need a field.
const NEED: [(u16, &str, &str); 4] = [
    (301, "Location", "http://x/there"),
    (401, "WWW-Authenticate", "Basic realm=\"here\""),
    (405, "Allow", "GET, HEAD"),
    (503, "Retry-After", "1"),
];

/// Tells what it was asked for.
struct Site;

impl App for Site {
    type Worker = ();

    fn setup_worker(&self, _: WorkerId) {}

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        let request = http::parse(request).expect("the transport hands over nothing else");
        let known = ["GET", "HEAD", "POST", "PUT", "OPTIONS"].contains(&request.method);
        let status = request.path().strip_prefix("/status/").and_then(|text| text.parse().ok());
        let status = status.unwrap_or(if known { 200 } else { 501 });
        let mut fields = vec![("Content-Type", "text/plain")];
        fields.extend(
            NEED.iter().filter(|(of, ..)| *of == status).map(|(_, name, value)| (*name, *value)),
        );
        response.write(&http::head_with(status, &fields));
        if request.path() == "/slow" {
            curtail::time::sleep(Duration::from_millis(5));
        }
        response.write(format!("{} {}", request.method, request.target).as_bytes());
        let host = request.header("host").unwrap_or(b"none");
        if host != b"x" {
            response.write(format!(" @{}", host.escape_ascii()).as_bytes());
        }
        if !request.body.is_empty() {
            response.write(format!(" ={}", request.body.escape_ascii()).as_bytes());
        }
    }
}

/// Runs `client` against a server of each kind.
fn with_servers(client: impl Fn(&str, &str) + Sync) {
    for policy in POLICIES {
        let transport = open(&format!("http://127.0.0.1:0?max={MOST_BODY}")).unwrap();
        let at = transport.local_addrs()[0].to_string();
        let server = Server::builder(Site).policy(preset(policy)).workers(1).transport(transport);
        let server = server.build().unwrap();
        let end = End(server.handle());
        std::thread::scope(|scope| {
            let running = scope.spawn(|| server.run().unwrap());
            let asks = scope.spawn(|| {
                let _end = end;
                client(&at, policy);
            });
            asks.join().unwrap();
            running.join().unwrap();
        });
    }
}

fn connect(at: &str) -> TcpStream {
    let stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(STUCK)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// A row's bytes.
fn bytes(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((byte, after)) = rest.split_first() {
        rest = match (byte, after) {
            (b'\\', [b'n', after @ ..]) => {
                bytes.extend(b"\r\n");
                after
            }
            (b'\\', [b'x', high, low, after @ ..]) => {
                let hex = String::from_utf8(vec![*high, *low]).unwrap();
                bytes.push(u8::from_str_radix(&hex, 16).unwrap());
                after
            }
            (b'\\', [kind, after @ ..]) => {
                let known = [(b'L', b'\n'), (b'R', b'\r'), (b't', b'\t')];
                bytes.push(known.iter().find(|(known, _)| known == kind).expect("an escape").1);
                after
            }
            (other, after) => {
                bytes.push(*other);
                after
            }
        };
    }
    bytes
}

/// The head of an answer; nothing, where the connection ends.
fn head(stream: &mut TcpStream, row: &str) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        let count = stream.read(&mut byte);
        if count.unwrap_or_else(|error| panic!("{row}: {error}")) == 0 {
            assert!(head.is_empty(), "{row}: cut off: {}", head.escape_ascii());
            break;
        }
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Reads one answer, which is to be that; its head.
fn expect(stream: &mut TcpStream, right: &str, row: &str) -> String {
    let (status, says) = right.split_once(' ').unwrap_or((right, ""));
    let mut head = head(stream, row);
    // A body that comes later than its head may have been waited for.
    if status != "100" && row.contains("Expect: 100") && row.contains("HTTP/1.1") {
        while head.starts_with("HTTP/1.1 100 ") {
            head = self::head(stream, row);
        }
    }
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{row}: {head:?}");
    if status == "100" {
        return head;
    }
    assert!(field(&head, "Date").is_some_and(|date| date.ends_with(" GMT")), "{row}: {head}");
    let length = field(&head, "Content-Length").map(|length| length.parse().unwrap());
    assert_eq!(length.is_none(), ["204", "304"].contains(&status), "{row}: {head}");
    if says != "-" {
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).unwrap();
        let body = String::from_utf8(body).unwrap();
        assert!(says.is_empty() || says == body, "{row}: {body:?}, not {says:?}");
    }
    head
}

/// Sends it, and reads what is right.
fn judge(at: &str, sent: &[u8], right: &str, piece: usize, row: &str) {
    let mut stream = connect(at);
    let (answers, ends) = match right.strip_suffix(" close") {
        Some(answers) => (answers, true),
        None => (right, false),
    };
    // What is refused need not have come to its end.
    let _ = sent.chunks(piece).try_for_each(|piece| stream.write_all(piece));
    let mut last = String::new();
    for answer in answers.split("; ") {
        last = expect(&mut stream, answer, row);
    }
    // HTTP/1.0 ends connections unless both say otherwise.
    let kept = sent.windows(8).any(|part| part == b"HTTP/1.0").then_some("keep-alive");
    assert_eq!(
        field(&last, "Connection"),
        if ends { Some("close") } else { kept },
        "{row}: {last}"
    );
    if ends {
        assert_eq!(head(&mut stream, row), "", "{row}: the end");
    } else {
        stream.write_all(b"GET /probe HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        expect(&mut stream, "200 GET /probe", row);
    }
}

#[test]
fn each_row_is_right() {
    let rows = ROWS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let rows: Vec<(&str, Vec<u8>, &str)> = rows
        .map(|line| {
            let (place, rest) = line.split_once(" | ").unwrap();
            let (sent, right) = rest.rsplit_once(" | ").unwrap();
            (place, bytes(sent), right)
        })
        .collect();
    assert!(rows.len() > 200, "{}", rows.len());
    with_servers(|at, policy| {
        let wrong = rows.iter().filter(|(place, sent, right)| {
            let row = format!("{policy}: RFC {place}: {}", sent.escape_ascii());
            let judges =
                || [usize::MAX, 1].iter().for_each(|piece| judge(at, sent, right, *piece, &row));
            std::panic::catch_unwind(judges).is_err()
        });
        assert_eq!(wrong.count(), 0, "{policy}: rows that are wrong, as told above");
    });
}

#[test]
fn what_is_too_large_is_told_by_its_place() {
    let (long, post) = ("a".repeat(20_000), "POST / HTTP/1.1\\nHost: x\\n");
    let rows = [
        (format!("GET /{long} HTTP/1.1\\nHost: x\\n\\n"), "414 close"),
        (format!("GET http://x/?{long} HTTP/1.1\\nHost: x\\n\\n"), "414 close"),
        (format!("{long} / HTTP/1.1\\nHost: x\\n\\n"), "501 close"),
        (format!("GET / HTTP/1.1\\nHost: x\\na: {long}\\n\\n"), "431 close"),
        (format!("GET / HTTP/1.1\\nHost: x\\n{long}: a\\n\\n"), "431 close"),
        (format!("GET / HTTP/1.1\\nHost: x\\n{}\\n", "a: b\\n".repeat(100)), "431 close"),
        (format!("GET / HTTP/1.1\\nHost: x\\n{}\\n", "a: b\\n".repeat(63)), "200"),
        // RFC 9112, 3: lines of 8,000 octets at least.
        (format!("GET /{} HTTP/1.1\\nHost: x\\n\\n", &long[..8_000]), "200"),
        // The answer is not lost although the client sends on.
        (format!("{post}Content-Length: 99999999\\n\\n{}", long.repeat(40)), "413 close"),
        (format!("{post}Expect: tea\\nContent-Length: 9\\n\\n{}", long.repeat(40)), "417 close"),
        (format!("{CHUNKED}0\\na: {long}\\n\\n"), "431 close"),
        (format!("{CHUNKED}1;{long}\\na\\n0\\n\\n"), "431 close"),
    ];
    with_servers(|at, policy| {
        for (sent, right) in &rows {
            let row = format!("{policy}: {:?}", &sent[..40]);
            judge(at, &bytes(sent), right, usize::MAX, &row);
            judge(at, &bytes(sent), right, 1_000, &row);
        }
    });
}

const CHUNKED: &str = "POST / HTTP/1.1\\nHost: x\\nTransfer-Encoding: chunked\\n\\n";

#[test]
fn statuses_have_the_fields_that_they_need() {
    with_servers(|at, policy| {
        let mut stream = connect(at);
        for (status, name, value) in NEED {
            write!(stream, "GET /status/{status} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let head = expect(&mut stream, &status.to_string(), policy);
            assert_eq!(field(&head, name), Some(value), "{policy}: {head}");
        }
    });
}

/// RFC 9112, 9.6 and 9.8: that it has sent all does not say that it has gone.
#[test]
fn a_client_that_has_ended_its_half_gets_its_answers() {
    with_servers(|at, policy| {
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        for paths in [&["/slow"][..], &["/slow", "/slow", "/a"], &["/a"]] {
            let mut stream = connect(at);
            let all: String = paths.iter().map(|path| get(path)).collect();
            stream.write_all(all.as_bytes()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            for path in paths {
                expect(&mut stream, &format!("200 GET {path}"), policy);
            }
            assert_eq!(head(&mut stream, policy), "", "{policy}");
        }
    });
}

/// RFC 9110, 10.1.1: a client that waits is told to go on, once, and not where it is refused.
#[test]
fn a_client_that_waits_is_told_to_go_on() {
    with_servers(|at, policy| {
        let mut stream = connect(at);
        let mut say = |text: &str, right: &str| {
            stream.write_all(&bytes(text)).unwrap();
            expect(&mut stream, right, policy);
        };
        let post = "POST /a HTTP/1.1\\nHost: x\\nExpect: 100-Continue\\n";
        for _ in 0..2 {
            say(&format!("{post}Content-Length: 2\\n\\n"), "100");
            say("hi", "200 POST /a =hi");
            say(&format!("{post}Transfer-Encoding: chunked\\n\\n"), "100");
            say("2\\nhi\\n0\\n\\n", "200 POST /a =hi");
        }
        say(&format!("{post}Content-Length: {}\\n\\n", MOST_BODY + 1), "413");
        assert_eq!(head(&mut stream, policy), "", "{policy}");
    });
}
