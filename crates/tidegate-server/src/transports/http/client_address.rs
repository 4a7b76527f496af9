//! Where a forwarded request came from. What a header says counts only as far as proxies that we trust wrote it: everyone
//! can send `X-Forwarded-For`, and proxies append to it.

use std::net::IpAddr;

use axum::http::HeaderMap;
use ipnet::{IpNet, Ipv6Net};

use crate::config::Forwarding;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The client's address, as the key of a limit.
pub(super) fn key(forwarding: &Forwarding, headers: &HeaderMap, peer: IpAddr) -> String {
    match find(forwarding, headers, peer) {
        IpAddr::V4(address) => address.to_string(),
        // Who has one IPv6 address has a whole network of them.
        IpAddr::V6(address) => {
            let network = Ipv6Net::new_assert(address, forwarding.ipv6_prefix.min(128));
            network.trunc().to_string()
        }
    }
}

/// Whether this peer is a proxy whose word counts.
pub(super) fn is_trusted(forwarding: &Forwarding, peer: IpAddr) -> bool {
    let peer = peer.to_canonical();
    forwarding.hops.is_some_and(|hops| hops > 0) || forwarding.proxies.iter().any(|net: &IpNet| net.contains(&peer))
}

fn find(forwarding: &Forwarding, headers: &HeaderMap, peer: IpAddr) -> IpAddr {
    let peer = peer.to_canonical();
    if !is_trusted(forwarding, peer) {
        return peer;
    }
    // From the last one, which the proxy that asks us wrote, to the first, which anyone may have written.
    let lines = headers.get_all(FORWARDED_FOR).into_iter().rev();
    let said = lines.flat_map(|line| line.as_bytes().rsplit(|b| *b == b','));
    let mut client = peer;
    for (place, text) in said.enumerate() {
        // What can't be read was not written by a proxy of ours: the one before it is who we know.
        let Some(address) = read(text) else { return client };
        client = address;
        let is_last = match forwarding.hops {
            Some(hops) => place + 1 == hops,
            None => !forwarding.proxies.iter().any(|net| net.contains(&address)),
        };
        if is_last {
            return client;
        }
    }
    client
}

/// An address, perhaps with a port or in brackets.
fn read(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let bare = text.strip_prefix('[').and_then(|rest| rest.split(']').next());
    let address = bare.unwrap_or(text).parse::<IpAddr>().or_else(|_| {
        let (address, _port) = text.rsplit_once(':').unwrap_or((text, ""));
        address.parse()
    });
    address.ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::key;
    use crate::config::Forwarding;

    fn found(proxies: &[&str], hops: Option<usize>, said: &[&str], peer: &str) -> String {
        let proxies = proxies.iter().map(|net| net.parse().expect("a network")).collect();
        let forwarding = Forwarding { proxies, hops, is_said: true, ipv6_prefix: 64 };
        let headers = said
            .iter()
            .map(|line| (axum::http::HeaderName::from_static("x-forwarded-for"), line.parse().expect("a header")));
        key(&forwarding, &headers.collect(), peer.parse().expect("an address"))
    }

    #[test]
    fn a_forged_entry_counts_for_nothing() {
        let forged = ["6.6.6.6, 203.0.113.7"];
        assert_eq!(found(&["10.0.0.0/8"], None, &forged, "10.0.0.1"), "203.0.113.7");
        assert_eq!(found(&[], Some(1), &forged, "10.0.0.1"), "203.0.113.7");
        assert_eq!(
            found(&["10.0.0.0/8"], None, &forged, "192.0.2.1"),
            "192.0.2.1",
            "who is no proxy speaks for itself"
        );
        assert_eq!(found(&[], None, &forged, "10.0.0.1"), "10.0.0.1");
        assert_eq!(found(&["10.0.0.0/8"], None, &["6.6.6.6", "203.0.113.7, 10.1.1.1"], "10.0.0.1"), "203.0.113.7");
        assert_eq!(found(&[], Some(2), &["6.6.6.6, 203.0.113.7, 10.1.1.1"], "10.0.0.1"), "203.0.113.7");
        assert_eq!(found(&["10.0.0.0/8"], None, &["6.6.6.6, garbage, 10.9.9.9"], "10.0.0.1"), "10.9.9.9");
    }

    #[test]
    fn addresses_are_read_as_proxies_write_them() {
        for (said, expected) in [
            ("203.0.113.7:4711", "203.0.113.7"),
            ("[2001:db8:1:2:3::4]:443", "2001:db8:1:2::/64"),
            ("2001:db8:1:2:ffff::4", "2001:db8:1:2::/64"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
        ] {
            assert_eq!(found(&[], Some(1), &[said], "127.0.0.1"), expected);
        }
    }
}
