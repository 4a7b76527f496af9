//! Integration tests of the library.

mod at_once;
mod browser;
mod consistency;
mod groups;
mod obedience;
mod page;
mod page_in_a_browser;
mod sample;
mod simulate;
mod simulated;
