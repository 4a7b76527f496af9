//! [`ClientAddress`]: finds the address of a client.
//!
//! Every client can send `X-Forwarded-For`, and proxies append to it. Only the entries of trusted proxies count.

use std::{
    fmt,
    io::{self, Write as _},
    net::{IpAddr, Ipv4Addr},
};

use http::HeaderMap;
use ipnet::{IpNet, Ipv6Net};
use tidegate::Key;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// How to find a client's address: which proxies to trust, and how many bits of an IPv6 address to count.
///
/// ```
/// use tidegate_tower::ClientAddress;
///
/// let direct = ClientAddress::peer();
/// let behind_one_proxy = ClientAddress::behind_hops(1)?;
/// let behind_these = ClientAddress::behind(["10.0.0.0/8".parse()?]).with_ipv6_prefix(56)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAddress {
    trust: Trust,
    ipv6_prefix: u8,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Trust {
    None,
    /// The client's address is this number of entries from the end.
    Hops(usize),
    /// The client's address is the last one that is not in these networks.
    Proxies(Box<[IpNet]>),
}

impl Default for ClientAddress {
    fn default() -> Self {
        Self::peer()
    }
}

impl ClientAddress {
    pub(crate) const PEER: Self = Self { trust: Trust::None, ipv6_prefix: 64 };

    /// The peer address of the connection. Headers are ignored.
    pub fn peer() -> Self {
        Self::PEER
    }

    /// All requests pass this number of proxies, and each appends the address of its client to `X-Forwarded-For`. A
    /// client that can bypass the proxies can forge its address.
    ///
    /// # Errors
    /// If the number is 0: use [`peer`](Self::peer).
    pub fn behind_hops(proxies: usize) -> Result<Self, ClientAddressError> {
        if proxies == 0 {
            return Err(ClientAddressError::NoHops);
        }
        Ok(Self { trust: Trust::Hops(proxies), ..Self::peer() })
    }

    /// Proxies have these addresses. The client's address is the last one in `X-Forwarded-For` that is not a proxy's.
    /// The headers of any other peer are ignored.
    pub fn behind(proxies: impl IntoIterator<Item = IpNet>) -> Self {
        Self { trust: Trust::Proxies(proxies.into_iter().collect()), ..Self::peer() }
    }

    /// Counts IPv6 clients by this number of bits of their address; 64 by default. A client with one IPv6 address
    /// usually has a whole network.
    ///
    /// # Errors
    /// If `bits` is not within 1 to 128.
    pub fn with_ipv6_prefix(mut self, bits: u8) -> Result<Self, ClientAddressError> {
        if !(1..=128).contains(&bits) {
            return Err(ClientAddressError::Prefix { bits });
        }
        self.ipv6_prefix = bits;
        Ok(self)
    }

    /// Whether this peer is a trusted proxy.
    pub fn is_trusted(&self, peer: IpAddr) -> bool {
        match &self.trust {
            Trust::None => false,
            Trust::Hops(_) => true,
            Trust::Proxies(nets) => contains(nets, peer.to_canonical()),
        }
    }

    /// The client's address, if it is known.
    #[inline]
    pub fn find(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Option<IpAddr> {
        let peer = peer.map(|peer| peer.to_canonical());
        let is_client = |index: usize, address: &IpAddr| match &self.trust {
            Trust::None => true,
            Trust::Hops(hops) => index + 1 == *hops,
            Trust::Proxies(nets) => !contains(nets, *address),
        };
        match (&self.trust, peer) {
            (Trust::None, peer) => return peer,
            (Trust::Proxies(nets), Some(peer)) if !contains(nets, peer) => return Some(peer),
            (Trust::Proxies(_), None) => return None,
            _ => {}
        }
        // From the last entry, which the nearest proxy wrote, to the first, which any client may have written.
        let lines = headers.get_all(FORWARDED_FOR).into_iter().rev();
        let entries = lines.flat_map(|line| line.as_bytes().rsplit(|b| *b == b','));
        let mut client = peer;
        for (index, text) in entries.enumerate() {
            // A trusted proxy writes valid addresses, so the last address before this entry is the client's.
            let Some(address) = parse_entry(text) else { return client };
            client = Some(address);
            if is_client(index, &address) {
                break;
            }
        }
        client
    }

    /// The text that the address is counted by; for IPv6, the network.
    #[inline]
    pub fn text(&self, address: IpAddr) -> AddressText {
        let mut bytes = [0; AddressText::MAX_LEN];
        let mut rest = &mut bytes[..];
        // The buffer has room for the longest address.
        let _ = match address.to_canonical() {
            IpAddr::V4(address) => write_ipv4(&mut rest, address),
            IpAddr::V6(address) => write!(rest, "{}", Ipv6Net::new_assert(address, self.ipv6_prefix).trunc()),
        };
        let len = AddressText::MAX_LEN - rest.len();
        AddressText { bytes, len }
    }
}

/// Writes the same text as `Display`, in a fifth of the time. This is the usual key of a request.
fn write_ipv4(text: &mut impl io::Write, address: Ipv4Addr) -> io::Result<()> {
    let mut number = itoa::Buffer::new();
    let [first, rest @ ..] = address.octets();
    text.write_all(number.format(first).as_bytes())?;
    for octet in rest {
        text.write_all(b".")?;
        text.write_all(number.format(octet).as_bytes())?;
    }
    Ok(())
}

fn contains(nets: &[IpNet], address: IpAddr) -> bool {
    nets.iter().any(|net| net.contains(&address))
}

/// An address with an optional port, in optional brackets.
fn parse_entry(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let bare = text.strip_prefix('[').and_then(|rest| rest.split(']').next());
    let address = bare.unwrap_or(text).parse::<IpAddr>().or_else(|_| {
        let (address, _port) = text.rsplit_once(':').unwrap_or((text, ""));
        address.parse()
    });
    address.ok().map(|address| address.to_canonical())
}

/// An address or network as text, without an allocation: `203.0.113.7`, `2001:db8:1:2::/64`.
#[derive(Clone, Copy)]
pub struct AddressText {
    bytes: [u8; Self::MAX_LEN],
    len: usize,
}

impl AddressText {
    /// Eight groups of four digits, seven colons, a slash, three digits, and some reserve.
    const MAX_LEN: usize = 46;

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// The address as a key.
    pub fn key(&self) -> Key<'_> {
        Key::new(self.as_bytes()).unwrap_or_else(|_| unreachable!("an address is neither empty nor too long"))
    }

    /// The bytes of the text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl fmt::Debug for AddressText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a [`ClientAddress`] is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientAddressError {
    /// The number of proxies is 0.
    #[error("0 hops trust no proxy: use 1 or more, or ClientAddress::peer()")]
    NoHops,
    /// An IPv6 address does not have this number of bits.
    #[error("{bits} bits of an IPv6 address are out of range: use 1 to 128")]
    Prefix {
        /// The number of bits.
        bits: u8,
    },
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName};
    use ipnet::IpNet;

    use super::ClientAddress;

    fn behind(proxies: &[&str]) -> ClientAddress {
        ClientAddress::behind(proxies.iter().map(|net| net.parse::<IpNet>().expect("a network")))
    }

    fn hops(proxies: usize) -> ClientAddress {
        ClientAddress::behind_hops(proxies).expect("at least one")
    }

    /// Tests cases of forwarded addresses, the peer address, and the client's address.
    fn assert_clients<const N: usize>(cases: [(&ClientAddress, &[&str], &str, &str); N]) {
        for (client, forwarded, peer, expected) in cases {
            let line = |line: &&str| (HeaderName::from_static("x-forwarded-for"), line.parse().expect("a header"));
            let headers: HeaderMap = forwarded.iter().map(line).collect();
            let found = client.find(&headers, peer.parse().ok()).map(|address| client.text(address));
            let found = found.as_ref().map_or("unknown", |text| text.as_str());
            assert_eq!(found, expected, "{client:?} {forwarded:?} {peer}");
        }
    }

    #[test]
    fn forged_entries_are_ignored() {
        let (peer, proxies, nobody) = (ClientAddress::peer(), behind(&["10.0.0.0/8"]), behind(&[]));
        let forged: &[&str] = &["6.6.6.6, 203.0.113.7"];
        assert_clients([
            (&proxies, forged, "10.0.0.1", "203.0.113.7"),
            (&hops(1), forged, "10.0.0.1", "203.0.113.7"),
            (&proxies, forged, "192.0.2.1", "192.0.2.1"),
            (&peer, forged, "10.0.0.1", "10.0.0.1"),
            (&nobody, forged, "10.0.0.1", "10.0.0.1"),
            (&proxies, &["6.6.6.6", "203.0.113.7, 10.1.1.1"], "10.0.0.1", "203.0.113.7"),
            (&hops(2), &["6.6.6.6, 203.0.113.7, 10.1.1.1"], "10.0.0.1", "203.0.113.7"),
            (&proxies, &["6.6.6.6, garbage, 10.9.9.9"], "10.0.0.1", "10.9.9.9"),
        ]);
    }

    #[test]
    fn without_a_peer_address_only_a_hop_count_finds_the_client() {
        assert_clients([
            (&hops(1), &["203.0.113.7"], "a unix socket", "203.0.113.7"),
            (&hops(1), &[], "a unix socket", "unknown"),
            (&behind(&["10.0.0.0/8"]), &["203.0.113.7"], "a unix socket", "unknown"),
            (&ClientAddress::peer(), &["203.0.113.7"], "a unix socket", "unknown"),
        ]);
    }

    #[test]
    fn addresses_are_written_in_one_form_and_entries_may_have_ports_and_brackets() {
        let (peer, hop) = (ClientAddress::peer(), hops(1));
        let whole = ClientAddress::peer().with_ipv6_prefix(128).expect("in range");
        let longest = "abcd:abcd:abcd:abcd:abcd:abcd:abcd:abcd";
        assert_clients([
            (&hop, &["203.0.113.7:4711"], "127.0.0.1", "203.0.113.7"),
            (&hop, &["[2001:db8:1:2:3::4]:443"], "127.0.0.1", "2001:db8:1:2::/64"),
            (&hop, &["2001:db8:1:2:ffff::4"], "127.0.0.1", "2001:db8:1:2::/64"),
            (&hop, &["::ffff:203.0.113.7"], "127.0.0.1", "203.0.113.7"),
            (&whole, &[], longest, "abcd:abcd:abcd:abcd:abcd:abcd:abcd:abcd/128"),
        ]);
        for address in ["0.0.0.0", "1.20.255.9", "255.255.255.255", "10.0.99.100"] {
            assert_clients([(&peer, &[], address, address)]);
        }
    }

    #[test]
    fn errors_name_the_valid_values() {
        assert!(ClientAddress::behind_hops(0).expect_err("none").to_string().contains("peer()"));
        for bits in [0, 129] {
            let error = ClientAddress::peer().with_ipv6_prefix(bits).expect_err("out of range").to_string();
            assert!(error.contains(&bits.to_string()) && error.contains("1 to 128"), "{error}");
        }
    }
}
