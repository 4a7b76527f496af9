//! The layer from outside: real servers and clients on loopback, with the limiter's time in a test's hand.

mod grpc;
mod headers;
mod keys;
mod plain_hyper;
mod rules;
mod site;
