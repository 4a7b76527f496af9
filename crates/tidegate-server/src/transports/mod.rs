//! The protocols. Each turns bytes into a [`KeyRequest`](crate::KeyRequest) and a decision into bytes.

pub(crate) mod decision_body;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod long_key;
pub(crate) mod reservation_body;
pub(crate) mod resp;
