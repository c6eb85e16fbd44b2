//! `curtail load` against servers that know nothing of Curtail.

use crate::common;

use common::{curtail, measured, run};
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

/// Serves every connection by `answer`, until the test program ends. Where it listens.
fn serve(answer: fn(&mut BufReader<TcpStream>) -> std::io::Result<Option<String>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream);
                while let Ok(Some(text)) = answer(&mut reader) {
                    let whole = reader.get_mut().write_all(text.as_bytes());
                    // It may end a connection, too.
                    if whole.is_err() || text.contains("Connection: close") {
                        break;
                    }
                }
            });
        }
    });
    address
}

fn line(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<String>> {
    let mut line = String::new();
    let length = reader.read_line(&mut line)?;
    Ok((length > 0).then(|| line.trim_end().to_owned()))
}

/// Answers by what is asked: 404 for odd keys, an end of the connection for those that end in 8, else
/// 200, in chunks.
fn web(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<String>> {
    let Some(first) = line(reader)? else { return Ok(None) };
    while line(reader)?.is_some_and(|header| !header.is_empty()) {}
    let path = first.split(' ').nth(1).unwrap_or_default();
    let answer = match path.chars().last() {
        Some('1' | '3' | '5' | '7' | '9') => "HTTP/1.1 404 No\r\nContent-Length: 4\r\n\r\nnone",
        Some('8') => "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        _ => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nyes\r\n0\r\n\r\n",
    };
    Ok(first.starts_with("GET /item/").then(|| answer.to_owned()))
}

/// Takes nothing but GET, as most servers of pages do.
fn pages(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<String>> {
    let Some(first) = line(reader)? else { return Ok(None) };
    let mut length = 0;
    while let Some(header) = line(reader)?.filter(|header| !header.is_empty()) {
        let length_of = |(name, value): (&str, &str)| {
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
        };
        length = header.split_once(':').and_then(length_of).unwrap_or(length);
    }
    reader.read_exact(&mut vec![0; length])?;
    let status = if first.starts_with("GET") { "200 OK" } else { "405 No" };
    Ok(Some(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")))
}

#[test]
fn a_web_server_that_is_asked_as_one_of_ours_is_told_of() {
    let output = run(&format!("load http://{}/ --rate 1k --wait 10ms", serve(pages)));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("405") && stderr.contains("--method GET"), "{stderr}");
    // Nothing is known of a server of others: neither its policy nor how it pre-empts.
    let line = format!("load http://{}/ --method GET --rate 1k --duration 100ms", serve(pages));
    let output = run(&format!("{line} --max-lateness 60s"));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("throughput") && table.contains("valid"), "{table}");
    assert!(!table.contains("unknown") && !table.contains("pre-empt"), "{table}");
}

fn resp(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<String>> {
    let Some(count) = line(reader)? else { return Ok(None) };
    let mut words = Vec::new();
    for _ in 0..count.trim_start_matches('*').parse::<usize>().unwrap_or(0) {
        line(reader)?;
        words.extend(line(reader)?);
    }
    let answer = match words.first().map(String::as_str) {
        Some("GET") if words[1] == "key:0" => "$-1\r\n",
        Some("GET") => "$5\r\nvalue\r\n",
        Some("SET") if words.len() == 3 && words[2].len() == 10 => "+OK\r\n",
        _ => "-ERR unknown command\r\n",
    };
    Ok(Some(answer.to_owned()))
}

fn memcached(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<String>> {
    let Some(command) = line(reader)? else { return Ok(None) };
    if command.starts_with("set ") {
        line(reader)?;
        return Ok(Some("STORED\r\n".to_owned()));
    }
    Ok(Some(format!("VALUE {} 0 2\r\nhi\r\nEND\r\n", &command[4..])))
}

/// 180 requests count.
const LINE: &str = "--rate 1k --duration 200ms --arrivals uniform --timeout 30s \
                    --max-lateness 60s --json -";

fn load(url: &str, more: &[&str]) -> (Option<i32>, Value, String) {
    let words: Vec<_> = LINE.split_whitespace().collect();
    let output = curtail().args(["load", url]).args(words).args(more).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(measured(&output), "{said}");
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap(), said)
}

fn counts(run: &Value) -> Vec<(&str, u64)> {
    let all = run["statuses"].as_object().unwrap();
    all.iter().map(|(name, count)| (name.as_str(), count.as_u64().unwrap())).collect()
}

#[test]
fn statuses_of_a_web_server_are_counted() {
    let url = format!("http://{}/item/{{key}}", serve(web));
    // Even keys alone: all is well, though some answers end their connections.
    let (_, run, said) = load(&url.replace("{key}", "{key}8"), &["--method", "GET"]);
    let offered = run["offered"].as_u64().unwrap();
    assert_eq!(counts(&run).iter().map(|(_, count)| count).sum::<u64>(), offered, "{run}: {said}");
    assert!(counts(&run).iter().all(|(name, _)| ["200", "closed"].contains(name)), "{run}");
    assert!(counts(&run)[0].1 > 0 && said.contains("answers 200: "), "{said}");
    assert!(run["slowdown"].is_null() || run["slowdown"]["p50"].is_null(), "{run}");
    let (code, run, said) = load(&url, &["--header", "Accept: */*", "--keys", "2"]);
    let found = counts(&run);
    assert_eq!((found.len(), found[0].0, found[1].0), (2, "200", "404"), "{run}");
    assert_eq!(found[0].1 + found[1].1, run["offered"].as_u64().unwrap(), "{run}");
    assert_eq!(run["completed"].as_u64(), Some(found[0].1), "{run}");
    // What failed is no figure.
    assert_eq!((code, &run["valid"]), (Some(1), &false.into()), "{said}");
    assert!(said.contains("failed at the server (answers 200: "), "{said}");
}

#[test]
fn redis_and_memcached_are_spoken() {
    let redis = format!("redis://{}", serve(resp));
    let (code, run, said) = load(&redis, &["--command", "GET key:{key}", "--keys", "2"]);
    let found = counts(&run);
    assert_eq!((found.len(), found[0].0, found[1].0), (2, "nil", "ok"), "{run}");
    assert_eq!(run["workload"].as_str(), Some("get"), "{said}");
    assert!(code == Some(0) || is_late(&said), "{said}");
    let both = ["--command", "SET a {value}", "--command", "PING", "--value-size", "10"];
    let (code, run, said) = load(&redis, &both);
    let found = counts(&run);
    assert_eq!((found.len(), found[0].0, found[1].0), (2, "ERR", "ok"), "{run}: {said}");
    assert_eq!((code, run["classes"].as_array().unwrap().len()), (Some(1), 2), "{run}");
    let memcached = format!("memcached://{}", serve(memcached));
    let both = ["--command", "get k{key}", "--command", "set k{key} {value}"];
    let (code, run, said) = load(&memcached, &both);
    let found = counts(&run);
    assert_eq!((found.len(), found[0].0, found[1].0), (2, "STORED", "hit"), "{run}: {said}");
    assert_eq!(run["completed"].as_u64(), run["offered"].as_u64(), "{said}");
    assert!(code == Some(0) || is_late(&said), "{said}");
    let shares = ["--command", "9:get {key:16}", "--command", "1:set {key:16} {value}"];
    let (_, run, said) = load(&memcached, &shares);
    let found = counts(&run);
    assert_eq!((found.len(), found[0].0, found[1].0), (2, "STORED", "hit"), "{run}: {said}");
    assert!(found[1].1 > 3 * found[0].1 && found[0].1 > 0, "{run}: {said}");
}

/// Sends frames back as they came, but an empty one for those that begin with `no`.
fn frames(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<String>> {
    let mut length = [0; 4];
    reader.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_le_bytes(length) as usize];
    reader.read_exact(&mut frame)?;
    let answer = if frame.starts_with(b"no") { Vec::new() } else { frame };
    let whole = [&(answer.len() as u32).to_le_bytes()[..], &answer].concat();
    Ok(Some(String::from_utf8(whole).unwrap()))
}

#[test]
fn frames_of_another_protocol_are_answered_one_at_a_time() {
    let url = format!("tcp://{}", serve(frames));
    let [one, other] = [["--body", "10 {key}"], ["--body", "3000 {key}"]];
    let both = [one, one, one, other, ["--keys", "9"]].concat();
    let (code, run, said) = load(&url, &both);
    let count = |class: usize| run["classes"][class]["count"].as_u64().unwrap();
    assert!(count(0) > count(1) && count(1) > 0, "{run}");
    assert_eq!(run["completed"].as_u64(), run["offered"].as_u64(), "{said}");
    assert_eq!(run["workload"].as_str(), Some("10, 3000"), "{run}");
    assert!(code == Some(0) || is_late(&said), "{said}");
    // An empty answer is how our servers refuse.
    let (code, run, said) = load(&url, &["--body", "no room"]);
    assert_eq!((code, run["dropped"].as_u64()), (Some(1), run["offered"].as_u64()), "{said}");
}

/// Answers datagrams of `9, 8, ID, ID, 7` by `1, 1, ID, ID`, two of them in reverse order, until
/// one has another form.
fn reversed(socket: &UdpSocket) -> std::io::Result<()> {
    let mut held: Option<([u8; 4], SocketAddr)> = None;
    loop {
        let mut request = [0; 64];
        socket.set_read_timeout(held.map(|_| Duration::from_millis(5)))?;
        let came = match socket.recv_from(&mut request) {
            Ok((length, from)) => Some((&request[..length], from)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => return Err(error),
        };
        let answer = match came {
            Some((&[9, 8, low, high, 7], from)) => Some(([1, 1, low, high], from)),
            Some(_) => return Ok(()),
            None => None,
        };
        match (held.take(), answer) {
            (None, answer) => held = answer,
            (Some((bytes, to)), None) => drop(socket.send_to(&bytes, to)?),
            (Some((first, to_first)), Some((second, to_second))) => {
                socket.send_to(&second, to_second)?;
                socket.send_to(&first, to_first)?;
            }
        }
    }
}

#[test]
fn datagrams_of_another_protocol_find_their_requests_by_ids() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let server = std::thread::spawn(move || reversed(&socket));
    let hex = ["--body-hex", "0908 ffff 07", "--id", "2:2", "--connections", "1"];
    let (code, run, said) = load(&format!("udp://{address}"), &hex);
    assert_eq!(run["completed"].as_u64(), run["offered"].as_u64(), "{said}");
    assert_eq!(run["workload"].as_str(), Some("request"), "{run}");
    assert!(code == Some(0) || is_late(&said), "{said}");
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"end", address).unwrap();
    server.join().unwrap().unwrap();
}

/// The machine was busy: the client could not keep to its times.
fn is_late(said: &str) -> bool {
    said.contains("fell behind") || said.contains("the server is saturated")
}

#[test]
fn what_is_no_request_is_told() {
    for (line, says) in [
        ("load http://127.0.0.1:9/ --rate 1k --method GE/T", "`GE/T` is no method"),
        ("load http://127.0.0.1:9/ --rate 1k --header none", "`none` is no header"),
        ("load redis://127.0.0.1:9 --rate 1k --method GET", "--method"),
        ("load tcp://127.0.0.1:9 --rate 1k --method GET", "http://"),
        ("load http://127.0.0.1:9/ --rate 1k --command PING", "--command is for"),
        ("load memcached://127.0.0.1:9 --rate 1k --command set", "write set KEY VALUE"),
        ("load memcached://127.0.0.1:9 --rate 1k --command 0:version", "`0` is no share"),
        ("load http://127.0.0.1:9/ --rate 1k --method GET --app kv", "--app"),
        ("load http://127.0.0.1:9/ --rate 1k --body a --body b", "one for http"),
        ("load http://127.0.0.1:9/ --rate 1k --body a --id 0:2", "--id is for udp"),
        ("load shm:///nowhere --rate 1k --body a", "--body is for udp"),
        ("load udp://127.0.0.1:9 --rate 1k --id 0:2", "give a --body"),
        ("load udp://127.0.0.1:9 --rate 1k --body a --id 0:2", "no room for 2 bytes of id"),
        ("load udp://127.0.0.1:9 --rate 1k --body a --id 0", "AT:LENGTH"),
        ("load udp://127.0.0.1:9 --rate 1k --body-hex 0x", "hexadecimal"),
        ("load redis://127.0.0.1:9 --rate 1k --body a", "--body"),
    ] {
        let output = run(line);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), stderr.lines().count()),
            (Some(2), 1),
            "{line}: {stderr}"
        );
        assert!(stderr.contains(says), "{line}: {stderr}");
    }
    // Without a rate: what a load would be is unknown.
    let output = run(&format!("load http://{}/item/2 --method GET --load 0.5", serve(web)));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && stderr.contains("--rate"), "{stderr}");
}
