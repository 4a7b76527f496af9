//! The policies to try: from limits, candidates and a configuration.

use anyhow::Context as _;
use tidegate::{Algorithm, Limit, Policy};
use tidegate_replay::{logs::ClientKey, replay::Candidate};
use tidegate_server::config::{Config, KeySource, SettingSources};

use crate::{arguments::ReplayArguments, serve::file_or_default};

/// Returns all policies to try. The first is the main policy.
pub(super) fn all(arguments: &ReplayArguments) -> anyhow::Result<Vec<Candidate>> {
    let ReplayArguments { algorithm, limit, .. } = arguments;
    let mut candidates = Vec::new();
    if !limit.is_empty() {
        candidates.push(candidate(limit.clone(), *algorithm)?);
    }
    candidates.extend(configured(arguments)?);
    for text in &arguments.candidate {
        candidates.push(parse(text, *algorithm).with_context(|| format!("the candidate `{text}` is invalid"))?);
    }
    Ok(candidates)
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

fn candidate(limits: Vec<Limit>, algorithm: Algorithm) -> anyhow::Result<Candidate> {
    let name: Vec<String> = limits.iter().map(ToString::to_string).collect();
    let name = format!("{} {algorithm}", name.join(","));
    let policy = Policy::unnamed(limits)?.with_algorithm(algorithm);
    Ok(Candidate { name, policy })
}

/// Returns the client key of the main policy, if it comes from a configuration.
pub(super) fn key_of_policy(arguments: &ReplayArguments) -> anyhow::Result<Option<ClientKey>> {
    let Some(name) = arguments.policy.first() else { return Ok(None) };
    Ok(match load(arguments)?.policies.get(name).map(|configured| &configured.key) {
        Some(KeySource::Header(header)) => Some(format!("header:{header}").parse()?),
        Some(KeySource::ClientIp) | None => None,
    })
}

fn load(arguments: &ReplayArguments) -> anyhow::Result<Config> {
    let file = file_or_default(arguments.config.as_ref());
    Ok(Config::load(file.as_deref(), &SettingSources::from_environment()?)?)
}

fn configured(arguments: &ReplayArguments) -> anyhow::Result<Vec<Candidate>> {
    if arguments.policy.is_empty() {
        anyhow::ensure!(arguments.config.is_none(), "--config needs --policy: name the policy to try");
        return Ok(Vec::new());
    }
    let config = load(arguments)?;
    let find = |name: &String| {
        let policies = &config.policies;
        let configured = policies.get(name).with_context(|| match policies.nearest(name) {
            Some(nearest) => format!("no policy is named `{name}`: did you mean `{nearest}`?"),
            None => format!("no policy is named `{name}`: name its configuration file with --config"),
        })?;
        Ok(Candidate { name: name.clone(), policy: configured.policy.clone() })
    };
    arguments.policy.iter().map(find).collect()
}
