//! Which addresses may be connected to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which addresses may be connected to, judged after the name was resolved and again at every redirect.
///
/// A proxy that resolves names itself decides by its own rules what a name may lead to: then only addresses that stand in
/// a URL are judged here. The address of the proxy is not, because no URL chooses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// All but link-local addresses and those where clouds serve metadata and credentials: a URL that a user may choose
    /// must not read the secrets of the machine that fetches it.
    #[default]
    NotMetadata,
    /// All.
    Anywhere,
}

impl Reach {
    /// Why this address is out of reach.
    pub(crate) fn refusal(self, address: IpAddr) -> Option<&'static str> {
        if self == Self::Anywhere {
            return None;
        }
        match address {
            IpAddr::V4(address) => refusal_v4(address),
            IpAddr::V6(address) => refusal_v6(address),
        }
    }
}

fn refusal_v4(address: Ipv4Addr) -> Option<&'static str> {
    if address.is_link_local() {
        Some("a link-local address")
    } else if METADATA_V4.contains(&address) {
        Some("an address of cloud metadata")
    } else {
        None
    }
}

fn refusal_v6(address: Ipv6Addr) -> Option<&'static str> {
    let embedded = || {
        // NAT64 (RFC 6052): 64:ff9b::/96 leads to the IPv4 address in its last 32 bits.
        let bits = address.to_bits();
        let nat64 = (bits >> 32 == 0x0064_ff9b << 64).then(|| Ipv4Addr::from_bits((bits & 0xffff_ffff) as u32));
        address.to_ipv4_mapped().or(nat64)
    };
    if address.is_unicast_link_local() {
        Some("a link-local address")
    } else if address == METADATA_V6 {
        Some("an address of cloud metadata")
    } else {
        embedded().and_then(refusal_v4)
    }
}

/// Alibaba and Oracle; all others use 169.254.0.0/16.
const METADATA_V4: [Ipv4Addr; 2] = [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192)];
/// Amazon.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_out_of_reach_however_it_is_written() {
        let refused = [
            "169.254.169.254",
            "169.254.0.1",
            "100.100.100.200",
            "192.0.0.192",
            "fe80::1",
            "fd00:ec2::254",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
        ];
        for address in refused {
            let address = address.parse().unwrap();
            assert!(Reach::NotMetadata.refusal(address).is_some(), "{address}");
            assert!(Reach::Anywhere.refusal(address).is_none(), "{address}");
        }
    }

    #[test]
    fn private_and_public_addresses_are_in_reach() {
        for address in
            ["127.0.0.1", "10.0.0.1", "8.8.8.8", "100.100.100.201", "::1", "fd00::1", "2001:db8::1", "64:ff9b::808:808"]
        {
            let address = address.parse().unwrap();
            assert_eq!(Reach::NotMetadata.refusal(address), None, "{address}");
        }
    }
}
