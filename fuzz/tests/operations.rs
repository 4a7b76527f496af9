//! The fuzz target `operations` with random bytes, for toolchains without a fuzzer.

use arbitrary::{Arbitrary as _, Unstructured};
use tidegate_fuzz::operations::Case;

/// Random bytes that are the same in every run.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let byte = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(byte).collect()
}

#[test]
fn random_operations_keep_all_invariants() {
    for seed in 0..2_000 {
        let bytes = bytes(seed, 2_000);
        let case = Case::arbitrary(&mut Unstructured::new(&bytes)).expect("a case");
        case.run();
    }
}
