//! The ways in. Each turns bytes into an [`Ask`](crate::Ask) and an answer into bytes, and nothing more.

pub(crate) mod body;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod long_key;
pub(crate) mod resp;
