//! [`Places`]: the number of connections of a listener, in all and from each address.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of one listener.
#[derive(Debug)]
pub(crate) struct Places {
    all: Arc<Semaphore>,
    per_address: usize,
    /// Connections by address. Addresses without a connection have no entry, so there are never more entries than
    /// places.
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// A place that is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    address: IpAddr,
    _permit: OwnedSemaphorePermit,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// The listener has its maximum number of connections.
    Full,
    /// The address has its maximum number of connections.
    Address,
}

impl Places {
    pub(crate) fn new(all: usize, per_address: usize) -> Arc<Self> {
        Arc::new(Self { all: Arc::new(Semaphore::new(all)), per_address, taken: Mutex::default() })
    }

    /// Takes a place for a connection from this address.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Result<Place, NoPlace> {
        let permit = Arc::clone(&self.all).try_acquire_owned().map_err(|_| NoPlace::Full)?;
        let address = network(address);
        let mut taken = self.taken.lock();
        let count = taken.entry(address).or_insert(0);
        if *count >= self.per_address {
            return Err(NoPlace::Address);
        }
        *count += 1;
        drop(taken);
        Ok(Place { places: Arc::clone(self), address, _permit: permit })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        if let Some(count) = taken.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

/// An IPv4 address, or the /64 of an IPv6 address: a client that has one address of a /64 has all of them.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::{NoPlace, Places};

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_address_has_so_many_places_and_an_ipv6_network_counts_as_one() {
        let places = Places::new(5, 2);
        let mut held =
            vec![places.take(ip("192.0.2.1")).expect("a place"), places.take(ip("::ffff:192.0.2.1")).expect("a place")];
        assert_eq!(places.take(ip("192.0.2.1")).err(), Some(NoPlace::Address));
        held.push(places.take(ip("2001:db8::1")).expect("a place"));
        held.push(places.take(ip("2001:db8::2:1")).expect("a place"));
        assert_eq!(places.take(ip("2001:db8::ffff")).err(), Some(NoPlace::Address), "of the same network");
        held.push(places.take(ip("2001:db8:0:1::1")).expect("another network"));
        assert_eq!(places.take(ip("192.0.2.2")).err(), Some(NoPlace::Full));
        assert_eq!(places.taken.lock().len(), 3);
        held.clear();
        assert!(places.taken.lock().is_empty(), "nothing is kept of those that are gone");
        assert!(places.take(ip("192.0.2.1")).is_ok());
    }
}
