//! A store without a fault passes every suite, so the faults and nothing else make the other stores fail.

use crate::faulty_store::{Behaviour, FaultyStore};

struct NoFault;

impl Behaviour for NoFault {
    const FEW_CASES: bool = true;
}

tidegate_conformance::all!(FaultyStore<NoFault>);
