//! What goes over the wire.

use dvcr_transport::{Client, Config, Request};
use fixtures::http::{Object, Reply, Server, Settings};

use super::{resource, sample, whole, with};

/// HT36.
#[tokio::test]
async fn the_url_goes_out_byte_for_byte() {
    let server = Server::start(|_| Reply::ok("x"));
    let targets = [
        "/a%2Bb+c/%7e~?sig=a%2Bb%3D&se=2026-09-01T00%3A00Z&SE=+%20",
        "/x/../y/./z//?",
        "/{\"json\"}|^?q='[]{}|\\^",
        "/ä?ö",
        "/?a#b",
    ];
    for target in targets {
        assert_eq!(whole(&resource(&server, target)).await, b"x");
    }
    let seen: Vec<_> = server.seen().into_iter().map(|seen| seen.target).collect();
    assert_eq!(seen[..4], targets[..4]);
    assert_eq!(seen[4], "/?a");
}

/// HT30.
#[tokio::test]
async fn headers_say_who_asks_and_that_nothing_is_encoded() {
    let server = Server::start(|_| Reply::ok("x"));
    let config = Config { headers: vec![("X-Auth-Token".into(), "token\n".into())], ..Config::default() };
    whole(&with(config, &server.url_by_name("localhost", "/x"))).await;
    let seen = &server.seen()[0];
    assert_eq!(seen.method, "GET");
    assert_eq!(seen.header("accept-encoding"), Some("identity"));
    assert_eq!(seen.header("host"), Some(format!("localhost:{}", server.address().port()).as_str()));
    assert_eq!(seen.header("x-auth-token"), Some("token"));
    assert!(seen.header("user-agent").unwrap().starts_with("millrace/"));
    assert_eq!(seen.header("range"), None);
    assert_eq!(seen.header("authorization"), None);
}

#[tokio::test]
async fn headers_of_the_user_take_the_place_of_ours() {
    let server = Server::start(|_| Reply::ok("x"));
    let headers = [("User-Agent", "mine"), ("Host", "virtual.example"), ("X-Two", "1"), ("X-Two", "2")];
    let headers = headers.map(|(name, value)| (name.into(), value.into())).to_vec();
    whole(&with(Config { headers, ..Config::default() }, &server.url("/"))).await;
    let seen = &server.seen()[0];
    let all = |name: &str| -> Vec<_> {
        seen.headers.iter().filter(|(given, _)| given == name).map(|(_, value)| value.as_str()).collect()
    };
    assert_eq!(all("user-agent"), ["mine"]);
    assert_eq!(all("host"), ["virtual.example"]);
    assert_eq!(all("x-two"), ["1", "2"]);
}

/// HT29.
#[tokio::test]
async fn credentials_come_from_the_configuration_or_the_url() {
    let server = Server::start(|_| Reply::ok("x"));
    let url = server.url("/").replace("http://", "http://Aladdin:open%20sesame@");
    whole(&with(Config::default(), &url)).await;
    let config = Config { user: Some("me\n".into()), password: Some("pass\n".into()), ..Config::default() };
    whole(&with(config, &url)).await;
    let seen = server.seen();
    assert_eq!(seen[0].header("authorization"), Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
    assert_eq!(seen[1].header("authorization"), Some("Basic bWU6cGFzcw=="));
}

#[tokio::test]
async fn ranges_share_a_connection() {
    let content = sample(100_000);
    let object = Object::new(content.clone());
    let server = Server::start(move |seen| object.answer(seen));
    let resource = resource(&server, "/");
    for start in [0_usize, 50_000, 99_999] {
        let mut body = resource.get(&Request::from(start as u64..start as u64 + 1)).await.unwrap().body;
        assert_eq!(body.next().await.unwrap().unwrap(), content[start..=start]);
    }
    assert_eq!((server.seen().len(), server.connections()), (3, 1));
}

#[tokio::test]
async fn a_body_that_is_not_read_holds_up_nobody() {
    let content = sample(4 << 20);
    let object = Object::new(content.clone());
    let server = Server::start(move |seen| object.answer(seen));
    let resource = resource(&server, "/");
    let unread = resource.get(&Request::default()).await.unwrap();
    assert_eq!(whole(&resource).await, content);
    drop(unread);
    assert_eq!(whole(&resource).await, content);
    // The second was reused; the first could not be.
    assert_eq!((server.seen().len(), server.connections()), (3, 2));
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_replaced() {
    let server = Server::start(|_| Reply::ok("abc").claim(3).cut());
    let resource = resource(&server, "/");
    for _ in 0..3 {
        assert_eq!(whole(&resource).await, b"abc");
    }
    assert_eq!((server.seen().len(), server.connections()), (3, 3));
}

/// HT40.
#[tokio::test]
async fn ipv6_literals_and_names_with_several_addresses_are_reached() {
    let settings = Settings { ip: "::1".parse().unwrap(), ..Settings::default() };
    let six = Server::with(settings, |_| Reply::ok("six"));
    assert_eq!(whole(&resource(&six, "/")).await, b"six");
    assert_eq!(six.seen()[0].header("host"), Some(format!("[::1]:{}", six.address().port()).as_str()));
    // `localhost` may be ::1 first, where nobody listens.
    let four = Server::start(|_| Reply::ok("four"));
    assert_eq!(whole(&with(Config::default(), &four.url_by_name("localhost", "/"))).await, b"four");
}

#[tokio::test]
async fn clients_are_shared_between_tasks() {
    let content = sample(1 << 20);
    let object = Object::new(content.clone());
    let server = Server::start(move |seen| object.answer(seen));
    let resource = Client::new(Config::default()).unwrap().resource(&server.url("/")).unwrap();
    let tasks: Vec<_> = (0..4_u64)
        .map(|part| {
            let resource = resource.clone();
            tokio::spawn(async move {
                let range = part << 18..(part + 1) << 18;
                super::read(resource.get(&Request::from(range)).await.unwrap()).await.unwrap()
            })
        })
        .collect();
    let mut bytes = Vec::new();
    for task in tasks {
        bytes.extend(task.await.unwrap());
    }
    assert_eq!(bytes, content);
}
