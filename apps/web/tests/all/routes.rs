//! Each route under each way to run it, and what clients get wrong.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use curtail::pool::Pool;
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;
use web::{Chosen, How};

const ALL: [How; 3] = [How::None, How::SpawnBlocking, How::Curtail];

fn chosen(how: How) -> Chosen {
    how.apply(web::site().unwrap(), Pool::builder().workers(2)).unwrap()
}

async fn answer(site: &Router, request: Request<Body>) -> (StatusCode, String) {
    let response = site.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn get(site: &Router, path: &str) -> (StatusCode, String) {
    answer(site, Request::get(path).body(Body::empty()).unwrap()).await
}

fn echo(text: &str) -> Request<Body> {
    let request = Request::post("/echo").header(header::CONTENT_TYPE, "application/json");
    request.body(Body::from(text.to_owned())).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_route_answers_the_same_wherever_it_runs() {
    for how in ALL {
        let Chosen { site, pool } = chosen(how);
        let (status, text) = answer(&site, echo(r#"{"a": [1, null]}"#)).await;
        assert_eq!((status, text.as_str()), (StatusCode::OK, r#"{"a":[1,null]}"#), "{how:?}");

        let (status, page) = get(&site, "/page?rows=30").await;
        assert_eq!((status, page.matches("<tr").count()), (StatusCode::OK, 30), "{how:?}");
        assert!(page.contains("ITEM &lt;7&gt;"), "what is in a name is no markup: {page}");

        let (status, found) = get(&site, "/search?pattern=%5Ebergan%20").await;
        assert_eq!((status, found.trim().parse::<u32>()), (StatusCode::OK, Ok(0)), "{how:?}");
        let (status, found) = get(&site, "/search").await;
        assert!(status == StatusCode::OK && found.trim().parse::<u32>().unwrap() > 100, "{found}");

        let (status, best) = get(&site, "/report?customers=3").await;
        let best: Vec<Value> = serde_json::from_str(&best).unwrap();
        assert_eq!((status, best.len()), (StatusCode::OK, 3), "{how:?}");
        assert!(best[0]["cents"].as_u64() > Some(100_000), "{best:?}");
        let cents = |at: usize| best[at]["cents"].as_u64().unwrap();
        assert!(cents(0) >= cents(1) && cents(1) >= cents(2));

        if let Some(pool) = pool {
            let stats = pool.stats();
            assert_eq!((stats[0].completed, stats[1].completed), (1, 4));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_gets_wrong_is_told_to_it() {
    for how in ALL {
        let site = chosen(how).site;
        for path in
            ["/page?rows=1000000", "/page?rows=-1", "/search?pattern=(", "/report?customers=x"]
        {
            let (status, text) = get(&site, path).await;
            assert!(status == StatusCode::BAD_REQUEST && !text.is_empty(), "{path}: {status}");
        }
        let (status, _) = get(&site, "/search?pattern=(((a%7B1000%7D)%7B1000%7D)%7B1000%7D)").await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "a pattern may not take all memory");
        assert_eq!(answer(&site, echo("{")).await.0, StatusCode::BAD_REQUEST);
        assert_eq!(get(&site, "/no").await.0, StatusCode::NOT_FOUND);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_requests_at_a_time_on_every_kind() {
    for how in ALL {
        let site = chosen(how).site;
        let paths = ["/page?rows=100", "/search?pattern=an", "/report", "/echo"];
        let asked = (0..32).map(|n| {
            let (site, path) = (site.clone(), paths[n % paths.len()]);
            tokio::spawn(async move {
                if path == "/echo" {
                    answer(&site, echo("7")).await
                } else {
                    get(&site, path).await
                }
            })
        });
        let asked: Vec<_> = asked.collect();
        let mut answers = Vec::new();
        for answer in asked {
            let (status, text) = answer.await.unwrap();
            assert_eq!(status, StatusCode::OK, "{how:?}: {text}");
            answers.push(text);
        }
        let same = |n: usize| answers[n..].iter().step_by(paths.len()).all(|a| *a == answers[n]);
        assert!((0..paths.len()).all(same), "{how:?}");
    }
}
