//! The registry as clients see it that other people wrote.

use fixtures::peers::{STORIES, oci_client};
use fixtures::registry::{Config, Grant, Tokens};

fn dvcr() -> Config {
    Config::dvcr(env!("CARGO_BIN_EXE_dvcr"))
}

#[test]
fn skopeo_and_umoci() {
    let registry = dvcr().start();
    STORIES.iter().for_each(|story| story.play(&registry));
    // It ends well when it is asked to, and nothing was its own fault.
    let (succeeded, requests) = registry.finish();
    assert!(succeeded);
    let faults: Vec<_> = requests.iter().filter(|request| request.status >= 500).collect();
    assert!(faults.is_empty() && !requests.is_empty(), "{faults:?}");
}

#[test]
fn skopeo_and_umoci_over_tls_for_one_user() {
    let registry = dvcr().tls().login("eve", "secret").start();
    STORIES.iter().for_each(|story| story.play(&registry));
}

#[test]
fn skopeo_umoci_and_oci_client_with_tokens() {
    let tokens = Tokens::start(vec![Grant::to("eve", "secret", "peers/", &["pull", "push", "delete", "*"])]);
    let registry = dvcr().tokens(&tokens).login("eve", "secret").start();
    STORIES.iter().for_each(|story| story.play(&registry));
    oci_client(&registry, &["--referrers", "--no-mount"]);
    assert!(tokens.seen().iter().any(|seen| seen.target.contains("scope=repository")));
}

#[test]
fn the_crate_oci_client() {
    oci_client(&dvcr().start(), &["--referrers"]);
}

#[test]
fn the_crate_oci_client_knows_a_user() {
    oci_client(&dvcr().login("eve", "secret").start(), &["--referrers"]);
}
