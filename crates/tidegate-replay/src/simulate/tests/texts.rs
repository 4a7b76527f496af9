//! What a user reads.

use insta::assert_snapshot;

use super::limit;
use crate::simulate::{
    accuracy, boundary, compare, one_of_each,
    traffic::{Shape, Traffic, access_log, csv},
};

fn fits(text: String) -> String {
    let longest = text.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(80), "{longest:?} columns:\n{text}");
    text
}

#[test]
fn boundary_reads_well() {
    assert_snapshot!(fits(boundary::text(&boundary::run(limit("100/1m"), &one_of_each()))));
}

#[test]
fn boundary_reads_well_for_any_limit() {
    for text in ["1/1ms", "99999/1h", "999999/1m", "1000000000000/366d"] {
        fits(boundary::text(&boundary::run(limit(text), &one_of_each())));
    }
    assert_snapshot!(fits(boundary::text(&boundary::run(limit("1000000000000/1ms"), &one_of_each()))));
}

#[test]
fn accuracy_reads_well() {
    let options = accuracy::Options { clients: 50, requests: 5_000, ..accuracy::Options::new(limit("20/1s")) };
    assert_snapshot!(fits(accuracy::text(&accuracy::run(&options).unwrap())));
}

#[test]
fn compare_reads_well() {
    let traffic = Traffic::around(limit("1000000/1h"), Shape::Bursty, 5, 10_000, 0.5, 1);
    let options = compare::Options { traffic, ..compare::Options::new(limit("1000000/1h")) };
    assert_snapshot!(fits(compare::text(&compare::run(&options).unwrap())));
}

#[test]
fn traffic_reads_well() {
    let traffic = Traffic { clients: 40, per_minute: 60.0, duration_us: 10_000_000, ..Traffic::default() };
    let (mut trace, mut log) = (Vec::new(), Vec::new());
    csv::write(&traffic, traffic.requests().unwrap().take(12), &mut trace).unwrap();
    access_log::write(&traffic, traffic.requests().unwrap().take(12), &mut log).unwrap();
    assert_snapshot!(format!("{}\n{}", String::from_utf8(trace).unwrap(), String::from_utf8(log).unwrap()));
}
