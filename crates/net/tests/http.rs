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

fn request() -> impl Strategy<Value = Vec<u8>> {
    let headers = prop::collection::vec(("[A-Z][a-z-]{0,9}", "[ -~]{0,20}"), 0..5);
    (headers, prop::option::of(prop::collection::vec(any::<u8>(), 0..LIMIT)), "[a-z/]{0,20}")
        .prop_map(|(headers, body, path)| {
            let mut text = format!("PUT /{path} HTTP/1.1\r\n");
            for (name, value) in headers {
                // Those that mean something would make it another request.
                text += &format!("X-{name}: {value}\r\n");
            }
            if let Some(body) = &body {
                text += &format!("Content-Length: {}\r\n", body.len());
            }
            text += "\r\n";
            [text.into_bytes(), body.unwrap_or_default()].concat()
        })
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
        let (found, refused) = cut(&requests.concat(), &pieces);
        prop_assert!(!refused);
        prop_assert_eq!(&found, &requests);
        for request in &found {
            let parsed = http::parse(request).unwrap();
            prop_assert!(request.ends_with(parsed.body));
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
        let mut stream = requests.concat();
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
