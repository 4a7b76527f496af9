//! Runs any sequence of operations under any policies and clocks: see `src/operations`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::operations::Case;

fuzz_target!(|case: Case| case.run());
