//! Tests of the text reports.

use insta::assert_snapshot;

use super::limit;
use tidegate_replay::{
    simulate::{
        accuracy, boundary, evaluation, one_of_each,
        traffic::{Traffic, TrafficShape, access_log, csv},
    },
    text,
};

fn fits(text: String) -> String {
    let longest = text.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(80), "{longest:?} columns:\n{text}");
    text
}

#[test]
fn boundary_fits_a_terminal() {
    assert_snapshot!(fits(text::boundary(&boundary::run(limit("100/1m"), &one_of_each()))));
}

#[test]
fn boundary_fits_a_terminal_for_any_limit() {
    for any in ["1/1ms", "99999/1h", "999999/1m", "1000000000000/366d"] {
        fits(text::boundary(&boundary::run(limit(any), &one_of_each())));
    }
    assert_snapshot!(fits(text::boundary(&boundary::run(limit("1000000000000/1ms"), &one_of_each()))));
}

#[test]
fn accuracy_fits_a_terminal() {
    let options = accuracy::Options { clients: 50, requests: 5_000, ..accuracy::Options::new(limit("20/1s")) };
    assert_snapshot!(fits(text::accuracy(&accuracy::run(&options).unwrap())));
}

#[test]
fn comparison_fits_a_terminal() {
    let traffic = Traffic::for_limit(limit("1000000/1h"), TrafficShape::Bursty, 5, 10_000, 0.5, 1).unwrap();
    let result = evaluation::run(&traffic, limit("1000000/1h"), &one_of_each()).unwrap();
    assert_snapshot!(fits(text::comparison(&result)));
}

#[test]
fn traffic_is_written_as_csv_and_as_an_access_log() {
    let traffic = Traffic { clients: 40, per_minute: 60.0, duration_us: 10_000_000, ..Traffic::default() };
    let (mut trace, mut log) = (Vec::new(), Vec::new());
    csv::write(&traffic, traffic.requests().unwrap().take(12), &mut trace).unwrap();
    access_log::write(&traffic, traffic.requests().unwrap().take(12), &mut log).unwrap();
    assert_snapshot!(format!("{}\n{}", String::from_utf8(trace).unwrap(), String::from_utf8(log).unwrap()));
}
