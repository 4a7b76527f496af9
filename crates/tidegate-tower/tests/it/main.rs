//! The layer from outside: real servers and clients on loopback, with the limiter's time in a test's hand.

mod headers;
mod keys;
mod rules;
mod site;
