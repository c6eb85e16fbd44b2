use super::*;

fn http() -> Http {
    let mut http = Http::new(&Url::parse("http://127.0.0.1:80/a?b").unwrap(), false, false);
    let mut out = Vec::new();
    (1..5).for_each(|id| http.ask(id, b"hi", &mut out));
    let one = "POST /a?b HTTP/1.1\r\nHost: 127.0.0.1:80\r\nContent-Length: 2\r\n\r\nhi";
    assert_eq!(String::from_utf8(out).unwrap(), one.repeat(4));
    http
}

type Kept = Vec<(u64, u16, Vec<u8>)>;

fn keep(came: &mut Kept) -> impl FnMut(Came<'_>) {
    |Came { bytes, of }: Came<'_>| {
        let (id, status) = of.unwrap();
        came.push((id, status, bytes.to_vec()));
    }
}

#[test]
fn answers_are_cut_anywhere_and_belong_to_requests_in_order() {
    let text = "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 3\r\n\r\nabc\
                HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n\
                HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                2;name=value\r\nde\r\nB\r\nfghijklmnop\r\n0\r\nTrailer: yes\r\n\r\n\
                HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
    let expected = [
        (1, 200, b"abc".to_vec()),
        (2, 204, Vec::new()),
        (3, 200, b"defghijklmnop".to_vec()),
        (4, 503, Vec::new()),
    ];
    for length in 1..text.len() {
        let mut http = http();
        let mut came = Vec::new();
        for piece in text.as_bytes().chunks(length) {
            http.take(piece, &mut keep(&mut came)).unwrap();
        }
        assert_eq!(came, expected, "{length}");
        assert!(!http.is_busy() && http.held.is_empty() && !http.is_closing());
    }
}

#[test]
fn a_connection_that_ends_ends_an_answer_and_leaves_the_others_without() {
    let mut http = http();
    let mut came = Vec::new();
    http.take(b"HTTP/1.0 200 OK\r\n\r\nall of", &mut keep(&mut came)).unwrap();
    http.take(b" it", &mut keep(&mut came)).unwrap();
    assert!(came.is_empty() && http.is_closing());
    http.ended(&mut keep(&mut came)).unwrap();
    let none = |id| (id, 0, Vec::new());
    assert_eq!(came, [(1, 200, b"all of it".to_vec()), none(2), none(3), none(4)]);
    assert!(!http.is_busy() && !http.is_closing());
}

#[test]
fn what_the_server_says_of_the_connection_counts() {
    for (head, closing) in [
        ("HTTP/1.1 200 OK\r\nConnection: close\r\n", true),
        ("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n", false),
        ("HTTP/1.1 200 OK\r\n", false),
        ("HTTP/1.0 200 OK\r\n", true),
        ("HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\n", false),
    ] {
        let mut http = http();
        http.take(format!("{head}Content-Length: 0\r\n\r\n").as_bytes(), &mut |_| ()).unwrap();
        assert_eq!(http.is_closing(), closing, "{head}");
    }
}

#[test]
fn whole_requests_have_bodies_of_any_length_and_heads_have_none() {
    let url = Url::parse("http://localhost:80").unwrap();
    let mut http = Http::new(&url, true, false);
    let mut out = Vec::new();
    http.ask(7, b"GET / HTTP/1.1\r\n\r\n", &mut out);
    assert_eq!(out, b"GET / HTTP/1.1\r\n\r\n");
    let mut came = Vec::new();
    http.take(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", &mut keep(&mut came)).unwrap();
    for _ in 0..10 {
        assert!(came.is_empty());
        http.take(&[b'x'; 100_000], &mut keep(&mut came)).unwrap();
    }
    assert_eq!(came, [(7, 200, Vec::new())]);
    let mut http = Http::new(&url, true, true);
    http.ask(8, b"HEAD / HTTP/1.1\r\n\r\n", &mut out);
    http.take(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", &mut keep(&mut came)).unwrap();
    assert_eq!(came.last(), Some(&(8, 200, Vec::new())));
}

#[test]
fn what_is_no_answer_is_told() {
    for (text, says) in [
        ("hello\r\n\r\n", "no answer of HTTP/1.1"),
        ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "without a length"),
        (
            &format!("HTTP/1.1 200 OK\r\nContent-Length: 65537\r\n\r\n{}", "a".repeat(65_537)),
            "65536",
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "without a length"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "longer than"),
        (&format!("HTTP/1.1 200 OK\r\na: {}", "b".repeat(MOST_HEAD)), "head is too long"),
        (&"HTTP/1.1 204 No Content\r\n\r\n".repeat(5), "to no request"),
    ] {
        let error = http().take(text.as_bytes(), &mut |_| ()).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}
