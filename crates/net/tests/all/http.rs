//! Requests of HTTP are cut the same however the bytes come, and any bytes are a request, a wait for
//! more, or refused.

use curtail_net::{Framer, http};
use proptest::prelude::*;

const LIMIT: usize = 300;

/// What comes of `stream` in pieces of these lengths, some of which are held back first; and whether
/// it was refused.
fn cut(stream: &[u8], pieces: &[(usize, bool)]) -> (Vec<Vec<u8>>, bool) {
    let mut framer = Framer::http(LIMIT);
    let (mut requests, mut rest, mut step) = (Vec::new(), stream, 0);
    while !rest.is_empty() {
        let (length, held) = pieces[step % pieces.len()];
        step += 1;
        let (mut input, after) = rest.split_at(length.min(rest.len()));
        rest = after;
        if held {
            framer.hold(input);
            input = &[];
        }
        loop {
            let ready = framer.is_ready();
            match framer.next(&mut input) {
                Ok(Some(request)) => requests.push(request.to_vec()),
                Ok(None) => {
                    assert!(input.is_empty() && !ready, "what is ready comes");
                    break;
                }
                Err(_) => {
                    assert!(framer.next(&mut input).is_err(), "it stays refused");
                    return (requests, true);
                }
            }
        }
    }
    (requests, false)
}

/// How a body is sent.
#[derive(Clone, Debug)]
enum Body {
    None,
    Plain(Vec<u8>),
    /// With what stands behind its chunks' lengths, and trailers.
    Chunks(Vec<(Vec<u8>, String)>, Vec<String>),
}

fn body() -> impl Strategy<Value = Body> {
    let bytes = |range| prop::collection::vec(any::<u8>(), range);
    let extension = prop_oneof![Just(String::new()), "(;[a-z]{1,5}=[a-z ]{0,9}){1,2}"];
    let chunks = prop::collection::vec((bytes(1..LIMIT / 8), extension), 0..8);
    let trailers = prop::collection::vec("[a-z]{1,9}: [ -~]{0,20}", 0..3);
    prop_oneof![
        Just(Body::None),
        bytes(0..LIMIT).prop_map(Body::Plain),
        (chunks, trailers).prop_map(|(chunks, trailers)| Body::Chunks(chunks, trailers)),
    ]
}

/// A request as it is sent, and as it is handed over.
fn request() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let headers = prop::collection::vec(("[A-Z][a-z-]{0,9}", "[ -~]{0,20}"), 0..5);
    (headers, body(), "[a-z/]{0,20}").prop_map(|(headers, body, path)| {
        let mut head = format!("PUT /{path} HTTP/1.1\r\nHost: x\r\n");
        for (name, value) in headers {
            // Those that mean something would make it another request.
            head += &format!("X-{name}: {value}\r\n");
        }
        let (kind, sent, whole) = match body {
            Body::None => (String::new(), Vec::new(), Vec::new()),
            Body::Plain(body) => {
                (format!("Content-Length: {}\r\n", body.len()), body.clone(), body)
            }
            Body::Chunks(chunks, trailers) => {
                let (sent, whole) = in_chunks(&chunks, &trailers);
                ("Transfer-Encoding: chunked\r\n".to_owned(), sent, whole)
            }
        };
        let head = format!("{head}{kind}\r\n").into_bytes();
        ([&head[..], &sent].concat(), [&head[..], &whole].concat())
    })
}

fn in_chunks(chunks: &[(Vec<u8>, String)], trailers: &[String]) -> (Vec<u8>, Vec<u8>) {
    let mut sent = Vec::new();
    for (bytes, extension) in chunks {
        sent.extend(format!("{:x}{extension}\r\n", bytes.len()).bytes());
        sent.extend(bytes);
        sent.extend(b"\r\n");
    }
    sent.extend(b"0\r\n");
    trailers.iter().for_each(|trailer| sent.extend(format!("{trailer}\r\n").bytes()));
    sent.extend(b"\r\n");
    (sent, chunks.iter().flat_map(|(bytes, _)| bytes.clone()).collect())
}

fn pieces() -> impl Strategy<Value = Vec<(usize, bool)>> {
    prop::collection::vec((1..200_usize, any::<bool>()), 1..8)
}

proptest! {
    #[test]
    fn requests_come_whole_and_in_order(
        requests in prop::collection::vec(request(), 1..8),
        pieces in pieces(),
    ) {
        let (sent, whole): (Vec<_>, Vec<_>) = requests.into_iter().unzip();
        let (found, refused) = cut(&sent.concat(), &pieces);
        prop_assert!(!refused);
        prop_assert_eq!(&found, &whole);
        for request in &found {
            let parsed = http::parse(request).unwrap();
            prop_assert!(request.ends_with(parsed.body));
            prop_assert_eq!(http::body(request), parsed.body);
            let (method, path) = http::line(request).unwrap();
            prop_assert_eq!((method, path), (parsed.method, parsed.path()));
        }
    }

    #[test]
    fn any_bytes_are_cut_the_same_in_any_pieces(
        requests in prop::collection::vec(request(), 1..4),
        at in any::<prop::sample::Index>(),
        with in any::<u8>(),
        pieces in pieces(),
    ) {
        let mut stream = requests.into_iter().flat_map(|(sent, _)| sent).collect::<Vec<u8>>();
        let place = at.index(stream.len());
        stream[place] = with;
        let (whole, refused) = cut(&stream, &[(usize::MAX, false)]);
        let (found, refused_too) = cut(&stream, &pieces);
        // A head that is wrong may be seen to be so before its end, and so before it has all come.
        prop_assert_eq!(&found, &whole);
        prop_assert!(refused == refused_too || !refused_too);
    }
}

#[test]
fn after_the_last_request_nothing_is_kept() {
    let mut framer = Framer::http(LIMIT);
    let last = b"GET / HTTP/1.0\r\n\r\n";
    let stream = [&last[..], &[b'x'; 10_000]].concat();
    let mut input = &stream[..];
    assert_eq!(framer.next(&mut input).unwrap(), Some(&last[..]));
    framer.hold(input);
    assert_eq!(framer.next(&mut input), Ok(None));
    assert!(input.is_empty() && !framer.is_ready() && framer.held_bytes() == 0);
    assert_eq!(framer.capacity(), 0);
}
