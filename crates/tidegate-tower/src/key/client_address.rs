//! [`ClientAddress`]: where a request came from. What a header says counts only as far as proxies that we trust wrote it: everyone
//! can send `X-Forwarded-For`, and proxies append to it.

use std::{
    fmt::{self, Write as _},
    net::{IpAddr, Ipv4Addr},
};

use http::HeaderMap;
use ipnet::{IpNet, Ipv6Net};
use tidegate::Key;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// How the client's address is found: whose word about it counts, and how much of it.
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
    Nobody,
    /// The client is so many places from the end.
    Hops(usize),
    /// The client is the last one that is none of these.
    Proxies(Box<[IpNet]>),
}

impl Default for ClientAddress {
    fn default() -> Self {
        Self::peer()
    }
}

impl ClientAddress {
    /// The address at the other end of the connection, whatever headers say.
    pub fn peer() -> Self {
        Self { trust: Trust::Nobody, ipv6_prefix: 64 }
    }

    /// The service is reached through so many proxies only, each of which appends to `X-Forwarded-For` where its request came
    /// from: the client is so many places from the end. Who can reach the service around them can say anything.
    ///
    /// # Errors
    /// If there are none: that is [`peer`](Self::peer).
    pub fn behind_hops(proxies: usize) -> Result<Self, ClientAddressError> {
        if proxies == 0 {
            return Err(ClientAddressError::NoHops);
        }
        Ok(Self { trust: Trust::Hops(proxies), ..Self::peer() })
    }

    /// Proxies have these addresses: the client is the last one in `X-Forwarded-For` that is none of them. Whoever else
    /// connects speaks for itself only.
    pub fn behind(proxies: impl IntoIterator<Item = IpNet>) -> Self {
        Self { trust: Trust::Proxies(proxies.into_iter().collect()), ..Self::peer() }
    }

    /// The same, with IPv6 clients counted by so many bits of their address; 64 if unsaid. Who has one IPv6 address has a
    /// whole network of them.
    ///
    /// # Errors
    /// If it is not within 1 to 128.
    pub fn with_ipv6_prefix(mut self, bits: u8) -> Result<Self, ClientAddressError> {
        if !(1..=128).contains(&bits) {
            return Err(ClientAddressError::Prefix { bits });
        }
        self.ipv6_prefix = bits;
        Ok(self)
    }

    /// Whether this peer is a proxy whose word counts.
    pub fn is_trusted(&self, peer: IpAddr) -> bool {
        match &self.trust {
            Trust::Nobody => false,
            Trust::Hops(_) => true,
            Trust::Proxies(nets) => holds(nets, peer.to_canonical()),
        }
    }

    /// The client's address, as far as it is known.
    #[inline]
    pub fn find(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Option<IpAddr> {
        let peer = peer.map(|peer| peer.to_canonical());
        let is_last = |place: usize, address: &IpAddr| match &self.trust {
            Trust::Nobody => true,
            Trust::Hops(hops) => place + 1 == *hops,
            Trust::Proxies(nets) => !holds(nets, *address),
        };
        match (&self.trust, peer) {
            (Trust::Nobody, peer) => return peer,
            (Trust::Proxies(nets), Some(peer)) if !holds(nets, peer) => return Some(peer),
            (Trust::Proxies(_), None) => return None,
            _ => {}
        }
        // From the last one, which the proxy that asks us wrote, to the first, which anyone may have written.
        let lines = headers.get_all(FORWARDED_FOR).into_iter().rev();
        let said = lines.flat_map(|line| line.as_bytes().rsplit(|b| *b == b','));
        let mut client = peer;
        for (place, text) in said.enumerate() {
            // What can't be read was not written by a proxy of ours: the one before it is who we know.
            let Some(address) = read(text) else { return client };
            client = Some(address);
            if is_last(place, &address) {
                break;
            }
        }
        client
    }

    /// The client's address as it is counted by: as text, an IPv6 one as its network.
    #[inline]
    pub fn text(&self, address: IpAddr) -> AddressText {
        let mut text = AddressText { bytes: [0; AddressText::LONGEST], len: 0 };
        // There is room for the longest of them.
        let _ = match address.to_canonical() {
            IpAddr::V4(address) => text.write_ipv4(address),
            IpAddr::V6(address) => write!(text, "{}", Ipv6Net::new_assert(address, self.ipv6_prefix).trunc()),
        };
        text
    }
}

fn holds(nets: &[IpNet], address: IpAddr) -> bool {
    nets.iter().any(|net| net.contains(&address))
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

/// An address as text, kept in place: `203.0.113.7`, `2001:db8:1:2::/64`.
#[derive(Clone, Copy)]
pub struct AddressText {
    bytes: [u8; Self::LONGEST],
    len: u8,
}

impl AddressText {
    /// Eight groups of four digits, seven colons, a slash and three digits; with some room.
    const LONGEST: usize = 46;

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// The key of whoever has this address.
    pub fn key(&self) -> Key<'_> {
        // It is neither empty nor too long.
        Key::new(self.as_bytes()).unwrap_or_else(|_| unreachable!("an address is a key"))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The same as `Display` has it, at a fifth of the time: most clients have one, and each request is counted by it.
    fn write_ipv4(&mut self, address: Ipv4Addr) -> fmt::Result {
        let mut number = itoa::Buffer::new();
        let [first, rest @ ..] = address.octets();
        self.write_str(number.format(first))?;
        for octet in rest {
            self.write_str(".")?;
            self.write_str(number.format(octet))?;
        }
        Ok(())
    }
}

impl fmt::Debug for AddressText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Write for AddressText {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let start = usize::from(self.len);
        let room = self.bytes.get_mut(start..start + more.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(more.as_bytes());
        self.len = u8::try_from(start + more.len()).map_err(|_| fmt::Error)?;
        Ok(())
    }
}

/// Why a [`ClientAddress`] was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientAddressError {
    /// No proxy is none to be behind of.
    #[error("0 hops would trust nobody: use 1 or more, or ClientAddress::peer()")]
    NoHops,
    /// Not a number of bits of an IPv6 address.
    #[error("{bits} bits of an IPv6 address are out of range: use 1 to 128")]
    Prefix {
        /// What was asked for.
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

    fn found(client: &ClientAddress, said: &[&str], peer: &str) -> String {
        let line = |line: &&str| (HeaderName::from_static("x-forwarded-for"), line.parse().expect("a header"));
        let headers: HeaderMap = said.iter().map(line).collect();
        let found = client.find(&headers, peer.parse().ok());
        found.map_or("nobody".to_owned(), |address| client.text(address).as_str().to_owned())
    }

    #[test]
    fn a_forged_entry_counts_for_nothing() {
        let forged = ["6.6.6.6, 203.0.113.7"];
        let proxies = behind(&["10.0.0.0/8"]);
        assert_eq!(found(&proxies, &forged, "10.0.0.1"), "203.0.113.7");
        assert_eq!(found(&hops(1), &forged, "10.0.0.1"), "203.0.113.7");
        assert_eq!(found(&proxies, &forged, "192.0.2.1"), "192.0.2.1", "who is no proxy speaks for itself");
        assert_eq!(found(&ClientAddress::peer(), &forged, "10.0.0.1"), "10.0.0.1");
        assert_eq!(found(&behind(&[]), &forged, "10.0.0.1"), "10.0.0.1");
        assert_eq!(found(&proxies, &["6.6.6.6", "203.0.113.7, 10.1.1.1"], "10.0.0.1"), "203.0.113.7");
        assert_eq!(found(&hops(2), &["6.6.6.6, 203.0.113.7, 10.1.1.1"], "10.0.0.1"), "203.0.113.7");
        assert_eq!(found(&proxies, &["6.6.6.6, garbage, 10.9.9.9"], "10.0.0.1"), "10.9.9.9");
    }

    #[test]
    fn without_a_peer_only_a_count_of_proxies_knows_the_client() {
        let said = ["203.0.113.7"];
        assert_eq!(found(&hops(1), &said, "a unix socket"), "203.0.113.7");
        assert_eq!(found(&hops(1), &[], "a unix socket"), "nobody");
        assert_eq!(found(&behind(&["10.0.0.0/8"]), &said, "a unix socket"), "nobody");
        assert_eq!(found(&ClientAddress::peer(), &said, "a unix socket"), "nobody");
    }

    #[test]
    fn addresses_are_read_as_proxies_write_them() {
        for (said, expected) in [
            ("203.0.113.7:4711", "203.0.113.7"),
            ("[2001:db8:1:2:3::4]:443", "2001:db8:1:2::/64"),
            ("2001:db8:1:2:ffff::4", "2001:db8:1:2::/64"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
        ] {
            assert_eq!(found(&hops(1), &[said], "127.0.0.1"), expected);
        }
    }

    #[test]
    fn addresses_are_written_as_everyone_writes_them() {
        for address in ["0.0.0.0", "1.20.255.9", "255.255.255.255", "10.0.99.100"] {
            assert_eq!(found(&ClientAddress::peer(), &[], address), address);
        }
    }

    #[test]
    fn the_longest_address_has_room() {
        let whole = ClientAddress::peer().with_ipv6_prefix(128).expect("in range");
        let longest = "abcd:abcd:abcd:abcd:abcd:abcd:abcd:abcd";
        assert_eq!(found(&whole, &[], longest), format!("{longest}/128"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_what_would() {
        assert!(ClientAddress::behind_hops(0).expect_err("none").to_string().contains("peer()"));
        for bits in [0, 129] {
            let error = ClientAddress::peer().with_ipv6_prefix(bits).expect_err("out of range").to_string();
            assert!(error.contains(&bits.to_string()) && error.contains("1 to 128"), "{error}");
        }
    }
}
