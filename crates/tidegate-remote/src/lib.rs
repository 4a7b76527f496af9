#![doc = include_str!("../README.md")]

mod builder;
mod command;
mod connection;
mod error;
mod health;
mod link;
mod reply;
mod store;
mod stream;
mod url;

pub use builder::RemoteStoreBuilder;
pub use error::ConnectError;
pub use store::RemoteStore;
pub use url::UrlError;
