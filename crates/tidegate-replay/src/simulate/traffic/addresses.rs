//! Addresses of simulated clients, from private and documentation ranges.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::simulate::random::hash;

/// One client in this many has an IPv6 address.
const IPV6: u32 = 8;
const MASK: u32 = (1 << 24) - 1;

/// Returns the address of a client. Different clients have different addresses.
pub(super) fn address(seed: u64, client: u32) -> String {
    let number = permuted(seed, client);
    let [_, a, b, c] = number.to_be_bytes();
    if client % IPV6 == IPV6 - 1 {
        // 2001:db8::/32 is reserved for documentation.
        let subnet = u16::from_be_bytes([a, b]);
        let host = hash(number.into()).to_be_bytes();
        let half = |i: usize| u16::from_be_bytes([host[i], host[i + 1]]);
        Ipv6Addr::new(0x2001, 0xdb8, subnet, c.into(), half(0), half(2), half(4), half(6)).to_string()
    } else {
        // 10.0.0.0/8 is private.
        Ipv4Addr::new(10, a, b, c).to_string()
    }
}

/// Permutes the numbers of clients within 24 bits. Every step is invertible, so different clients stay different.
#[expect(clippy::cast_possible_truncation, reason = "only the lowest bits matter")]
fn permuted(seed: u64, client: u32) -> u32 {
    let mut number = (client ^ hash(seed) as u32) & MASK;
    for odd in [0x9e37_79b1, 0x85eb_ca6b] {
        number = number.wrapping_mul(odd) & MASK;
        number ^= number >> 11;
    }
    number
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::address;

    #[test]
    fn different_clients_have_different_addresses() {
        let addresses: HashSet<String> = (0..50_000).map(|client| address(7, client)).collect();
        assert_eq!(addresses.len(), 50_000);
        assert!(addresses.iter().any(|address| address.starts_with("2001:db8:")));
        assert!(addresses.iter().any(|address| address.starts_with("10.")));
    }
}
