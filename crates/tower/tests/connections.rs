//! The layer under a server with sockets: upgrades, what comes with a connection, hanging up.

use axum::Router;
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::extract::{ConnectInfo, Extension, Request};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{get, post};
use curtail::ClassId;
use curtail::pool::{Class, Pool};
use curtail_tower::PoolLayer;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(60);

fn behind(routes: Router) -> Router {
    let pool = Pool::builder().workers(1).class(Class::named("all")).build().unwrap();
    routes.layer(PoolLayer::new(pool, |_: &Request| ClassId(0)))
}

async fn serve(routes: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = routes.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    address
}

async fn send(address: SocketAddr, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.replace('\n', "\r\n").as_bytes()).await.unwrap();
    stream
}

/// Its head, and its body.
async fn answer(stream: &mut TcpStream) -> (String, String) {
    let mut text = String::new();
    timeout(STUCK, stream.read_to_string(&mut text)).await.unwrap().unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[tokio::test]
async fn a_websocket_talks() {
    let upgrade = |socket: WebSocketUpgrade| async {
        socket.on_upgrade(|mut socket| async move {
            while let Some(Ok(Message::Text(text))) = socket.recv().await {
                socket.send(Message::Text(format!("{text}!").into())).await.unwrap();
            }
        })
    };
    let address = serve(behind(Router::new().route("/", get(upgrade)))).await;
    let asks = "GET / HTTP/1.1\nHost: x\nConnection: Upgrade\nUpgrade: websocket\n\
                Sec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n\n";
    let mut stream = send(address, asks).await;
    // Two frames of text, masked with zeros.
    stream.write_all(&[0x81, 0x82, 0, 0, 0, 0, b'h', b'i']).await.unwrap();
    stream.write_all(&[0x81, 0x82, 0, 0, 0, 0, b'h', b'o']).await.unwrap();
    let mut came = Vec::new();
    let frames = b"\x81\x03hi!\x81\x03ho!";
    let reads = async {
        while !came.ends_with(frames) {
            assert_ne!(stream.read_buf(&mut came).await.unwrap(), 0, "{came:?}");
        }
    };
    timeout(STUCK, reads).await.unwrap();
    assert!(came.starts_with(b"HTTP/1.1 101 "), "{came:?}");
}

#[derive(Clone)]
struct User(String);

/// Outside of the layer: what it puts in, the handler finds, and the other way round.
async fn around(mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(User("user".to_owned()));
    let mut response = next.run(request).await;
    let User(name) = response.extensions_mut().remove().unwrap();
    response.headers_mut().insert("x-user", name.parse().unwrap());
    response
}

#[tokio::test]
async fn extensions_and_addresses_go_along() {
    let handler = |ConnectInfo(peer): ConnectInfo<SocketAddr>, Extension(User(name))| async move {
        (Extension(User(name + "'s")), peer.to_string())
    };
    let routes = behind(Router::new().route("/", get(handler))).layer(from_fn(around));
    let mut stream =
        send(serve(routes).await, "GET / HTTP/1.1\nHost: x\nConnection: close\n\n").await;
    let here = stream.local_addr().unwrap().to_string();
    let (head, body) = answer(&mut stream).await;
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("x-user: user's"), "{head}");
    assert_eq!(body, here);
}

#[tokio::test]
async fn an_upload_is_read_as_it_comes() {
    let (begins, begun) = oneshot::channel();
    let begins = Arc::new(Mutex::new(Some(begins)));
    let handler = move |request: Request| async move {
        begins.lock().unwrap().take().unwrap().send(()).unwrap();
        let body = axum::body::to_bytes(request.into_body(), 1024).await;
        body.map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))
    };
    let address = serve(behind(Router::new().route("/", post(handler)))).await;
    let head = "POST / HTTP/1.1\nHost: x\nConnection: close\nContent-Length: 8\n\nhalf";
    let mut stream = send(address, head).await;
    begun.await.unwrap();
    stream.write_all(b"full").await.unwrap();
    assert_eq!(answer(&mut stream).await.1, "halffull");
}

#[tokio::test]
async fn a_client_that_hangs_up_ends_its_handler() {
    struct Ends(Option<oneshot::Sender<()>>);
    impl Drop for Ends {
        fn drop(&mut self) {
            let ended = self.0.take().unwrap();
            // As pools of connections do.
            tokio::spawn(async { ended.send(()).unwrap() });
        }
    }
    let (begins, begun) = oneshot::channel();
    let (ends, ended) = oneshot::channel();
    let given = Arc::new(Mutex::new(Some((begins, Ends(Some(ends))))));
    let handler = move || async move {
        let (begins, _ends) = given.lock().unwrap().take().unwrap();
        begins.send(()).unwrap();
        std::future::pending::<()>().await;
    };
    let address = serve(behind(Router::new().route("/", get(handler)))).await;
    let stream = send(address, "GET / HTTP/1.1\nHost: x\n\n").await;
    begun.await.unwrap();
    drop(stream);
    timeout(STUCK, ended).await.unwrap().unwrap();
}
