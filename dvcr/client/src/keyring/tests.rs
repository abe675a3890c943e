use super::*;

fn find(keyring: &Keyring, host: &str, name: &str) -> Option<Login> {
    keyring.find(&Host::parse(host).unwrap(), &Name::parse(name).unwrap()).unwrap().cloned()
}

fn basic(user: &str, password: &str) -> Option<Login> {
    Some(Login::Basic { user: user.into(), password: password.into() })
}

#[test]
fn the_longest_key_that_fits_is_taken() {
    let keyring = Keyring::parse(
        r#"{"auths": {
            "r.example": {"username": "host", "password": "1"},
            "r.example/team": {"username": "team", "password": "2"},
            "r.example/team/app": {"username": "app", "password": "3"},
            "r.example:5000": {"username": "port", "password": "4"},
            "*.example": {"username": "any", "password": "5"}
        }}"#,
    )
    .unwrap();
    assert_eq!(find(&keyring, "r.example", "other"), basic("host", "1"));
    assert_eq!(find(&keyring, "r.example:443", "other"), basic("host", "1"));
    assert_eq!(find(&keyring, "r.example", "team"), basic("team", "2"));
    assert_eq!(find(&keyring, "r.example", "team/x"), basic("team", "2"));
    assert_eq!(find(&keyring, "r.example", "teams"), basic("host", "1"));
    assert_eq!(find(&keyring, "r.example", "team/app/x"), basic("app", "3"));
    assert_eq!(find(&keyring, "r.example:5000", "team"), basic("port", "4"));
    assert_eq!(find(&keyring, "s.example", "x"), basic("any", "5"));
    assert_eq!(find(&keyring, "s.t.example", "x"), None);
    assert_eq!(find(&keyring, "example", "x"), None);
    assert_eq!(find(&keyring, "r.example:5001", "x"), None);
}

#[test]
fn docker_hub_has_several_names() {
    for key in ["https://index.docker.io/v1/", "docker.io", "index.docker.io", "https://registry-1.docker.io/v2/"] {
        let keyring = Keyring::parse(&format!(r#"{{"auths": {{"{key}": {{"auth": "dTpwOnE="}}}}}}"#)).unwrap();
        assert_eq!(find(&keyring, "docker.io", "library/x"), basic("u", "p:q"), "{key}");
        assert_eq!(find(&keyring, "quay.io", "x"), None, "{key}");
    }
}

#[test]
fn tokens_are_told_apart() {
    let keyring = Keyring::parse(
        r#"{"auths": {
            "a.example": {"auth": "PHRva2VuPjpzZWNyZXQ=", "identitytoken": ""},
            "b.example": {"auth": "dTpw", "identitytoken": "id"},
            "c.example": {"registrytoken": "reg"},
            "d.example": {"username": "u", "password": "p", "auth": ""},
            "https://e.example/v2/": {"username": "u"}
        }, "HttpHeaders": {"User-Agent": "x"}, "currentContext": "y"}"#,
    )
    .unwrap();
    assert_eq!(find(&keyring, "a.example", "x"), Some(Login::Identity("secret".into())));
    assert_eq!(find(&keyring, "b.example", "x"), Some(Login::Identity("id".into())));
    assert_eq!(find(&keyring, "c.example", "x"), Some(Login::Bearer("reg".into())));
    assert_eq!(find(&keyring, "d.example", "x"), basic("u", "p"));
    assert_eq!(find(&keyring, "e.example", "x"), basic("u", ""));
    assert!(!format!("{keyring:?}").contains("secret"));
}

#[test]
fn the_old_form_is_read_too() {
    let keyring = Keyring::parse(r#"{"https://r.example": {"username": "u", "password": "p", "email": "e"}}"#).unwrap();
    assert_eq!(find(&keyring, "r.example", "x"), basic("u", "p"));
    assert_eq!(find(&Keyring::parse("{}").unwrap(), "r.example", "x"), None);
    let other = Keyring::only(Login::Bearer("t".into()));
    assert_eq!(find(&keyring.clone().or(other.clone()), "r.example", "x"), basic("u", "p"));
    assert_eq!(find(&keyring.or(other), "s.example", "x"), Some(Login::Bearer("t".into())));
}

#[test]
fn helpers_are_refused_by_name_where_they_are_needed() {
    let keyring = Keyring::parse(
        r#"{"auths": {"r.example": {}, "s.example": {"auth": "dTpw"}}, "credsStore": "desktop",
            "credHelpers": {"t.example": "ecr-login"}}"#,
    )
    .unwrap();
    let helper =
        |host: &str| keyring.find(&Host::parse(host).unwrap(), &Name::parse("x").unwrap()).unwrap_err().to_string();
    assert!(helper("r.example").contains("docker-credential-desktop"));
    assert!(helper("t.example").contains("docker-credential-ecr-login"));
    assert_eq!(find(&keyring, "s.example", "x"), basic("u", "p"));
    // Nobody is logged in there.
    assert_eq!(find(&keyring, "u.example", "x"), None);
}

#[test]
fn what_is_wrong_is_said_without_a_secret() {
    let texts = [
        "",
        "[]",
        "{\"auths\": []}",
        r#"{"auths": {"r.example": {"auth": "s3cret!"}}}"#,
        r#"{"auths": {"r.example": {"auth": "czNjcmV0"}}}"#,
        r#"{"auths": {"r.example": {"password": s3cret}}}"#,
    ];
    for text in texts {
        let error = Keyring::parse(text).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{text}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
    let error = Keyring::read(Path::new("/nonexistent/config.json")).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/config.json"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    assert!(Keyring::read(folder.path()).unwrap_err().to_string().contains(".dockerconfigjson"));
    std::fs::write(folder.path().join(".dockerconfigjson"), r#"{"auths": {"r.example": {"auth": "dTpw"}}}"#).unwrap();
    assert_eq!(find(&Keyring::read(folder.path()).unwrap(), "r.example", "x"), basic("u", "p"));
}
