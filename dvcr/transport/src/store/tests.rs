use super::*;

fn read(page: &str) -> Option<Refusal> {
    Refusal::read(&HeaderMap::new(), page.as_bytes(), |text| crate::answer::excerpt(text, ["hunter22"].into_iter()))
}

fn refusal(code: &str, rest: &str) -> Refusal {
    let page = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code>{rest}</Error>");
    read(&page).unwrap()
}

#[test]
fn code_and_message_are_shown_with_what_to_do() {
    let error = refusal("NoSuchKey", "<Message>The specified key doesn&apos;t exist.</Message><Key>a/b</Key>")
        .error(StatusCode::NOT_FOUND);
    assert_eq!((error.kind(), error.is_transient(), error.region()), (Kind::Status(404), false, None));
    assert_eq!(
        error.to_string(),
        "the server answered 404 Not Found (\"NoSuchKey: The specified key doesn't exist.\"): \
         check the name of the object; every character of it counts"
    );
    let error = refusal("SignatureDoesNotMatch", "<Message>No.</Message>").error(StatusCode::FORBIDDEN);
    assert!(error.to_string().ends_with("check the secret key"), "{error}");
    let error = refusal("RequestTimeTooSkewed", "").error(StatusCode::FORBIDDEN);
    assert!(error.to_string().contains("(\"RequestTimeTooSkewed\"): set the clock"), "{error}");
    let error = refusal("Novel", "<Message>Something else</Message>").error(StatusCode::CONFLICT);
    assert!(error.to_string().contains("(\"Novel: Something else\"): check the address"), "{error}");
}

#[test]
fn the_details_of_google_are_shown() {
    let page = "<?xml version='1.0' encoding='UTF-8'?><Error><Code>AccessDenied</Code><Message>Access denied.</Message>\
                <Details>Anonymous caller does not have storage.objects.get access</Details></Error>";
    let error = read(page).unwrap().error(StatusCode::FORBIDDEN).to_string();
    assert!(error.contains("AccessDenied: Access denied. Anonymous caller does not have"), "{error}");
}

#[test]
fn what_may_pass_is_transient_whatever_its_status() {
    for (code, status) in [("RequestTimeout", 400), ("SlowDown", 503), ("InternalError", 500), ("Novel", 503)] {
        let error = refusal(code, "").error(StatusCode::from_u16(status).unwrap());
        assert!(error.is_transient(), "{code}");
        assert!(error.to_string().ends_with("try again later"), "{error}");
    }
}

#[test]
fn the_region_of_a_bucket_is_learned() {
    let page = "<Message>the region 'us-east-1' is wrong; expecting 'eu-west-3'</Message><Region>eu-west-3</Region>";
    let error = refusal("AuthorizationQueryParametersError", page).error(StatusCode::BAD_REQUEST);
    assert_eq!(error.region(), Some("eu-west-3"));
    assert!(error.to_string().ends_with("the bucket is in the region eu-west-3: give --region eu-west-3"), "{error}");

    let headers = HeaderMap::from_iter([("x-amz-bucket-region".parse().unwrap(), "ap-south-1".parse().unwrap())]);
    let page = b"<Error><Code>PermanentRedirect</Code><Message>Elsewhere.</Message></Error>";
    let refusal = Refusal::read(&headers, page, |text| String::from_utf8_lossy(text).into_owned()).unwrap();
    assert_eq!(refusal.error(StatusCode::MOVED_PERMANENTLY).region(), Some("ap-south-1"));

    for region in ["evil.example/", "a b", "", "-x", "EU", "x@y"] {
        assert!(!super::is_region(region), "{region}");
    }
}

#[test]
fn other_pages_are_not_taken_for_it() {
    for page in [
        "",
        "<html><Error><Code>x</Code></Error></html>",
        "<?xml version='1.0'?><html><body>Code</body></html>",
        "<Error><Code></Code></Error>",
        "<Error><Code>two words</Code></Error>",
        "<Error><Code>NoSuchKey",
    ] {
        assert_eq!(read(page), None, "{page}");
    }
}

#[test]
fn secrets_are_not_repeated() {
    let error =
        refusal("InvalidToken", "<Message>The token hunter22 is no good</Message>").error(StatusCode::BAD_REQUEST);
    assert!(error.to_string().contains("(\"InvalidToken: The token\")"), "{error}");
    assert_eq!(read("<Error><Code>hunter22</Code></Error>"), None);
}
