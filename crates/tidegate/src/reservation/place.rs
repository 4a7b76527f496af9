//! [`Place`]: where a store finds the state of a reservation.

use std::{
    borrow::Cow,
    hash::{BuildHasher as _, RandomState},
    sync::LazyLock,
};

use siphasher::sip128::SipHasher13;

use super::ReservationError;
use crate::policy::Policy;

/// The maximum number of bytes of a place.
pub(super) const MAX_PLACE: usize = 36;
/// The number of bytes of the place of a state in this process.
const IN_PROCESS: usize = 16;

/// Where a store finds the state of a reservation.
#[derive(Clone)]
pub(super) enum Place {
    /// As the store sealed it. Empty for a reservation that was never granted.
    Sealed { bytes: [u8; MAX_PLACE], length: u8 },
    /// A state in this process, and the identity of its policy. It is sealed when the id is written as text: most ids of a
    /// program that uses the library never are.
    InProcess { state: u128, policy: u128 },
}

impl Place {
    pub(super) const NONE: Self = Self::Sealed { bytes: [0; MAX_PLACE], length: 0 };

    /// A place that the store has sealed.
    pub(super) fn sealed(place: &[u8]) -> Result<Self, ReservationError> {
        let mut bytes = [0; MAX_PLACE];
        bytes.get_mut(..place.len()).ok_or(ReservationError::Id)?.copy_from_slice(place);
        Ok(Self::Sealed { bytes, length: u8::try_from(place.len()).map_err(|_| ReservationError::Id)? })
    }

    #[inline]
    pub(super) fn in_process(state: u128, policy: &Policy) -> Self {
        Self::InProcess { state, policy: policy.identity().plain }
    }

    #[inline]
    pub(super) fn is_none(&self) -> bool {
        matches!(self, Self::Sealed { length: 0, .. })
    }

    /// The bytes that are written into the text of the id.
    pub(super) fn bytes(&self, nonce: [u8; 16]) -> Cow<'_, [u8]> {
        match self {
            Self::Sealed { bytes, length } => Cow::Borrowed(&bytes[..usize::from(*length)]),
            Self::InProcess { state, policy } => Cow::Owned(seal(*state, *policy, nonce).to_vec()),
        }
    }

    /// Writes the same bytes to the start of `to`. Returns their number.
    pub(super) fn write(&self, nonce: [u8; 16], to: &mut [u8]) -> usize {
        let sealed;
        let bytes = match self {
            Self::Sealed { bytes, length } => &bytes[..usize::from(*length)],
            Self::InProcess { state, policy } => {
                sealed = seal(*state, *policy, nonce);
                &sealed[..]
            }
        };
        to[..bytes.len()].copy_from_slice(bytes);
        bytes.len()
    }

    /// The state in this process. Under another policy than that of the reservation, it is a state that nobody has.
    #[inline]
    pub(super) fn state_in_process(&self, nonce: [u8; 16], policy: &Policy) -> Result<u128, ReservationError> {
        let identity = policy.identity().plain;
        match self {
            Self::InProcess { state, policy } if *policy == identity => Ok(*state),
            _ => {
                let bytes: [u8; IN_PROCESS] = (*self.bytes(nonce)).try_into().map_err(|_| ReservationError::Foreign)?;
                Ok(u128::from_be_bytes(bytes) ^ mask(nonce, identity))
            }
        }
    }
}

fn seal(state: u128, policy: u128, nonce: [u8; 16]) -> [u8; IN_PROCESS] {
    (state ^ mask(nonce, policy)).to_be_bytes()
}

/// The number that seals a place in this process: a pseudorandom function of the reservation's random number and its policy.
/// So a sealed place says nothing about the key, and with another number or policy it refers to no state.
fn mask(nonce: [u8; 16], policy: u128) -> u128 {
    static SECRET: LazyLock<SipHasher13> = LazyLock::new(|| {
        let random = || RandomState::new().hash_one(0_u8);
        // The model checker needs deterministic runs.
        let (one, other) = if cfg!(tidegate_shuttle) { (1, 2) } else { (random(), random()) };
        SipHasher13::new_with_keys(one, other)
    });
    let mut input = [0; 32];
    input[..16].copy_from_slice(&nonce);
    input[16..].copy_from_slice(&policy.to_be_bytes());
    SECRET.hash(&input).as_u128()
}
