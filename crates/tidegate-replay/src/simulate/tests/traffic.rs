//! Traffic is what was asked for, in order, and the same for the same seed.

use super::limit;
use crate::simulate::traffic::{DEFAULT_START_US, MAX_CLIENTS, Sent, Shape, Traffic, TrafficError, access_log, csv};

fn some(shape: Shape, seed: u64) -> Traffic {
    let traffic = Traffic { shape, clients: 60, duration_us: 20 * 60_000_000, per_minute: 12.0, ..Traffic::default() };
    Traffic { limit: limit("30/1m"), seed, ..traffic }
}

fn sent(traffic: &Traffic) -> Vec<Sent> {
    traffic.requests().unwrap().collect()
}

fn as_csv(traffic: &Traffic) -> String {
    let mut out = Vec::new();
    csv::write(traffic, traffic.requests().unwrap(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn as_access_log(traffic: &Traffic) -> String {
    let mut out = Vec::new();
    access_log::write(traffic, traffic.requests().unwrap(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_does_not() {
    let some = |shape, seed| Traffic { duration_us: 4 * 60_000_000, ..some(shape, seed) };
    for shape in Shape::ALL {
        assert_eq!(as_csv(&some(shape, 5)), as_csv(&some(shape, 5)), "{shape}");
        assert_ne!(as_csv(&some(shape, 5)), as_csv(&some(shape, 6)), "{shape}");
        assert_eq!(as_access_log(&some(shape, 5)), as_access_log(&some(shape, 5)), "{shape}");
        assert_ne!(as_access_log(&some(shape, 5)), as_access_log(&some(shape, 6)), "{shape}");
    }
}

#[test]
fn requests_come_in_order_from_the_start_to_the_end() {
    for shape in Shape::ALL {
        let traffic = some(shape, 1);
        let sent = sent(&traffic);
        assert!(sent.is_sorted_by_key(|sent| sent.time_us), "{shape}");
        assert!(sent.iter().all(|sent| sent.time_us >= traffic.start_us && sent.client < 60), "{shape}");
        assert!(sent.iter().all(|sent| sent.time_us < traffic.start_us + traffic.duration_us), "{shape}");
        let silent = (0..60).filter(|client| sent.iter().all(|sent| sent.client != *client)).count();
        assert!(silent < 12, "{shape}: {silent} clients send nothing");
    }
}

#[test]
fn there_are_about_as_many_requests_as_asked_for() {
    for shape in [Shape::Poisson, Shape::Bursty, Shape::Diurnal] {
        let requests = sent(&some(shape, 3)).len();
        assert!((12_500..16_500).contains(&requests), "{shape}: {requests} for 14400");
    }
}

#[test]
fn a_site_has_a_day() {
    let hour = |start: u64| {
        let start_us = DEFAULT_START_US + (start - 9) * 3_600_000_000;
        let traffic = Traffic { start_us, per_minute: 1.0, clients: 500, ..Traffic::default() };
        traffic.requests().unwrap().count()
    };
    let (morning, height, night) = (hour(10), hour(16), hour(24 + 4));
    assert!((22_000..40_000).contains(&morning), "{morning} for 30000");
    assert!(height > 2 * night, "{height} at 16:00, {night} at 04:00");
}

#[test]
fn traffic_around_a_limit_has_about_the_requests_and_the_load_asked_for() {
    for text in ["10/1s", "100/1m", "5000/1h", "1000000000000/366d"] {
        for shape in [Shape::Poisson, Shape::Bursty, Shape::Diurnal] {
            let traffic = Traffic::around(limit(text), shape, 4, 8_000, 0.5, 1);
            let requests = traffic.requests().unwrap().count();
            assert!((4_500..14_000).contains(&requests), "{text} {shape}: {requests}");
        }
    }
}

#[test]
fn one_more_client_changes_nothing_for_the_others() {
    let few = some(Shape::Adversarial, 1);
    let more = Traffic { clients: 61, ..few.clone() };
    let of_the_first: Vec<Sent> = sent(&more).into_iter().filter(|sent| sent.client < 60).collect();
    assert_eq!(of_the_first, sent(&few));
}

#[test]
fn an_access_log_has_lines_of_the_combined_format_in_order() {
    let traffic = some(Shape::Mix, 1);
    let log = as_access_log(&traffic);
    let line = regex::Regex::new(concat!(
        r"^[0-9a-f.:]+ - - \[\d\d/Jan/2026:(\d\d:\d\d:\d\d) \+0000\] ",
        r#""(?:GET|POST) /\S* HTTP/[12]\.[01]" [2345]\d\d \d+ "(?:-|https://\S+)" "[^"]+"$"#,
    ))
    .unwrap();
    let times: Vec<&str> = log
        .lines()
        .map(|text| line.captures(text).unwrap_or_else(|| panic!("{text}")).get(1).unwrap().as_str())
        .collect();
    assert_eq!(times.len(), sent(&traffic).len());
    assert!(times.is_sorted());
    for what in ["POST /login", "2001:db8:", "Bot/", "curl/", "python-requests", " 304 ", " 404 "] {
        assert!(log.contains(what), "{what}");
    }
}

#[test]
fn cron_jobs_come_exactly_on_the_minute() {
    let traffic = some(Shape::Mix, 1);
    let cron = sent(&traffic).into_iter().filter(|sent| sent.client == 6);
    assert!(cron.clone().count() >= 20);
    assert!(cron.filter(|sent| sent.time_us % 60_000_000 == 0).count() >= 4);
}

#[test]
fn options_out_of_range_are_refused() {
    let refused = |traffic: Traffic| traffic.requests().map(|_| ()).unwrap_err();
    let some = Traffic::default();
    assert_eq!(refused(Traffic { clients: 0, ..some.clone() }), TrafficError::Clients { clients: 0 });
    let clients = MAX_CLIENTS + 1;
    assert_eq!(refused(Traffic { clients, ..some.clone() }), TrafficError::Clients { clients });
    assert_eq!(refused(Traffic { duration_us: 0, ..some.clone() }), TrafficError::Duration);
    assert_eq!(refused(Traffic { start_us: u64::MAX, ..some.clone() }), TrafficError::Duration);
    assert_eq!(refused(Traffic { per_minute: 0.0, ..some.clone() }), TrafficError::Rate { per_minute: 0.0 });
    assert_eq!(refused(Traffic { cost: 0, ..some }), TrafficError::Cost { cost: 0 });
    assert_eq!("wavy".parse::<Shape>(), Err(TrafficError::Shape { text: "wavy".to_owned() }));
    assert!(Shape::ALL.iter().all(|shape| shape.as_str().parse() == Ok(*shape)));
}
