//! The policies to try: from limits, candidates and a configuration.

use anyhow::Context as _;
use tidegate::{Algorithm, Limit, Policy, PolicyError};
use tidegate_replay::{logs::ClientKey, replay::Candidate};
use tidegate_server::config::{Config, ConfiguredPolicy, KeySource, SettingSources};

use crate::{arguments::ReplayArguments, serve::load_config};

/// Returns all policies to try, the main policy first. Also returns the client key of the main policy if it comes from a configuration.
pub(super) fn all(arguments: &ReplayArguments) -> anyhow::Result<(Vec<Candidate>, Option<ClientKey>)> {
    let ReplayArguments { limit, algorithm, policy, config, .. } = arguments;
    let (mut candidates, mut client_key) = (Vec::new(), None);
    if !limit.is_empty() {
        candidates.push(candidate(limit.clone(), *algorithm).map_err(suggest_candidate)?);
    }
    if !policy.is_empty() {
        let config = load_config(config.as_ref(), &SettingSources::from_environment()?)?;
        for name in policy {
            let configured = find(&config, name)?;
            if let (KeySource::Header(header), true) = (&configured.key, candidates.is_empty()) {
                client_key = Some(format!("header:{header}").parse()?);
            }
            candidates.push(Candidate { name: name.clone(), policy: configured.policy.clone() });
        }
    }
    anyhow::ensure!(config.is_none() || !policy.is_empty(), "--config needs --policy: name the policy to try");
    for text in &arguments.candidate {
        candidates.push(parse(text, *algorithm).with_context(|| format!("the candidate `{text}` is invalid"))?);
    }
    Ok((candidates, client_key))
}

fn find<'a>(config: &'a Config, name: &str) -> anyhow::Result<&'a ConfiguredPolicy> {
    config.policies.get(name).with_context(|| match config.policies.nearest(name) {
        Some(nearest) => format!("no policy is named `{name}`: did you mean `{nearest}`?"),
        None => format!("no policy is named `{name}`: name its configuration file with --config"),
    })
}

/// Parses limits that are separated by commas, and an optional algorithm.
fn parse(text: &str, default: Algorithm) -> anyhow::Result<Candidate> {
    let mut words = text.split_whitespace().peekable();
    let mut limits = Vec::new();
    while let Some(word) = words.next_if(|word| word.contains('/')) {
        for limit in word.split(',').filter(|limit| !limit.is_empty()) {
            limits.push(limit.parse::<Limit>()?);
        }
    }
    let algorithm = words.next().map_or(Ok(default), str::parse)?;
    anyhow::ensure!(
        words.next().is_none() && !limits.is_empty(),
        "write limits separated by commas, then the algorithm, as in \"100/1m,1000/1h sliding_counter\""
    );
    candidate(limits, algorithm)
}

/// Adds to the error about two limits with the same window how to compare them.
fn suggest_candidate(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<PolicyError>() {
        Some(PolicyError::SameWindow { limit }) => {
            anyhow::anyhow!("{error}, or compare them: write one of them as `--candidate {limit}`")
        }
        _ => error,
    }
}

fn candidate(limits: Vec<Limit>, algorithm: Algorithm) -> anyhow::Result<Candidate> {
    let name: Vec<String> = limits.iter().map(ToString::to_string).collect();
    let name = format!("{} {algorithm}", name.join(","));
    let policy = Policy::unnamed(limits)?.with_algorithm(algorithm);
    Ok(Candidate { name, policy })
}
