//! Names of clients: addresses from ranges that are nobody's.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::simulate::random::scatter;

/// One client in so many has an IPv6 address.
const IPV6: u32 = 8;
const MASK: u32 = (1 << 24) - 1;

/// The address of a client; no two have the same.
pub(super) fn name(seed: u64, client: u32) -> String {
    let place = place(seed, client);
    if client % IPV6 == IPV6 - 1 {
        // 2001:db8::/32 is for documentation.
        let [_, a, b, c] = place.to_be_bytes();
        let subnet = u16::from_be_bytes([a, b]);
        let host = scatter(place.into()).to_be_bytes();
        let half = |i: usize| u16::from_be_bytes([host[i], host[i + 1]]);
        Ipv6Addr::new(0x2001, 0xdb8, subnet, c.into(), half(0), half(2), half(4), half(6)).to_string()
    } else {
        // 10.0.0.0/8 is everybody's own.
        let [_, a, b, c] = place.to_be_bytes();
        Ipv4Addr::new(10, a, b, c).to_string()
    }
}

/// Scatters clients over 24 bits so that no two meet: every step can be undone.
#[expect(clippy::cast_possible_truncation, reason = "the lowest bits are wanted")]
fn place(seed: u64, client: u32) -> u32 {
    let mut place = (client ^ scatter(seed) as u32) & MASK;
    for odd in [0x9e37_79b1, 0x85eb_ca6b] {
        place = place.wrapping_mul(odd) & MASK;
        place ^= place >> 11;
    }
    place
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::name;

    #[test]
    fn no_two_clients_have_the_same_name() {
        let names: HashSet<String> = (0..50_000).map(|client| name(7, client)).collect();
        assert_eq!(names.len(), 50_000);
        assert!(names.iter().any(|name| name.starts_with("2001:db8:")));
        assert!(names.iter().any(|name| name.starts_with("10.")));
    }
}
