//! Connections of all transports: `listener` accepts them, `slots` limits their number in all and by address, `certificates` has
//! the certificate for TLS, `unread` bounds the memory of responses that peers do not read.

mod certificates;
mod listener;
mod slots;
mod unread;

pub(crate) use self::{
    certificates::Certificates,
    listener::{Listener, Stream, bind},
    slots::{ConnectionSlot, ConnectionSlots, SlotError, network},
    unread::{MemoryCharge, Reservation, ResponseReader, UnreadResponses},
};
