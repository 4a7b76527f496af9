//! [`ConnectionSlots`]: limits the connections of a listener, in all and from each address.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots of one listener.
#[derive(Debug)]
pub(crate) struct ConnectionSlots {
    all: Arc<Semaphore>,
    per_address: usize,
    /// Connections by address. Addresses without a connection have no entry, so there are never more entries than
    /// slots.
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// The slot of one connection. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    address: IpAddr,
    _permit: OwnedSemaphorePermit,
}

/// The reason why there is no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotError {
    /// The listener has its maximum number of connections.
    ListenerFull,
    /// The address has its maximum number of connections.
    AddressFull,
}

impl ConnectionSlots {
    pub(crate) fn new(all: usize, per_address: usize) -> Arc<Self> {
        Arc::new(Self { all: Arc::new(Semaphore::new(all)), per_address, taken: Mutex::default() })
    }

    /// Takes a slot for a connection from this address.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Result<ConnectionSlot, SlotError> {
        let permit = Arc::clone(&self.all).try_acquire_owned().map_err(|_| SlotError::ListenerFull)?;
        let address = network(address);
        let mut taken = self.taken.lock();
        let count = taken.entry(address).or_insert(0);
        if *count >= self.per_address {
            return Err(SlotError::AddressFull);
        }
        *count += 1;
        drop(taken);
        Ok(ConnectionSlot { slots: Arc::clone(self), address, _permit: permit })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock();
        if let Some(count) = taken.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

/// Returns an IPv4 address, or the /64 of an IPv6 address: a client that has one address of a /64 has all of them.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::{ConnectionSlots, SlotError};

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn connections_of_one_address_are_limited_and_an_ipv6_network_counts_as_one() {
        let slots = ConnectionSlots::new(5, 2);
        let mut held =
            vec![slots.take(ip("192.0.2.1")).expect("a slot"), slots.take(ip("::ffff:192.0.2.1")).expect("a slot")];
        assert_eq!(slots.take(ip("192.0.2.1")).err(), Some(SlotError::AddressFull));
        held.push(slots.take(ip("2001:db8::1")).expect("a slot"));
        held.push(slots.take(ip("2001:db8::2:1")).expect("a slot"));
        assert_eq!(slots.take(ip("2001:db8::ffff")).err(), Some(SlotError::AddressFull), "of the same network");
        held.push(slots.take(ip("2001:db8:0:1::1")).expect("another network"));
        assert_eq!(slots.take(ip("192.0.2.2")).err(), Some(SlotError::ListenerFull));
        assert_eq!(slots.taken.lock().len(), 3);
        held.clear();
        assert!(slots.taken.lock().is_empty(), "closed connections leave no entry");
        assert!(slots.take(ip("192.0.2.1")).is_ok());
    }
}
