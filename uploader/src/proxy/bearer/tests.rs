use std::fs;
use std::path::Path;

use fixtures::tool;
use hyper::header::HeaderValue;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair};
use serde_json::{Value, json};

use super::*;

/// A key of RSA, made by openssl, in the files of a folder: `private.der`, `public.pem` and `pkcs1.pem`.
fn key(dir: &Path, bits: u32) -> RsaKeyPair {
    let openssl = |args: &[&str]| {
        let output = tool("openssl").current_dir(dir).args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let bits = format!("rsa_keygen_bits:{bits}");
    openssl(&["genpkey", "-algorithm", "RSA", "-pkeyopt", &bits, "-out", "private.pem"]);
    openssl(&["pkcs8", "-topk8", "-nocrypt", "-in", "private.pem", "-outform", "DER", "-out", "private.der"]);
    openssl(&["pkey", "-in", "private.pem", "-pubout", "-out", "public.pem"]);
    openssl(&["rsa", "-in", "private.pem", "-RSAPublicKey_out", "-out", "pkcs1.pem"]);
    RsaKeyPair::from_pkcs8(&fs::read(dir.join("private.der")).unwrap()).unwrap()
}

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn signed(key: &RsaKeyPair, how: &'static dyn RsaEncoding, header: &Value, claims: &Value) -> String {
    let signed = format!("{}.{}", part(header), part(claims));
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(how, &SystemRandom::new(), signed.as_bytes(), &mut signature).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn claims() -> Value {
    json!({
        "iss": "cdi-apiserver", "iat": 1000, "nbf": 1000, "exp": 1300,
        "operation": "Upload", "name": "disk", "namespace": "images",
        "resource": { "group": "", "version": "v1", "resource": "persistentvolumeclaims" },
    })
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

#[test]
fn tokens_are_judged() {
    let dir = tempfile::tempdir().unwrap();
    let key = key(dir.path(), 2048);
    let tokens = Tokens::file(dir.path().join("public.pem")).unwrap();
    let ps256 = json!({ "alg": "PS256" });
    let sign = |claims: &Value| signed(&key, &RSA_PSS_SHA256, &ps256, claims);
    let object = Object { namespace: "images".into(), name: "disk".into() };
    for now in [990, 1000, 1150, 1310] {
        assert_eq!(tokens.verify(&sign(&claims()), at(now)), Ok(object.clone()), "{now}");
    }
    let status = |token: &str, now| tokens.verify(token, at(now)).unwrap_err().status.as_u16();
    assert_eq!(status(&sign(&claims()), 989), 401, "not yet");
    assert_eq!(status(&sign(&claims()), 1311), 401, "expired");
    let with = |name: &str, value: Value| {
        let mut claims = claims();
        claims[name] = value;
        status(&sign(&claims), 1100)
    };
    for (name, value, wanted) in [
        ("iss", json!("somebody"), 401),
        ("iss", Value::Null, 401),
        ("aud", json!("registry"), 401),
        ("exp", Value::Null, 401),
        ("exp", json!("1300"), 401),
        ("nbf", json!(1200), 401),
        ("iat", json!(1200), 401),
        ("operation", json!("Clone"), 400),
        ("operation", Value::Null, 400),
        ("name", json!(""), 400),
        ("namespace", json!(""), 400),
        ("namespace", Value::Null, 400),
        ("resource", json!({ "resource": "secrets" }), 400),
        ("resource", json!({ "group": "apps", "resource": "persistentvolumeclaims" }), 400),
        ("resource", Value::Null, 400),
    ] {
        assert_eq!(with(name, value.clone()), wanted, "{name} {value}");
    }
}

#[test]
fn forged_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let key = key(dir.path(), 2048);
    let pem = fs::read_to_string(dir.path().join("public.pem")).unwrap();
    let tokens = Tokens::text(&pem).unwrap();
    let (ps256, hs256, none) = (json!({ "alg": "PS256" }), json!({ "alg": "HS256" }), json!({ "alg": "none" }));
    let good = signed(&key, &RSA_PSS_SHA256, &ps256, &claims());
    let (front, signature) = good.rsplit_once('.').unwrap();
    let other = self::key(tempfile::tempdir().unwrap().path(), 2048);
    // The public key is what everybody knows, and so no secret.
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, pem.as_bytes());
    let hashed = format!("{}.{}", part(&hs256), part(&claims()));
    let hashed = format!("{hashed}.{}", URL_SAFE_NO_PAD.encode(ring::hmac::sign(&secret, hashed.as_bytes())));
    let mut elsewhere = claims();
    elsewhere["namespace"] = json!("kube-system");
    for (what, token) in [
        ("none", format!("{}.{}.", part(&none), part(&claims()))),
        ("none with a signature", format!("{}.{}.{signature}", part(&none), part(&claims()))),
        ("HS256 with the public key", hashed),
        ("RS256", signed(&key, &RSA_PKCS1_SHA256, &json!({ "alg": "RS256" }), &claims())),
        ("RS256 that says PS256", signed(&key, &RSA_PKCS1_SHA256, &ps256, &claims())),
        ("PS256 that says RS256", signed(&key, &RSA_PSS_SHA256, &json!({ "alg": "RS256" }), &claims())),
        ("another key", signed(&other, &RSA_PSS_SHA256, &ps256, &claims())),
        ("crit", signed(&key, &RSA_PSS_SHA256, &json!({ "alg": "PS256", "crit": ["b64"] }), &claims())),
        ("other claims", format!("{}.{}.{signature}", part(&ps256), part(&elsewhere))),
        ("no signature", front.to_owned()),
        ("an empty signature", format!("{front}.")),
        ("half a signature", format!("{front}.{}", &signature[..signature.len() / 2])),
        ("padding", format!("{good}=")),
        ("no claims", signed(&key, &RSA_PSS_SHA256, &ps256, &json!("claims"))),
        ("garbage", "garbage".to_owned()),
        ("dots", "..".to_owned()),
        ("nothing", String::new()),
        ("huge", "a".repeat(20_000)),
    ] {
        let refusal = tokens.verify(&token, at(1100)).unwrap_err();
        assert_eq!((refusal.status.as_u16(), refusal.reason), (401, "Unauthorized"), "{what}");
        assert!(!refusal.message.contains("kube-system"), "{what}: {}", refusal.message);
    }
    assert!(tokens.verify(&good, at(1100)).is_ok());
}

#[test]
fn keys_of_both_kinds_and_only_strong_ones() {
    let dir = tempfile::tempdir().unwrap();
    let key = key(dir.path(), 2048);
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    let token = signed(&key, &RSA_PSS_SHA256, &json!({ "alg": "PS256" }), &claims());
    let (spki, pkcs1) = (read("public.pem"), read("pkcs1.pem"));
    assert!(spki.contains("BEGIN PUBLIC KEY") && pkcs1.contains("BEGIN RSA PUBLIC KEY"));
    for pem in [&spki, &pkcs1, &format!("{spki}{pkcs1}"), &spki.replace('\n', "\r\n")] {
        assert!(Tokens::text(pem).unwrap().verify(&token, at(1100)).is_ok(), "{pem}");
    }
    let weak = tempfile::tempdir().unwrap();
    let pem = rcgen::KeyPair::generate().unwrap().public_key_pem();
    fs::write(weak.path().join("ec.pem"), pem).unwrap();
    let output = tool("openssl")
        .current_dir(weak.path())
        .args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024", "-out", "private.pem"])
        .output()
        .unwrap();
    assert!(output.status.success());
    let output = tool("openssl")
        .current_dir(weak.path())
        .args(["pkey", "-in", "private.pem", "-pubout", "-out", "weak.pem"])
        .output()
        .unwrap();
    assert!(output.status.success());
    for file in ["ec.pem", "weak.pem", "private.pem", "none.pem"] {
        assert_eq!(Tokens::file(weak.path().join(file)).unwrap_err().kind(), Kind::Usage, "{file}");
    }
    for pem in ["", "-----BEGIN PUBLIC KEY-----\n????\n-----END PUBLIC KEY-----", "-----BEGIN PUBLIC KEY-----\nMAA="] {
        assert_eq!(Tokens::text(pem).unwrap_err().kind(), Kind::Usage, "{pem}");
    }
}

#[test]
fn the_header() {
    let of = |values: &[&'static str]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_static(value));
        }
        token(&headers).map(str::to_owned).map_err(|refusal| refusal.status.as_u16())
    };
    for good in ["Bearer a.b-c_d", "bearer a.b-c_d", "BEARER   a.b-c_d"] {
        assert_eq!(of(&[good]), Ok("a.b-c_d".to_owned()), "{good}");
    }
    for wrong in ["", "Bearer", "Bearer ", "Basic a", "a.b.c", "Bearer a b", "Bearer a,b", "Bearer \"a\""] {
        assert_eq!(of(&[wrong]), Err(400), "{wrong}");
    }
    assert_eq!((of(&[]), of(&["Bearer a", "Bearer b"])), (Err(400), Err(400)));
}
