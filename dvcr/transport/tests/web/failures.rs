//! What goes wrong, and what is said about it.

use dvcr_transport::{Config, Kind, Request};
use fixtures::http::{Reply, Server};

use super::{failure, read, resource, whole, with};

#[tokio::test]
async fn a_refusal_is_told_with_status_and_words() {
    let server = Server::start(|seen| Reply::new(seen.target[1..].parse().unwrap()).body("<h1>So it is</h1>"));
    for (status, transient) in
        [(401, false), (403, false), (404, false), (410, false), (429, true), (500, true), (503, true)]
    {
        let path = format!("/{status}");
        let error = failure(&resource(&server, &path)).await;
        assert_eq!((error.kind(), error.is_transient()), (Kind::Status(status), transient));
        let text = error.to_string();
        assert!(text.starts_with(&format!("{}: the server answered {status} ", server.url(&path))), "{text}");
        assert!(text.contains("\"So it is\"") && !text.contains('\n'), "{text}");
    }
}

/// HT30.
#[tokio::test]
async fn no_secret_is_repeated() {
    let server = Server::start(|seen| {
        let repeated = match seen.target.split('?').next().unwrap() {
            "/query" => seen.target.clone(),
            "/decoded" => seen.target.replace("%2B", "+").replace("%26", "&amp;"),
            "/login" => seen.header("authorization").unwrap_or_default().to_owned(),
            _ => seen.header("x-auth-token").unwrap_or_default().to_owned(),
        };
        Reply::new(400).body(format!("you said {repeated}"))
    });
    let config = Config {
        headers: vec![("X-Auth-Token".into(), "s3cret-token".into())],
        user: Some("user".into()),
        password: Some("s3cret-password".into()),
        ..Config::default()
    };
    for path in ["/query?sig=s3cret-query", "/decoded?sig=%2Bs3cret%26", "/login", "/header"] {
        let url = server.url(path).replace("http://", "http://url-user:s3cret-url@");
        for config in [config.clone(), Config::default()] {
            let error = failure(&with(config, &url)).await;
            assert!(error.to_string().contains("(\"you said"), "{error}");
            let text = format!("{error} {error:?}");
            for secret in ["s3cret", "dXNlcjpzM2NyZXQtcGFzc3dvcmQ=", "dXJsLXVzZXI6czNjcmV0LXVybA=="] {
                assert!(!text.contains(secret), "{text}");
            }
        }
    }
}

#[tokio::test]
async fn nobody_listening_is_told_with_the_address() {
    let server = Server::start(|_| Reply::ok("x"));
    let (address, url) = (server.address(), server.url("/x?s3cret"));
    drop(server);
    let error = failure(&with(Config::default(), &url)).await;
    assert_eq!((error.kind(), error.is_transient()), (Kind::Connect, true));
    assert!(error.to_string().contains(&format!("{address} (connection refused)")), "{error}");
    assert!(!error.to_string().contains("s3cret"), "{error}");
}

#[tokio::test]
async fn a_connection_closed_before_the_answer_is_transient() {
    for reply in [Reply::raw(""), Reply::raw("HTTP/1.1 200 OK\r\ncontent-le")] {
        let server = Server::start(move |_| reply.clone());
        let error = failure(&resource(&server, "/")).await;
        assert_eq!((error.kind(), error.is_transient()), (Kind::Cut, true), "{error}");
        assert!(error.to_string().contains("before"), "{error}");
    }
}

#[tokio::test]
async fn what_is_not_http_is_told() {
    for bytes in ["SSH-2.0-OpenSSH_9.9\r\n", "\x15\x03\x01\x00\x02\x02\x50", "<html></html>"] {
        let server = Server::start(move |_| Reply::raw(bytes));
        let error = failure(&resource(&server, "/")).await;
        assert_eq!((error.kind(), error.is_transient()), (Kind::Protocol, false), "{error}");
        assert!(error.to_string().contains("not HTTP"), "{error}");
    }
}

#[tokio::test]
async fn a_cut_is_told_with_its_offset() {
    let server = Server::start(|seen| {
        let part = Reply::new(206).header("content-range", "bytes 1000-1999/5000").body(vec![7; 1000]);
        match seen.target.as_str() {
            "/cut" => part.fault_at(300, Reply::cut),
            "/reset" => part.fault_at(300, Reply::reset),
            _ => part.chunked().fault_at(300, Reply::cut),
        }
    });
    for path in ["/cut", "/reset", "/chunked"] {
        let mut answer = resource(&server, path).get(&Request::from(1000..2000)).await.unwrap();
        let error = loop {
            match answer.body.next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("{path} ended"),
                Err(error) => break error,
            }
        };
        assert_eq!((error.kind(), error.is_transient()), (Kind::Cut, true), "{error}");
        assert!(error.to_string().contains("at offset 1300 of 2000"), "{error}");
        assert!(error.to_string().starts_with(&server.url(path)), "{error}");
        assert!(error.to_string().contains(" from offset 1000: "), "{error}");
        assert_eq!((answer.body.offset(), answer.body.remaining()), (1300, Some(700)));
    }
}

#[tokio::test]
async fn a_transfer_goes_on_at_its_offset() {
    let content = super::sample(10_000);
    let object = fixtures::http::Object::new(content.clone());
    let server = Server::start(move |seen| object.answer(seen).fault_at(3000, Reply::cut));
    let resource = resource(&server, "/");
    let mut bytes = Vec::new();
    let mut request = Request::from(0..);
    while bytes.len() < content.len() {
        let mut answer = resource.get(&request).await.unwrap();
        let same = answer.validator.clone().unwrap();
        while let Ok(Some(more)) = answer.body.next().await {
            bytes.extend_from_slice(&more);
        }
        request = Request::from(answer.body.offset()..).same(same);
    }
    assert_eq!(bytes, content);
    assert_eq!(server.seen().len(), 4);
}

#[tokio::test]
async fn a_stall_ends_with_the_idle_timeout() {
    let server = Server::start(|_| Reply::ok(vec![7; 1000]).fault_at(300, Reply::stall));
    let mut answer = resource(&server, "/").get(&Request::from(0..)).await.unwrap();
    let mut received = 0;
    while received < 300 {
        received += answer.body.next().await.unwrap().unwrap().len();
    }
    // Nothing more comes, so time may leap.
    tokio::time::pause();
    let error = answer.body.next().await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (Kind::Stalled, true));
    assert!(error.to_string().contains("at offset 300 of 1000"), "{error}");
}

#[tokio::test]
async fn a_lost_error_page_is_no_matter() {
    let server = Server::start(|_| Reply::new(404).body("gone for good").fault_at(4, Reply::cut));
    let error = failure(&resource(&server, "/")).await;
    assert_eq!(error.kind(), Kind::Status(404));
}

#[tokio::test]
async fn a_long_error_page_is_read_in_part() {
    let server = Server::start(|_| Reply::new(500).body("words ".repeat(1 << 20)).claim(u64::MAX >> 1).stall());
    let error = failure(&resource(&server, "/")).await;
    assert_eq!(error.kind(), Kind::Status(500));
    assert!(error.to_string().len() < 300, "{error}");
}

#[tokio::test]
async fn an_odd_but_clear_head_is_understood() {
    let server = Server::start(|_| {
        Reply::raw("HTTP/1.1 200\r\nContent-Length : 3\r\nBad Header: x\r\nX-Folded: a\r\n b\r\n\r\nabc").stall()
    });
    assert_eq!(whole(&resource(&server, "/")).await, b"abc");
    let many = (0..400).fold(Reply::ok("abc"), |reply, number| reply.header(format!("x-{number}"), "x"));
    let server = Server::start(move |_| many.clone());
    assert_eq!(whole(&resource(&server, "/")).await, b"abc");
    let server = Server::start(|_| Reply::raw("HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd"));
    assert_eq!(failure(&resource(&server, "/")).await.kind(), Kind::Protocol);
}

#[tokio::test]
async fn a_body_longer_than_announced_ends_where_it_should() {
    let server = Server::start(|_| Reply::ok("abcdef").claim(3));
    let answer = resource(&server, "/").get(&Request::default()).await.unwrap();
    assert_eq!(read(answer).await.unwrap(), b"abc");
}

/// A server that says "more to come" for ever is left, and one that does so for a while is waited for.
#[tokio::test]
async fn interim_answers_are_no_answer_and_have_a_bound() {
    let hint = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n";
    let last = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc";
    let server = Server::start(move |_| Reply::raw(format!("{}{last}", hint.repeat(20))));
    assert_eq!(whole(&resource(&server, "/")).await, b"abc");
    let server = Server::start(move |_| Reply::raw(hint.repeat(10_000)).stall());
    let error = failure(&resource(&server, "/")).await;
    assert_eq!((error.kind(), error.is_transient()), (Kind::Protocol, false), "{error}");
    assert!(error.to_string().contains("more than 100 interim answers"), "{error}");
}
