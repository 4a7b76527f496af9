//! The service with a store of one's own, until Ctrl-C. It reads `tidegate.toml` in the current directory.

use std::path::Path;

use own_store::MapStore;
use tidegate_server::{
    Server, Transport,
    config::{Config, SettingSources},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sources = SettingSources::from_environment()?;
    let config = Config::load(Some(Path::new("tidegate.toml")), &sources)?;
    let server = Server::start_with_store(config, sources, MapStore::default()).await?;
    println!("HTTP: {:?}", server.address(Transport::Http));
    // … until the program ends:
    tokio::signal::ctrl_c().await?;
    server.stop().await;
    Ok(())
}
