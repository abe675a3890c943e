//! Pages of other origins.

use fixtures::http::{Call, Wire};

use crate::world::{World, creation};

#[test]
fn pages_of_allowed_origins_read_all_answers() {
    let world = World::folder(&["--cors-origin", "https://cloud.example", "--cors-origin", "https://other.example"]);
    let page = world.wire().header("Origin", "https://cloud.example");
    let asks = Call::new("OPTIONS", "/files")
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", "authorization,tus-resumable,upload-length");
    // Before the secret is known to be right, because browsers ask without it.
    for path in ["/files", "/files/no-such-upload", "/v1beta1/upload-async"] {
        let asks = Call::new("OPTIONS", path).header("Access-Control-Request-Method", "PATCH");
        let answer = page.send(&asks).unwrap();
        assert_eq!(answer.status, 204, "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("https://cloud.example"));
    }
    let answer = page.send(&asks).unwrap();
    assert_eq!(answer.header("access-control-allow-headers"), Some("authorization,tus-resumable,upload-length"));
    for (call, status) in [(creation(9), 201), (Call::new("HEAD", "/files/no-such-upload"), 404), (creation(0), 400)] {
        let answer = page.send(&call).unwrap();
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("access-control-allow-origin"), Some("https://cloud.example"));
        assert!(answer.header("access-control-expose-headers").unwrap().contains("Upload-Offset"));
        assert_eq!(answer.header("vary"), Some("Origin"));
    }
    let stranger = Wire::new(world.address).header("Origin", "https://evil.example");
    for call in [asks, Call::new("GET", "/files/no-such-upload")] {
        let answer = stranger.send(&call).unwrap();
        assert!(answer.header("access-control-allow-origin").is_none());
    }
}

#[test]
fn no_other_origin_is_allowed_by_itself() {
    let world = World::folder(&[]);
    let page = world.wire().header("Origin", "https://cloud.example");
    let asks = Call::new("OPTIONS", "/files").header("Access-Control-Request-Method", "POST");
    assert_eq!(page.send(&asks).unwrap().status, 403);
    let answer = page.send(&creation(9)).unwrap();
    assert!(!answer.headers.iter().any(|(name, _)| name.to_ascii_lowercase().starts_with("access-control")));
}
