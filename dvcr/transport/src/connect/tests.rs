use std::future::pending;

use tokio::time::{Instant, sleep};

use super::*;
use crate::side::Side;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn addresses(count: u8) -> VecDeque<SocketAddr> {
    (1..=count).map(|last| ([10, 0, 0, last], 80).into()).collect()
}

fn last_byte(address: SocketAddr) -> u64 {
    match address.ip() {
        IpAddr::V4(address) => u64::from(address.octets()[3]),
        IpAddr::V6(_) => 0,
    }
}

/// HT40.
#[test]
fn families_alternate_from_the_preferred_one() {
    let given = ["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "2.2.2.2:1"].map(address);
    let order = ["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"].map(address);
    assert_eq!(interleaved(given.to_vec()), order);
    assert_eq!(interleaved(given[3..].to_vec()), &given[3..]);
    assert_eq!(interleaved(Vec::new()), []);
}

#[tokio::test(start_paused = true)]
async fn a_silent_address_delays_the_next_by_a_moment_only() {
    let begin = Instant::now();
    let attempt = |address| async move {
        if last_byte(address) < 3 {
            pending::<()>().await;
        }
        Ok(address)
    };
    let (connected, peer) = race(addresses(4), attempt).await.unwrap();
    assert_eq!((last_byte(connected), last_byte(peer)), (3, 3));
    assert_eq!(begin.elapsed(), 2 * ATTEMPT_DELAY);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_starts_the_next_at_once() {
    let begin = Instant::now();
    let attempt = |address| async move {
        if last_byte(address) < 3 { Err(io::ErrorKind::ConnectionRefused.into()) } else { Ok(()) }
    };
    assert_eq!(last_byte(race(addresses(3), attempt).await.unwrap().1), 3);
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_first_success_wins_even_if_it_began_first() {
    let attempt = |address| async move {
        sleep(Duration::from_millis(if last_byte(address) == 1 { 400 } else { 10_000 })).await;
        Ok(())
    };
    let begin = Instant::now();
    assert_eq!(last_byte(race(addresses(3), attempt).await.unwrap().1), 1);
    assert_eq!(begin.elapsed(), Duration::from_millis(400));
}

#[tokio::test(start_paused = true)]
async fn every_failure_is_told() {
    let attempt = |address| async move {
        sleep(Duration::from_secs(last_byte(address))).await;
        Err::<(), _>(io::Error::other("no"))
    };
    let failures = race(addresses(3), attempt).await.unwrap_err();
    assert_eq!(failures.iter().map(|(address, _)| last_byte(*address)).collect::<Vec<_>>(), [1, 2, 3]);
}

/// HT34.
#[test]
fn only_a_name_that_does_not_exist_is_final() {
    let error = |words: &str| unresolved("host", &io::Error::other(words));
    let words = "failed to lookup address information: Name or service not known";
    assert!(!error(words).is_transient());
    assert_eq!(error(words).to_string(), "there is no host named host: check the address");
    let words = "failed to lookup address information: Temporary failure in name resolution";
    assert!(error(words).is_transient());
    assert!(error(words).to_string().ends_with("can't be resolved now: Temporary failure in name resolution"));
    assert_eq!(error(words).kind(), Kind::Dns);
}

fn connector(reach: Reach) -> Connector {
    let trust = |insecure| Trust::new(&[], insecure, Side::Source).unwrap();
    let (trust, unproved) = (trust(false), trust(true));
    Connector { trust, unproved, unproved_for: Vec::new(), reach, timeout: Duration::from_secs(5) }
}

#[test]
fn addresses_out_of_reach_are_passed_over_or_refused() {
    let metadata = address("169.254.169.254:80");
    let public = address("8.8.8.8:80");
    assert_eq!(connector(Reach::NotMetadata).reachable(vec![metadata, public]).unwrap(), [public]);
    assert_eq!(connector(Reach::Anywhere).reachable(vec![metadata]).unwrap(), [metadata]);
    let error = connector(Reach::NotMetadata).reachable(vec![metadata]).unwrap_err();
    assert_eq!(error.kind(), Kind::Forbidden);
    assert!(error.to_string().contains("169.254.169.254"));
}

/// The words of this machine's resolver, on which [`unresolved`] depends.
#[tokio::test]
async fn a_name_that_does_not_exist_is_recognised() {
    let origin = crate::Address::parse("http://does-not-exist.invalid/").unwrap().origin().clone();
    let error = connector(Reach::NotMetadata).resolve(&origin.host, origin.port).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Dns);
    println!("{error}");
}
