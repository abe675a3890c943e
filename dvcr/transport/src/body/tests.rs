use std::net::{Ipv4Addr, SocketAddr};

use hyper::{HeaderMap, body::Body as _};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::Instant;

use super::*;
use crate::Address;
use crate::connection::Peer;

const IDLE: Duration = Duration::from_secs(30);

/// A body whose server has sent `answer` and can send more; `start` and `expected` as a range would set them.
async fn body(answer: &[u8], start: u64, expected: Option<u64>) -> (Body, DuplexStream) {
    let (ours, mut theirs) = duplex(1 << 20);
    let mut connection = Connection::http1(ours, peer()).await.unwrap();
    let address = Address::parse("http://host/x").unwrap();
    let answered = async {
        // An answer before the request would be none.
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            theirs.read_buf(&mut request).await.unwrap();
        }
        theirs.write_all(answer).await.unwrap();
    };
    let (response, ()) = tokio::join!(connection.get(&address, HeaderMap::new()), answered);
    let incoming = response.unwrap().unwrap().into_body();
    let expected = expected.or(incoming.size_hint().exact());
    let route = Route { origin: address.origin().clone(), proxy: None };
    let open = Open { incoming, connection, route, pool: Arc::default() };
    (Body::new(open, "http://host/x".into(), IDLE, start, expected), theirs)
}

fn peer() -> Peer {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 80)).into()
}

async fn rest(body: &mut Body) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(more) = body.next().await? {
        bytes.extend_from_slice(&more);
    }
    Ok(bytes)
}

/// HT08.
#[tokio::test(start_paused = true)]
async fn silence_is_an_error_that_names_the_offset() {
    let (mut body, _server) = body(b"HTTP/1.1 206 X\r\ncontent-length: 100\r\n\r\nabcdefgh", 1000, Some(100)).await;
    assert_eq!(body.next().await.unwrap().unwrap(), "abcdefgh");
    let begin = Instant::now();
    let error = body.next().await.unwrap_err();
    assert_eq!(begin.elapsed(), IDLE);
    assert_eq!((error.kind(), error.is_transient()), (Kind::Stalled, true));
    let words =
        "http://host/x: no data from 127.0.0.1:80 for 30s, at offset 1008 of 1100: server or network stand still";
    assert_eq!(error.to_string(), words);
    assert_eq!((body.offset(), body.remaining()), (1008, Some(92)));
    assert_eq!(body.next().await.unwrap_err().to_string(), words);
}

/// HT12.
#[tokio::test(start_paused = true)]
async fn slow_progress_is_progress() {
    let (mut body, mut server) = body(b"HTTP/1.1 200 X\r\ncontent-length: 81921\r\n\r\n", 0, None).await;
    let begin = Instant::now();
    tokio::spawn(async move {
        for part in [4096; 20].into_iter().chain([1]) {
            tokio::time::sleep(IDLE - Duration::from_secs(1)).await;
            server.write_all(&vec![b'x'; part]).await.unwrap();
        }
    });
    assert_eq!(rest(&mut body).await.unwrap(), [b'x'; 81921]);
    assert_eq!(begin.elapsed(), 21 * (IDLE - Duration::from_secs(1)));
}

/// A server that sends a byte now and then ("slowloris") keeps nobody; what it sent is not lost.
#[tokio::test(start_paused = true)]
async fn a_trickle_is_a_stall() {
    let (mut body, mut server) = body(b"HTTP/1.1 200 X\r\ncontent-length: 100000\r\n\r\n", 0, None).await;
    let begin = Instant::now();
    tokio::spawn(async move {
        // Until nobody listens.
        while server.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let error = rest(&mut body).await.map(|bytes| bytes.len()).unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (Kind::Stalled, true));
    assert_eq!(begin.elapsed(), IDLE);
    assert!((29..=31).contains(&body.offset()), "{error}");
    assert!(error.to_string().contains("bytes from 127.0.0.1:80 in 30s, at offset"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_not_a_stall() {
    let (mut body, mut server) = body(b"HTTP/1.1 200 X\r\ncontent-length: 4\r\n\r\nab", 0, None).await;
    assert_eq!(body.next().await.unwrap().unwrap(), "ab");
    server.write_all(b"cd").await.unwrap();
    tokio::time::sleep(100 * IDLE).await;
    assert_eq!(body.next().await.unwrap().unwrap(), "cd");
    assert_eq!(body.next().await.unwrap(), None);
    assert_eq!(body.next().await.unwrap(), None);
}

#[tokio::test]
async fn an_early_end_is_a_cut_at_every_byte() {
    let head = "HTTP/1.1 200 X\r\ncontent-length: 5\r\n\r\n";
    for cut in 0..5_u32 {
        let answer = format!("{head}{}", &"abcde"[..cut as usize]);
        let (mut body, server) = body(answer.as_bytes(), 0, None).await;
        drop(server);
        let error = rest(&mut body).await.unwrap_err();
        assert_eq!((error.kind(), error.is_transient()), (Kind::Cut, true), "{cut}");
        assert!(error.to_string().contains(&format!("at offset {cut} of 5")), "{error}");
        assert_eq!(body.offset(), u64::from(cut));
    }
}

#[tokio::test]
async fn chunks_without_their_last_one_are_a_cut() {
    let whole = "HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    let (mut complete, _server) = body(whole.as_bytes(), 0, None).await;
    assert_eq!(rest(&mut complete).await.unwrap(), b"abcde");
    let head = whole.find("3\r\n").unwrap();
    for cut in head..whole.len() {
        let (mut body, server) = body(&whole.as_bytes()[..cut], 0, None).await;
        drop(server);
        let error = rest(&mut body).await.unwrap_err();
        assert_eq!((error.kind(), error.is_transient()), (Kind::Cut, true), "{cut}: {error}");
        assert!(error.to_string().contains("at offset"), "{error}");
    }
}

#[tokio::test]
async fn a_chunked_part_must_be_as_long_as_its_range() {
    let answer = b"HTTP/1.1 206 X\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let (mut short, _server) = body(answer, 10, Some(4)).await;
    assert_eq!(short.next().await.unwrap().unwrap(), "abc");
    let error = short.next().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Cut);
    assert!(error.to_string().contains("at offset 13 of 14"), "{error}");
    let (mut long, _server) = body(answer, 10, Some(2)).await;
    let error = long.next().await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (Kind::Protocol, false));
}

#[tokio::test]
async fn without_a_length_the_end_is_the_end() {
    let (mut body, server) = body(b"HTTP/1.0 200 X\r\n\r\nabc", 0, None).await;
    drop(server);
    assert_eq!(body.remaining(), None);
    assert_eq!(rest(&mut body).await.unwrap(), b"abc");
}

#[tokio::test]
async fn only_a_connection_read_to_its_end_is_kept() {
    let whole = b"HTTP/1.1 200 X\r\ncontent-length: 3\r\n\r\nabc";
    let (mut body, _server) = body(whole, 0, None).await;
    let State::Open(open) = &body.state else { panic!("not open") };
    let (pool, route) = (Arc::clone(&open.pool), open.route.clone());
    assert!(pool.take(&route).is_none());
    // The last byte is enough; nobody needs to ask for the end.
    assert_eq!(body.next().await.unwrap().unwrap(), "abc");
    assert!(pool.take(&route).is_some());
}
