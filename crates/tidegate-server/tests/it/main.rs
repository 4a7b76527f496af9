//! The service from outside: what goes over its wires.

mod configuration;
mod grpc;
mod running;
