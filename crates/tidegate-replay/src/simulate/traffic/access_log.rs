//! Traffic as an access log in the combined format, as nginx and Apache write it. Its times are whole seconds, and costs have no
//! place in it.

use std::io::{self, Write};

use super::{
    Traffic,
    requests::{Sent, What},
};
use crate::{
    figures::strftime,
    simulate::random::{Random, scatter},
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

/// What a line tells beside who and when.
struct Line<'a> {
    method: &'static str,
    path: String,
    status: u16,
    bytes: u64,
    referer: &'static str,
    agent: &'a str,
}

/// Writes requests as lines of an access log; how many there were.
///
/// # Errors
/// If the output takes no more.
pub fn write(traffic: &Traffic, requests: impl Iterator<Item = Sent>, out: &mut impl Write) -> io::Result<u64> {
    // A stream that no client has.
    let mut random = Random::new(traffic.seed, u64::MAX);
    let (mut second, mut date) = (None, String::new());
    let mut written = 0;
    for sent in requests {
        if second != Some(sent.time_us / 1_000_000) {
            second = Some(sent.time_us / 1_000_000);
            date = strftime(sent.time_us, "%d/%b/%Y:%H:%M:%S +0000");
        }
        let name = traffic.name(sent.client);
        let Line { method, path, status, bytes, referer, agent } = line(traffic, &sent, &mut random);
        let protocol = if sent.what == What::Page || sent.what == What::Asset { "HTTP/2.0" } else { "HTTP/1.1" };
        write!(out, "{name} - - [{date}] \"{method} {path} {protocol}\" {status} {bytes} ")?;
        match referer {
            "" => writeln!(out, "\"-\" \"{agent}\"")?,
            path => writeln!(out, "\"{SITE}{path}\" \"{agent}\"")?,
        }
        written += 1;
    }
    Ok(written)
}

fn line<'a>(traffic: &Traffic, sent: &Sent, random: &mut Random) -> Line<'a> {
    // A client's agent is always the same.
    let own = scatter(traffic.seed ^ scatter(sent.client.into()));
    let get =
        |path: String, bytes: u64, referer, agent| Line { method: "GET", path, status: 200, bytes, referer, agent };
    let mut line = match sent.what {
        What::Page => {
            let path = match random.below(10) {
                0..=4 => random.pick(&PAGES).to_owned(),
                _ => format!("/products/{}", 1_000 + random.below(900)),
            };
            let referer = if random.chance(0.4) { "" } else { random.pick(&PAGES) };
            get(path, 8_000 + random.below(40_000), referer, of(&BROWSERS, own))
        }
        What::Asset => {
            let path = match random.below(3) {
                0 => format!("/img/products/{}.webp", 1_000 + random.below(900)),
                _ => random.pick(&ASSETS).to_owned(),
            };
            get(path, 400 + random.below(120_000), random.pick(&PAGES), of(&BROWSERS, own))
        }
        What::Crawl => {
            let path = format!("/products/{}", 1_000 + random.below(900));
            get(path, 8_000 + random.below(40_000), "", of(&SCRAPERS, own))
        }
        What::Api => get(random.pick(&CALLS).to_owned(), 200 + random.below(6_000), "", of(&SCRIPTS, own)),
        What::Job => get(of(&JOBS, own).to_owned(), 20 + random.below(300), "", "curl/8.14.1"),
        What::Login => Line {
            method: "POST",
            path: "/login".to_owned(),
            status: 401,
            bytes: 121,
            referer: "",
            agent: "python-requests/2.32.5",
        },
    };
    match (sent.what, random.below(1_000)) {
        (What::Login, _) => {}
        (_, 0..2) => (line.status, line.bytes) = (500, 176),
        (What::Page | What::Crawl, 2..25) => (line.status, line.bytes) = (404, 1_532),
        (What::Asset, 2..250) => (line.status, line.bytes) = (304, 0),
        (What::Page, 25..60) => (line.status, line.bytes) = (302, 0),
        _ => {}
    }
    line
}

#[expect(clippy::cast_possible_truncation, reason = "below a length")]
fn of<'a>(choices: &[&'a str], number: u64) -> &'a str {
    choices[(number % choices.len() as u64) as usize]
}
