//! Writes traffic as an access log in the combined format of nginx and Apache. The times are whole seconds, and the log has no costs.

use std::io::{self, Write};

use super::{RequestKind, SimulatedRequest, Traffic};
use crate::{
    formatting::strftime,
    simulate::random::{Random, hash},
};

const SITE: &str = "https://shop.example";
const BROWSERS: [&str; 5] = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/143.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (X11; Linux x86_64; rv:146.0) Gecko/20100101 Firefox/146.0",
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/143.0.0.0 Mobile Safari/537.36",
];
const SCRAPERS: [&str; 3] = [
    "Mozilla/5.0 (compatible; PriceBot/2.1; +https://prices.example/bot)",
    "Scrapy/2.13.3 (+https://scrapy.org)",
    "Mozilla/5.0 (compatible; IndexBot/1.0; +https://index.example/about)",
];
const SCRIPTS: [&str; 3] = ["python-requests/2.32.5", "Go-http-client/1.1", "okhttp/4.12.0"];
const PAGES: [&str; 6] = ["/", "/products", "/cart", "/account", "/about", "/search?q=lamp"];
const ASSETS: [&str; 8] = [
    "/assets/app.4f2a.css",
    "/assets/app.91bc.js",
    "/assets/vendor.7d10.js",
    "/fonts/inter.woff2",
    "/img/logo.svg",
    "/img/hero.webp",
    "/api/cart",
    "/favicon.ico",
];
const CALLS: [&str; 4] = ["/api/v1/items", "/api/v1/stock", "/api/v1/prices?page=2", "/api/v1/orders"];
const JOBS: [&str; 3] = ["/api/v1/export", "/api/v1/sync", "/healthz"];

/// The fields of a line other than the address and the time.
struct LogEntry<'a> {
    method: &'static str,
    path: String,
    status: u16,
    bytes: u64,
    referer: &'static str,
    agent: &'a str,
}

/// Writes requests as lines of an access log. Returns the number of requests.
///
/// # Errors
/// If the output fails.
pub fn write(
    traffic: &Traffic,
    requests: impl Iterator<Item = SimulatedRequest>,
    out: &mut impl Write,
) -> io::Result<u64> {
    // No client uses this stream.
    let mut random = Random::new(traffic.seed, u64::MAX);
    let (mut second, mut date) = (None, String::new());
    let mut written = 0;
    for request in requests {
        if second != Some(request.time_us / 1_000_000) {
            second = Some(request.time_us / 1_000_000);
            date = strftime(request.time_us, "%d/%b/%Y:%H:%M:%S +0000");
        }
        let address = traffic.address(request.client);
        let LogEntry { method, path, status, bytes, referer, agent } = entry(traffic, &request, &mut random);
        let protocol =
            if matches!(request.kind, RequestKind::Page | RequestKind::Asset) { "HTTP/2.0" } else { "HTTP/1.1" };
        write!(out, "{address} - - [{date}] \"{method} {path} {protocol}\" {status} {bytes} ")?;
        match referer {
            "" => writeln!(out, "\"-\" \"{agent}\"")?,
            path => writeln!(out, "\"{SITE}{path}\" \"{agent}\"")?,
        }
        written += 1;
    }
    Ok(written)
}

fn entry<'a>(traffic: &Traffic, request: &SimulatedRequest, random: &mut Random) -> LogEntry<'a> {
    // A client always has the same user agent.
    let client = hash(traffic.seed ^ hash(request.client.into()));
    let get =
        |path: String, bytes: u64, referer, agent| LogEntry { method: "GET", path, status: 200, bytes, referer, agent };
    let mut entry = match request.kind {
        RequestKind::Page => {
            let path = match random.below(10) {
                0..=4 => random.pick(&PAGES).to_owned(),
                _ => format!("/products/{}", 1_000 + random.below(900)),
            };
            let referer = if random.chance(0.4) { "" } else { random.pick(&PAGES) };
            get(path, 8_000 + random.below(40_000), referer, of(&BROWSERS, client))
        }
        RequestKind::Asset => {
            let path = match random.below(3) {
                0 => format!("/img/products/{}.webp", 1_000 + random.below(900)),
                _ => random.pick(&ASSETS).to_owned(),
            };
            get(path, 400 + random.below(120_000), random.pick(&PAGES), of(&BROWSERS, client))
        }
        RequestKind::Crawl => {
            let path = format!("/products/{}", 1_000 + random.below(900));
            get(path, 8_000 + random.below(40_000), "", of(&SCRAPERS, client))
        }
        RequestKind::Api => get(random.pick(&CALLS).to_owned(), 200 + random.below(6_000), "", of(&SCRIPTS, client)),
        RequestKind::Job => get(of(&JOBS, client).to_owned(), 20 + random.below(300), "", "curl/8.14.1"),
        RequestKind::Login => LogEntry {
            method: "POST",
            path: "/login".to_owned(),
            status: 401,
            bytes: 121,
            referer: "",
            agent: "python-requests/2.32.5",
        },
    };
    match (request.kind, random.below(1_000)) {
        (RequestKind::Login, _) => {}
        (_, 0..2) => (entry.status, entry.bytes) = (500, 176),
        (RequestKind::Page | RequestKind::Crawl, 2..25) => (entry.status, entry.bytes) = (404, 1_532),
        (RequestKind::Asset, 2..250) => (entry.status, entry.bytes) = (304, 0),
        (RequestKind::Page, 25..60) => (entry.status, entry.bytes) = (302, 0),
        _ => {}
    }
    entry
}

#[expect(clippy::cast_possible_truncation, reason = "below a length")]
fn of<'a>(choices: &[&'a str], number: u64) -> &'a str {
    choices[(number % choices.len() as u64) as usize]
}
