//! The measured limiters, one file each, behind one small trait.
//!
//! A contender uses its own clock, its own store and its own type of key. It is a function that makes
//! one decision. [`Contender::run`] is compiled for each contender, so all have the same loop, and a
//! decision is not a virtual call.

mod governor;
mod harness;
mod limitador;
mod pingora;
mod rate_net;
mod throttlecrab;
mod tidegate;
mod trypema;

use std::hint::black_box;

use ::tidegate::Limit;

use crate::stopwatch::Deadline;
use crate::tally::Tally;

/// The requests of a limit, as contenders with smaller numbers need them. Every contender enforces the same limit, with a
/// window of whole seconds, because not all support shorter units.
fn max(limit: Limit) -> u32 {
    limit.max().try_into().expect("the limits of a run are small")
}

/// One limiter under one limit.
pub trait Contender: Send + Sync {
    /// Decides one request of `key`. Returns whether it is admitted.
    #[expect(clippy::ptr_arg, reason = "governor requires keys as `&String`")]
    fn decide(&self, key: &String) -> bool;

    /// Decides one request of each of `keys` in order. Stops early at the deadline.
    fn run(&self, keys: &[String], deadline: Deadline) -> Tally {
        // Reading the clock once for this number of decisions costs almost nothing, and still
        // stops a contender that takes milliseconds for a decision.
        const STRIDE: usize = 256;
        let mut tally = Tally::default();
        for stride in keys.chunks(STRIDE) {
            if deadline.has_passed() {
                break;
            }
            for key in stride {
                let is_allowed = self.decide(black_box(key));
                tally.allowed += usize::from(black_box(is_allowed));
            }
            tally.decisions += stride.len();
        }
        tally
    }
}

impl<F: Fn(&String) -> bool + Send + Sync> Contender for F {
    fn decide(&self, key: &String) -> bool {
        self(key)
    }
}

/// A contender that has not been built yet.
#[derive(Clone, Copy)]
pub struct ContenderEntry {
    /// The project, as `--only` selects it.
    pub project: &'static str,
    /// The name of the row in every table.
    pub name: &'static str,
    /// The row of ours that makes the same kind of promise; none for the harness.
    pub like: Option<&'static str>,
    /// Builds it with an empty store.
    pub build: fn(Limit) -> Box<dyn Contender>,
}

/// All entries: the harness first, then ours, then the rivals.
pub fn all() -> Vec<ContenderEntry> {
    let mut entries = vec![harness::ENTRY];
    entries.extend(tidegate::ENTRIES);
    entries.push(governor::ENTRY);
    entries.extend(rate_net::ENTRIES);
    entries.extend([trypema::ENTRY, throttlecrab::ENTRY, pingora::ENTRY, limitador::ENTRY]);
    entries
}

/// The entries of the named projects, the harness, and the rows of ours that they are compared with.
///
/// An empty selection means everything.
///
/// # Errors
/// If a project is unknown.
pub fn select(projects: &[String]) -> anyhow::Result<Vec<ContenderEntry>> {
    let entries = all();
    for project in projects {
        anyhow::ensure!(
            entries.iter().any(|entry| entry.project == project),
            "{project:?} is not a contender; the contenders are {}",
            project_names(&entries).join(", "),
        );
    }
    if projects.is_empty() {
        return Ok(entries);
    }
    let is_named = |entry: &ContenderEntry| projects.iter().any(|project| project == entry.project);
    let is_needed = |entry: &ContenderEntry| {
        entry.like.is_none() || entries.iter().any(|other| is_named(other) && other.like == Some(entry.name))
    };
    Ok(entries.iter().filter(|entry| is_named(entry) || is_needed(entry)).copied().collect())
}

fn project_names(entries: &[ContenderEntry]) -> Vec<&'static str> {
    let mut names: Vec<_> = entries.iter().map(|entry| entry.project).collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(projects: &[&str]) -> Vec<&'static str> {
        let projects: Vec<_> = projects.iter().map(ToString::to_string).collect();
        let entries = select(&projects).expect("known projects");
        entries.iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn a_selected_rival_comes_with_the_row_it_is_compared_with() {
        assert_eq!(names(&["governor"]), ["reading the key", "tidegate sliding_counter", "governor 0.10"]);
    }

    #[test]
    fn every_rival_is_compared_with_a_row_that_exists() {
        let entries = all();
        for entry in &entries {
            let Some(like) = entry.like else { continue };
            assert!(entries.iter().any(|other| other.name == like), "{}: {like}", entry.name);
        }
    }

    #[test]
    fn an_unknown_project_is_an_error() {
        assert!(select(&["unknown".to_owned()]).is_err());
    }

    #[test]
    fn exact_contenders_enforce_the_limit_and_keep_keys_apart() {
        let limit = crate::workload::limit(2, 3600);
        let alice = "user:alice".to_owned();
        let bob = "user:bob".to_owned();
        for entry in all().into_iter().filter(|entry| entry.like.is_some()) {
            let contender = (entry.build)(limit);
            let allowed = (0..10).filter(|_| contender.decide(&alice)).count();
            assert_eq!(allowed, 2, "{}", entry.name);
            assert!(contender.decide(&bob), "{}", entry.name);
        }
    }
}
