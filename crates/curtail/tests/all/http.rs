//! HTTP/1.1 as clients speak it, under servers with and without a dispatcher, over TCP and Unix
//! sockets; and as they should not.

use crate::common;

use common::{End, STUCK, preset};
use curtail::net::{http, open};
use curtail::{App, Class, ClassId, Report, Response, Server, WorkerId};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex};

const BIG: usize = 3 << 20;
const POLICIES: [&str; 3] = ["tq", "fcfs", "shenango"];

/// Requests for `/until-gone`.
static BEGUN: Mutex<usize> = Mutex::new(0);
static BEGINS: Condvar = Condvar::new();

struct Site;

impl App for Site {
    type Worker = ();

    fn classes(&self) -> Vec<Class> {
        vec![Class::named("short"), Class::named("long")]
    }

    fn setup_worker(&self, _: WorkerId) {}

    fn classify(&self, request: &[u8]) -> ClassId {
        ClassId(u16::from(http::line(request).is_some_and(|(_, path)| path == "/big")))
    }

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        let request = http::parse(request).expect("the transport hands over nothing else");
        match (request.method, request.path()) {
            (_, "/echo") => {
                response.write(&http::head(200, "application/octet-stream"));
                response.write(request.body);
            }
            (_, "/number") => response.write(request.query().unwrap_or("none").as_bytes()),
            (_, "/nothing") => {}
            (_, "/json") => {
                let json: serde_json::Value = serde_json::from_slice(request.body).unwrap();
                response.write(json.to_string().as_bytes());
            }
            (_, "/panic") => panic!("as asked"),
            (_, "/until-gone") => {
                *BEGUN.lock().unwrap() += 1;
                BEGINS.notify_all();
                while curtail::check().is_ok() {
                    std::hint::spin_loop();
                }
                response.write(b"no one reads this");
            }
            (_, "/big") => (0..BIG / 64).for_each(|_| response.write(&[b'x'; 64])),
            _ => {
                response.write(&http::head(404, "text/plain"));
                response.write(b"not here\n");
            }
        }
    }
}

/// Runs a server there while `client` talks to it: it gets the transport's URL.
fn serve(policy: &str, url: &str, client: impl FnOnce(&str) + Send) -> Report {
    let transport = open(url).unwrap();
    let at = transport.describe();
    let server = Server::builder(Site).policy(preset(policy)).workers(1).transport(transport);
    let server = server.build().unwrap();
    let end = End(server.handle());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| server.run().unwrap());
        let asks = scope.spawn(move || {
            let _end = end;
            client(&at);
        });
        asks.join().unwrap();
        running.join().unwrap()
    })
}

fn connect(at: &str) -> TcpStream {
    let stream = TcpStream::connect(at.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(STUCK)).unwrap();
    stream
}

/// One answer: its head, and its body by its length.
fn answer(stream: &mut impl Read) -> (String, Vec<u8>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&head));
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    (head, body)
}

/// What is left until the other side's end; a reset counts as one.
fn rest(stream: &mut impl Read) -> String {
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    String::from_utf8_lossy(&rest).into_owned()
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_connection_has_one_request_after_another() {
    for policy in POLICIES {
        let report = serve(policy, "http://127.0.0.1:0", |at| {
            let mut stream = connect(at);
            for n in 0..50 {
                write!(stream, "GET /number?{n} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
                assert_eq!(answer(&mut stream).1, n.to_string().as_bytes(), "{policy}");
            }
            write!(stream, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
                .unwrap();
            let (head, body) = answer(&mut stream);
            assert!(head.contains("application/octet-stream") && body == b"hello", "{head}");
            for (path, expected) in [("nothing", 200), ("panic", 500), ("elsewhere", 404)] {
                write!(stream, "GET /{path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
                assert_eq!(status(&answer(&mut stream).0), expected, "{policy}: {path}");
            }
            write!(
                stream,
                "GET /number?last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nGET /x"
            )
            .unwrap();
            let (head, body) = answer(&mut stream);
            assert!(head.contains("Connection: close\r\n") && body == b"last", "{head}");
            assert_eq!(rest(&mut stream), "");
        });
        assert_eq!(report.classes[0].completed + report.classes[0].failed, 55, "{policy}");
    }
}

#[test]
fn what_is_sent_at_once_is_answered_in_order() {
    for policy in POLICIES {
        serve(policy, "http://127.0.0.1:0?burst=3", |at| {
            let mut stream = connect(at);
            let all: String =
                (0..300).map(|n| format!("GET /number?{n} HTTP/1.1\r\nHost: x\r\n\r\n")).collect();
            let mut sender = stream.try_clone().unwrap();
            std::thread::scope(|scope| {
                // Cut anywhere, as the network may.
                scope.spawn(move || {
                    all.as_bytes().chunks(37).for_each(|part| sender.write_all(part).unwrap());
                    sender.shutdown(Shutdown::Write).unwrap();
                });
                for n in 0..300 {
                    assert_eq!(answer(&mut stream).1, n.to_string().as_bytes(), "{policy}");
                }
                assert_eq!(rest(&mut stream), "", "{policy}");
            });
        });
    }
}

#[test]
fn large_bodies_go_both_ways() {
    for policy in POLICIES {
        let report = serve(policy, "http://127.0.0.1:0?max=4m", |at| {
            let mut stream = connect(at);
            write!(stream, "GET /big HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let (_, body) = answer(&mut stream);
            assert!(body.len() == BIG / 64 * 64 && body.iter().all(|byte| *byte == b'x'));
            // The client waits for a word before it sends the body.
            let head = format!("Content-Length: {BIG}\r\nExpect: 100-continue\r\n");
            write!(stream, "POST /echo HTTP/1.1\r\nHost: x\r\n{head}\r\n").unwrap();
            assert_eq!(answer(&mut stream).0, "HTTP/1.1 100 Continue\r\n\r\n", "{policy}");
            let sent: Vec<u8> = (0..BIG).map(|n| n as u8).collect();
            let mut sender = stream.try_clone().unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| sender.write_all(&sent).unwrap());
                assert!(answer(&mut stream).1 == sent, "{policy}");
            });
            write!(stream, "HEAD /big HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
            let all = rest(&mut stream);
            assert!(all.contains(&format!("Content-Length: {BIG}\r\n")), "{all}");
            assert!(all.ends_with("\r\n\r\n"), "no body");
        });
        assert_eq!(report.classes[1].completed, 2, "the classifier sees the path");
    }
}

#[test]
fn bodies_may_come_in_chunks() {
    for policy in POLICIES {
        serve(policy, "http://127.0.0.1:0?max=100k", |at| {
            let mut stream = connect(at);
            let sent: Vec<u8> = (0..100_000_u32).map(|n| (n / 7) as u8).collect();
            let head = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n";
            for length in [1, 1_000, 100_000] {
                let sent = &sent[..length * 100_usize.min(100_000 / length)];
                write!(stream, "{head}\r\n").unwrap();
                for chunk in sent.chunks(length) {
                    write!(stream, "{:X};so=what\r\n", chunk.len()).unwrap();
                    stream.write_all(chunk).unwrap();
                    write!(stream, "\r\n").unwrap();
                }
                // Another request follows at once.
                write!(stream, "0\r\nTrailer: x\r\n\r\nGET /number?7 HTTP/1.1\r\nHost: x\r\n\r\n")
                    .unwrap();
                assert!(answer(&mut stream).1 == sent, "{policy}: {length}");
                assert_eq!(answer(&mut stream).1, b"7", "{policy}: {length}");
            }
            write!(stream, "{head}Expect: 100-continue\r\n\r\n").unwrap();
            assert_eq!(answer(&mut stream).0, "HTTP/1.1 100 Continue\r\n\r\n", "{policy}");
            write!(stream, "3\r\nabc\r\n0\r\n\r\n").unwrap();
            let (head, body) = answer(&mut stream);
            assert_eq!(body, b"abc", "{policy}");
            let date = head.lines().find_map(|line| line.strip_prefix("Date: ")).unwrap();
            assert!(date.ends_with(" GMT") && date.len() == 29, "{date}");
        });
    }
}

/// A debug build takes much of a stack for it.
#[test]
fn a_body_of_deeply_nested_arrays_is_taken_apart() {
    let body = "[".repeat(100) + &"]".repeat(100);
    for policy in POLICIES {
        serve(policy, "http://127.0.0.1:0", |at| {
            let mut stream = connect(at);
            let head = "POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 200";
            write!(stream, "{head}\r\n\r\n{body}").unwrap();
            assert_eq!(answer(&mut stream).1, body.as_bytes(), "{policy}");
        });
    }
}

#[test]
fn what_is_no_request_is_told_and_ends_its_connection_alone() {
    let long = format!("GET / HTTP/1.1\r\nHost: x\r\na: {}\r\n\r\n", "b".repeat(20_000));
    let many = format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "a: b\r\n".repeat(100));
    let two = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab";
    let hostile = [
        ("\0\0\0\x05hello", 400),
        ("GET / HTTP/2.0\r\n\r\n", 505),
        ("nonsense\r\n\r\n", 400),
        (two, 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n", 413),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n", 413),
        (&long, 431),
        (&many, 431),
    ];
    for policy in POLICIES {
        serve(policy, "http://127.0.0.1:0?max=1000", |at| {
            let mut good = connect(at);
            for (text, expected) in hostile {
                let mut stream = connect(at);
                stream.write_all(text.as_bytes()).unwrap();
                let _ = stream.shutdown(Shutdown::Write);
                let told = rest(&mut stream);
                let shown = &text[..text.len().min(60)];
                assert!(told.starts_with(&format!("HTTP/1.1 {expected} ")), "{shown:?}: {told}");
                assert!(told.contains("Connection: close\r\n"), "{told}");
                write!(good, "GET /number?1 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
                assert_eq!(answer(&mut good).1, b"1", "{policy}: others are served");
            }
            // Byte by byte, and then gone in the middle.
            let mut slow = connect(at);
            for byte in b"GET /number?7 HTTP/1.1\r\nHost: x\r\n\r\nGET /num" {
                slow.write_all(&[*byte]).unwrap();
            }
            assert_eq!(answer(&mut slow).1, b"7", "{policy}");
            drop(slow);
            // Hangs up while its answer is computed or sent.
            let mut gone = connect(at);
            write!(gone, "GET /big HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            drop(gone);
            write!(good, "GET /number?2 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            assert_eq!(answer(&mut good).1, b"2", "{policy}");
        });
    }
}

/// Its handler has no safepoint and never waits: it hears of that by `check` alone.
#[test]
fn a_client_that_closes_before_its_answer_has_gone_where_a_fin_says_so() {
    for policy in POLICIES {
        let report = serve(policy, "http://127.0.0.1:0?fin=cancel", |at| {
            for _ in 0..3 {
                let before = *BEGUN.lock().unwrap();
                let mut goes = connect(at);
                write!(goes, "GET /until-gone HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
                let waits = |begun: &mut usize| *begun == before;
                let begun = BEGUN.lock().unwrap();
                let (begun, _) = BEGINS.wait_timeout_while(begun, STUCK, waits).unwrap();
                assert_ne!(*begun, before, "{policy}: it never begins");
                drop(begun);
                drop(goes);
            }
            let mut stays = connect(at);
            write!(stays, "GET /number?3 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            assert_eq!(answer(&mut stays).1, b"3", "{policy}: the worker is free again");
        });
        assert_eq!(report.classes[0].completed, 4, "{policy}");
    }
}

#[test]
fn over_a_unix_socket() {
    let file = std::env::temp_dir().join(format!("curtail-http-{}.sock", std::process::id()));
    for policy in POLICIES {
        serve(policy, &format!("http+unix://{}", file.display()), |at| {
            let mut stream = UnixStream::connect(at.strip_prefix("http+unix://").unwrap()).unwrap();
            stream.set_read_timeout(Some(STUCK)).unwrap();
            write!(stream, "GET /number?5 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            assert_eq!(answer(&mut stream).1, b"5", "{policy}");
            let taken = open(at).err().unwrap().to_string();
            assert!(taken.contains("in use"), "{taken}");
        });
        assert!(!file.exists(), "it goes with the server");
    }
    // One that was left behind is replaced.
    drop(std::os::unix::net::UnixListener::bind(&file).unwrap());
    assert!(file.exists());
    drop(open(&format!("unix://{}", file.display())).unwrap());
    assert!(!file.exists());
}

#[test]
fn curl_speaks_it() {
    let curl = |arguments: &[&str]| {
        let mut curl = std::process::Command::new("curl");
        let output = curl.args(["-sS", "-m", "60"]).args(arguments).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    if curl(&["--version"]).is_err() {
        return eprintln!("not tested: there is no curl here");
    }
    let body = "z".repeat(100_000);
    for policy in POLICIES {
        serve(policy, "http://localhost:0", |at| {
            let said = curl(&[&format!("{at}/number?8"), &format!("{at}/number?9")]).unwrap();
            assert_eq!(said, "89", "{policy}");
            let said = curl(&["-d", &body, &format!("{at}/echo")]).unwrap();
            assert!(said == body, "{policy}: {} bytes", said.len());
            let chunked = ["-H", "Transfer-Encoding: chunked", "-d", &body, &format!("{at}/echo")];
            let said = curl(&chunked).unwrap();
            assert!(said == body, "{policy}: {} bytes", said.len());
            let status = curl(&["-o", "/dev/null", "-w", "%{http_code}", &format!("{at}/no")]);
            assert_eq!(status.unwrap(), "404", "{policy}");
        });
    }
}
