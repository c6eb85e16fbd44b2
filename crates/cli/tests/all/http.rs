//! `curtail serve` and `curtail load` over HTTP.

use crate::common;
use crate::server;

use common::{curtail, run};
use server::Server;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn a_load_over_http_is_served() {
    for policy in ["tq", "shenango"] {
        let server = Server::with("http://127.0.0.1:0", &["--policy", policy, "--workers", "1"]);
        assert!(server.url.starts_with("http://127.0.0.1:"), "{}", server.url);
        let mut served = 0;
        // One connection has requests that wait behind others; of eight, most have none.
        for connections in ["1", "8"] {
            let output = curtail()
                .args(["load", &format!("{}/any?thing", server.url), "--rate", "2k"])
                .args(["--classes", "a:5us:9,b:50us:1", "--connections", connections])
                .args(["--duration", "200ms", "--timeout", "30s", "--json", "-"])
                .output()
                .unwrap();
            let (out, told) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
            let run: serde_json::Value =
                serde_json::from_slice(out).unwrap_or_else(|error| panic!("{error}: {told}"));
            let count = |name: &str| run[name].as_u64().unwrap();
            assert!(count("offered") > 100, "{run}");
            assert_eq!((count("completed"), count("dropped")), (count("offered"), 0), "{run}");
            served += count("completed");
        }
        // A body that is no message: the application says so, over HTTP.
        let mut stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let request =
            "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let text = String::from_utf8_lossy(&answer);
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        let report = server.stop(rustix::process::Signal::INT);
        // Those that the client begins with, and the last one, are among them.
        assert!(report["completed"].as_u64().unwrap() > served, "{report}");
    }
}

#[test]
fn what_does_not_go_together_is_told() {
    for (line, says) in [
        ("load http://127.0.0.1:9 --rate 1k --wait 1ms", "http://127.0.0.1:9/"),
        ("serve --app spin --listen http://127.0.0.1:0,tcp://127.0.0.1:0", "--listen"),
        ("serve --app spin --listen daemon+udp://127.0.0.1:1,http://127.0.0.1:0", "HTTP"),
    ] {
        let output = run(line);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && stderr.contains(says), "{line}: {stderr}");
    }
}
