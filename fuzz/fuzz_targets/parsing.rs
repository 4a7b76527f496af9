//! Parses any text. The result is a short error message, or a value whose printed form parses to the same value.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate::{Algorithm, Key, Limit, Policy};

fuzz_target!(|text: &str| {
    match text.parse::<Limit>() {
        Ok(limit) => assert_eq!(limit.to_string().parse::<Limit>().as_ref(), Ok(&limit)),
        Err(error) => assert!(error.to_string().len() < 400),
    }
    match text.parse::<Algorithm>() {
        Ok(algorithm) => assert_eq!(algorithm.to_string().parse::<Algorithm>().as_ref(), Ok(&algorithm)),
        Err(error) => assert!(error.to_string().len() < 400),
    }
    let parts: Vec<&str> = text.split('/').collect();
    if let (Ok(joined), Ok(whole)) = (Key::join(&parts), Key::join([text])) {
        assert_eq!(joined == whole, parts.len() == 1, "two lists of parts have the same key");
    }
    let _ = Policy::new(text, ["1/1s".parse().expect("a limit")]);
});
