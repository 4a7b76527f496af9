//! `tidegate serve`: runs the service until a signal stops it.

use std::{path::PathBuf, process};

use anyhow::Context as _;
use tidegate_server::{
    Server, Transport,
    config::{Config, ConfigError, ServerSettings, SettingSources},
};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    arguments::{Format, ServeArguments},
    logging,
    outcome::Outcome,
};

/// The configuration file by default.
const DEFAULT_FILE: &str = "tidegate.toml";

/// File descriptors that are kept for listeners, Redis, files and the runtime.
const RESERVED_DESCRIPTORS: usize = 128;

/// Loads the given file, or the default file if it exists.
pub(crate) fn load_config(named: Option<&PathBuf>, sources: &SettingSources) -> Result<Config, ConfigError> {
    let default = || Some(PathBuf::from(DEFAULT_FILE)).filter(|path| path.exists());
    Config::load(named.cloned().or_else(default).as_deref(), sources)
}

pub(crate) fn run(arguments: &ServeArguments, format: Format) -> anyhow::Result<Outcome> {
    let mut sources = SettingSources::from_environment()?;
    for (flag, key, value) in
        [("--http", "http", &arguments.http), ("--resp", "resp", &arguments.resp), ("--grpc", "grpc", &arguments.grpc)]
    {
        if let Some(value) = value {
            sources = sources.server(flag, key, value);
        }
    }
    if let Some(url) = &arguments.store {
        sources = sources.store("--store", "url", url);
    }
    let mut config = load_config(arguments.config.as_ref(), &sources)?;
    let _log = logging::begin(format)?;
    leave_descriptors(&mut config);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("the runtime can't be started")?;
    let done = runtime.block_on(serve(config, sources));
    // A file read that hangs must not keep the process alive.
    runtime.shutdown_background();
    done
}

/// Lowers `max_connections` so that connections can't use all file descriptors. Otherwise a flood of connections could
/// keep the service from connecting to Redis again.
fn leave_descriptors(config: &mut Config) {
    let Ok(descriptors) = rlimit::increase_nofile_limit(u64::MAX) else { return };
    let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
    let for_connections = descriptors - RESERVED_DESCRIPTORS.min(descriptors / 2);
    let most = (for_connections / Transport::ALL.len()).max(1);
    let bounds = &mut config.server.bounds;
    if bounds.connections > most {
        tracing::warn!(
            descriptors,
            max_connections = most,
            "max_connections is lowered to what the file descriptors allow: raise `ulimit -n` for more"
        );
        bounds.connections = most;
        bounds.connections_per_address = bounds.connections_per_address.min(most);
    }
}

async fn serve(config: Config, sources: SettingSources) -> anyhow::Result<Outcome> {
    // Before any listener starts, so that no signal is lost.
    let listen = |kind| signal(kind).context("signals can't be waited for");
    let (mut hangup, mut terminate) = (listen(SignalKind::hangup())?, listen(SignalKind::terminate())?);
    let mut interrupt = listen(SignalKind::interrupt())?;
    let (settings, file, store) = (config.server.clone(), config.file.clone(), store_name(&config.store.url));
    let policies = config.policies.len();
    let server = Server::start(config, sources).await?;
    let at = |transport| server.address(transport).map_or("off".to_owned(), |address| address.to_string());
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        http = at(Transport::Http),
        resp = at(Transport::Resp),
        grpc = at(Transport::Grpc),
        store,
        policies,
        file = file.as_ref().map_or("none".to_owned(), |file| file.display().to_string()),
        "tidegate is running"
    );
    if let Some(address) = server.address(Transport::Http) {
        let scheme = if settings.tls.is_some() { "https" } else { "http" };
        tracing::info!("open {scheme}://{address} in a browser, or run `tidegate top`");
    }
    warn_if_open(&settings);
    if policies == 0 {
        tracing::warn!("no policies: only limits supplied by callers are decided; see tidegate.toml for an example");
    }
    loop {
        tokio::select! {
            // In a separate task, so that a file read that hangs does not delay the other signals.
            _ = hangup.recv() => drop(tokio::spawn(server.reload())),
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
    }
    tracing::info!(within = ?settings.drain, "stopping: no new connections are accepted, open ones are finished");
    let left = tokio::select! {
        left = server.stop() => left,
        // A second signal stops the process at once.
        _ = terminate.recv() => process::exit(1),
        _ = interrupt.recv() => process::exit(1),
    };
    if left > 0 {
        tracing::warn!(connections = left, "stopped while connections were still open");
    } else {
        tracing::info!("stopped");
    }
    Ok(Outcome::Good)
}

/// Returns the URL of the store without its password.
fn store_name(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://…@{host}"),
        _ => url.to_owned(),
    }
}

fn warn_if_open(settings: &ServerSettings) {
    let listens =
        [(Transport::Http, settings.http), (Transport::Resp, settings.resp), (Transport::Grpc, settings.grpc)];
    for (transport, address) in listens {
        if let Some(address) = address.filter(|address| !address.ip().is_loopback())
            && settings.tokens.admin.is_none()
        {
            tracing::warn!(
                transport = transport.name(), %address,
                "open to others without a token: set `admin_token` (and `token`) in [server], or listen on 127.0.0.1"
            );
        }
    }
}
