//! What is connected to without a proxy: `NO_PROXY`.

use std::net::IpAddr;

use url::Host;

/// What is connected to directly.
#[derive(Clone, Debug, Default)]
pub(super) struct Exempt {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    what: What,
    /// `None` for every port.
    port: Option<u16>,
}

#[derive(Clone, Debug)]
enum What {
    All,
    /// This name, and all below it.
    Domain(String),
    /// Addresses whose first bits are these.
    Network(IpAddr, u32),
}

impl Exempt {
    /// Understands a list. Like everybody else it passes over what makes no sense: a mistake in one entry of a cluster's
    /// long list must not stop all work.
    pub(super) fn parse(list: &str) -> Self {
        let entries = list.split(|char: char| char == ',' || char.is_whitespace()).filter(|entry| !entry.is_empty());
        Self { rules: entries.filter_map(Rule::parse).collect() }
    }

    pub(super) fn has(&self, host: &Host<String>, port: u16) -> bool {
        self.rules.iter().any(|rule| rule.port.is_none_or(|only| only == port) && rule.what.has(host))
    }
}

impl Rule {
    fn parse(entry: &str) -> Option<Self> {
        if entry == "*" {
            return Some(Self { what: What::All, port: None });
        }
        if let Some(what) = network(entry) {
            return Some(Self { what, port: None });
        }
        let (name, port) = match entry.rsplit_once(':') {
            Some((name, port)) => (name, Some(port.parse().ok()?)),
            None => (entry, None),
        };
        let what = network(name).or_else(|| domain(name))?;
        Some(Self { what, port })
    }
}

impl What {
    fn has(&self, host: &Host<String>) -> bool {
        match (self, host) {
            (Self::All, _) => true,
            (Self::Domain(domain), Host::Domain(name)) => {
                let above = name.strip_suffix('.').unwrap_or(name).strip_suffix(domain.as_str());
                above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
            }
            (Self::Network(network, bits), Host::Ipv4(address)) => within(*network, *bits, (*address).into()),
            (Self::Network(network, bits), Host::Ipv6(address)) => within(*network, *bits, (*address).into()),
            (Self::Domain(_) | Self::Network(..), _) => false,
        }
    }
}

/// `10.0.0.0/8`, `10.1.2.3`, `fd00::/8`, `[::1]`.
fn network(text: &str) -> Option<What> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
        None => (text, None),
    };
    let address = address.strip_prefix('[').and_then(|address| address.strip_suffix(']')).unwrap_or(address);
    let address: IpAddr = address.parse().ok()?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(width);
    (bits <= width).then_some(What::Network(address, bits))
}

/// `example.com`, `.example.com` and `*.example.com` mean the same, as in curl.
fn domain(text: &str) -> Option<What> {
    let text = text.strip_prefix('*').unwrap_or(text);
    let text = text.strip_prefix('.').unwrap_or(text);
    match Host::parse(text.strip_suffix('.').unwrap_or(text)).ok()? {
        Host::Domain(name) => Some(What::Domain(name)),
        Host::Ipv4(address) => Some(What::Network(address.into(), 32)),
        Host::Ipv6(address) => Some(What::Network(address.into(), 128)),
    }
}

fn within(network: IpAddr, bits: u32, address: IpAddr) -> bool {
    // An IPv4 address may be written in IPv6.
    let address = if network.is_ipv4() { address.to_canonical() } else { address };
    let differing = match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => (network.to_bits() ^ address.to_bits()).leading_zeros(),
        (IpAddr::V6(network), IpAddr::V6(address)) => (network.to_bits() ^ address.to_bits()).leading_zeros(),
        _ => return false,
    };
    differing >= bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;

    fn exempts(list: &str, url: &str) -> bool {
        let address = Address::parse(url).unwrap();
        Exempt::parse(list).has(&address.origin().host, address.origin().port)
    }

    /// HT27, HT40.
    #[test]
    fn entries_mean_what_people_mean() {
        for (list, yes, no) in [
            ("*", &["http://a", "https://[::1]:8080"][..], &[][..]),
            ("", &[], &["http://a", "http://127.0.0.1"]),
            (" , ,", &[], &["http://a"]),
            (
                "example.com",
                &["http://example.com", "https://EXAMPLE.com.:444", "http://a.b.example.com"],
                &["http://badexample.com", "http://example.com.evil", "http://com"],
            ),
            (".example.com", &["http://example.com", "http://a.example.com"], &["http://aexample.com"]),
            ("*.example.com.", &["http://example.com", "http://a.example.com"], &["http://aexample.com"]),
            ("svc,.CLUSTER.local", &["http://registry.svc", "http://a.b.svc.cluster.local"], &["http://mysvc"]),
            ("a:8080", &["http://a:8080", "http://b.a:8080"], &["http://a", "https://a"]),
            ("a:80,b:443", &["http://a", "https://b"], &["https://a", "http://b"]),
            ("bücher.example", &["http://bücher.example"], &[]),
            ("localhost", &["http://localhost:1"], &["http://127.0.0.1:1"]),
            ("10.0.0.0/8", &["http://10.1.2.3", "http://[::ffff:10.1.2.3]"], &["http://11.0.0.1", "http://a"]),
            ("10.1.2.3/8", &["http://10.200.2.3"], &["http://11.1.2.3"]),
            ("0.0.0.0/0", &["http://1.2.3.4"], &["http://[::1]", "http://a"]),
            ("192.168.1.1", &["http://192.168.1.1:81"], &["http://192.168.1.2"]),
            ("192.168.1.1:81", &["http://192.168.1.1:81"], &["http://192.168.1.1"]),
            ("192.168.1.0/24:81", &["http://192.168.1.9:81"], &["http://192.168.1.9"]),
            ("fd00::/8", &["http://[fd12::1]"], &["http://[fe00::1]", "http://253.0.0.1"]),
            ("::1", &["http://[::1]:81"], &["http://[::2]"]),
            ("[::1]", &["http://[::1]:81"], &["http://[::2]"]),
            ("[::1]:81", &["http://[::1]:81"], &["http://[::1]:82"]),
            ("[fd00::]/8", &["http://[fd12::1]"], &[]),
            ("10.0.0.0/33,10.0.0.0/x,a:b:c,a:99999,!?,b", &["http://b"], &["http://10.0.0.0", "http://a"]),
        ] {
            for url in yes {
                assert!(exempts(list, url), "{list} {url}");
            }
            for url in no {
                assert!(!exempts(list, url), "{list} {url}");
            }
        }
    }
}
