//! Traffic follows its options, is in order, and is the same for the same seed.

use super::limit;
use tidegate_replay::simulate::traffic::{
    DEFAULT_START_US, MAX_CLIENTS, SimulatedRequest, Traffic, TrafficError, TrafficShape, access_log, csv,
};

fn some(shape: TrafficShape, seed: u64) -> Traffic {
    let traffic = Traffic { shape, clients: 60, duration_us: 20 * 60_000_000, per_minute: 12.0, ..Traffic::default() };
    Traffic { limit: limit("30/1m"), seed, ..traffic }
}

fn requests_of(traffic: &Traffic) -> Vec<SimulatedRequest> {
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
fn a_seed_repeats_the_traffic_and_another_seed_does_not() {
    let some = |shape, seed| Traffic { duration_us: 4 * 60_000_000, ..some(shape, seed) };
    for shape in TrafficShape::ALL {
        assert_eq!(as_csv(&some(shape, 5)), as_csv(&some(shape, 5)), "{shape}");
        assert_ne!(as_csv(&some(shape, 5)), as_csv(&some(shape, 6)), "{shape}");
        assert_eq!(as_access_log(&some(shape, 5)), as_access_log(&some(shape, 5)), "{shape}");
        assert_ne!(as_access_log(&some(shape, 5)), as_access_log(&some(shape, 6)), "{shape}");
    }
}

#[test]
fn requests_are_in_order_from_the_start_to_the_end() {
    for shape in TrafficShape::ALL {
        let traffic = some(shape, 1);
        let requests = requests_of(&traffic);
        assert!(requests.is_sorted_by_key(|request| request.time_us), "{shape}");
        assert!(requests.iter().all(|request| request.time_us >= traffic.start_us && request.client < 60), "{shape}");
        assert!(requests.iter().all(|request| request.time_us < traffic.start_us + traffic.duration_us), "{shape}");
        let inactive = (0..60).filter(|client| requests.iter().all(|request| request.client != *client)).count();
        assert!(inactive < 12, "{shape}: {inactive} clients send nothing");
    }
}

#[test]
fn the_number_of_requests_follows_the_rate() {
    for shape in [TrafficShape::Poisson, TrafficShape::Bursty, TrafficShape::Diurnal] {
        let requests = requests_of(&some(shape, 3)).len();
        assert!((12_500..16_500).contains(&requests), "{shape}: {requests} for 14400");
    }
}

#[test]
fn the_activity_of_a_site_follows_the_day() {
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
fn traffic_for_a_limit_has_about_the_given_number_of_requests() {
    for text in ["10/1s", "100/1m", "5000/1h", "1000000000000/366d"] {
        for shape in [TrafficShape::Poisson, TrafficShape::Bursty, TrafficShape::Diurnal] {
            let traffic = Traffic::for_limit(limit(text), shape, 4, 8_000, 0.5, 1).unwrap();
            let requests = traffic.requests().unwrap().count();
            assert!((4_500..14_000).contains(&requests), "{text} {shape}: {requests}");
        }
    }
}

#[test]
fn one_more_client_does_not_change_the_others() {
    let few = some(TrafficShape::Adversarial, 1);
    let more = Traffic { clients: 61, ..few.clone() };
    let of_the_first: Vec<SimulatedRequest> =
        requests_of(&more).into_iter().filter(|request| request.client < 60).collect();
    assert_eq!(of_the_first, requests_of(&few));
}

#[test]
fn an_access_log_has_the_combined_format_in_order() {
    let traffic = some(TrafficShape::Mix, 1);
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
    assert_eq!(times.len(), requests_of(&traffic).len());
    assert!(times.is_sorted());
    for what in ["POST /login", "2001:db8:", "Bot/", "curl/", "python-requests", " 304 ", " 404 "] {
        assert!(log.contains(what), "{what}");
    }
}

#[test]
fn cron_jobs_run_exactly_on_the_minute() {
    let traffic = some(TrafficShape::Mix, 1);
    let cron = requests_of(&traffic).into_iter().filter(|request| request.client == 6);
    assert!(cron.clone().count() >= 20);
    assert!(cron.filter(|request| request.time_us % 60_000_000 == 0).count() >= 4);
}

#[test]
fn options_out_of_range_are_errors() {
    let error = |traffic: Traffic| traffic.requests().map(|_| ()).unwrap_err();
    let some = Traffic::default();
    assert_eq!(error(Traffic { clients: 0, ..some.clone() }), TrafficError::Clients { clients: 0 });
    let clients = MAX_CLIENTS + 1;
    assert_eq!(error(Traffic { clients, ..some.clone() }), TrafficError::Clients { clients });
    assert_eq!(error(Traffic { duration_us: 0, ..some.clone() }), TrafficError::Duration);
    assert_eq!(error(Traffic { start_us: u64::MAX, ..some.clone() }), TrafficError::Duration);
    assert_eq!(error(Traffic { per_minute: 0.0, ..some.clone() }), TrafficError::Rate { per_minute: 0.0 });
    assert_eq!(error(Traffic { cost: 0, ..some }), TrafficError::Cost { cost: 0 });
    let load = Traffic::for_limit(limit("1/1s"), TrafficShape::Mix, 1, 1, 0.0, 1);
    assert_eq!(load, Err(TrafficError::Load { load: 0.0 }));
    assert_eq!("wavy".parse::<TrafficShape>(), Err(TrafficError::Shape { text: "wavy".to_owned() }));
    assert!(TrafficShape::ALL.iter().all(|shape| shape.as_str().parse() == Ok(*shape)));
}
