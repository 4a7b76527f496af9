//! Writes traffic as an access log in the combined format of nginx and Apache. The times are whole seconds, and lines have no costs.
//! Durations are the last word of a line, as `%D` of Apache writes them.

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

/// Writes requests as lines of an access log.
///
/// # Errors
/// If the output fails.
pub fn write(
    traffic: &Traffic,
    requests: impl Iterator<Item = SimulatedRequest>,
    out: &mut impl Write,
) -> io::Result<()> {
    // No client uses this stream.
    let mut random = Random::new(traffic.seed, u64::MAX);
    let (mut second, mut date) = (None, String::new());
    for SimulatedRequest { time_us, client, kind, duration_us, .. } in requests {
        if second != Some(time_us / 1_000_000) {
            second = Some(time_us / 1_000_000);
            date = strftime(time_us, "%d/%b/%Y:%H:%M:%S +0000");
        }
        // A client always has the same user agent.
        let agent = hash(traffic.seed ^ hash(client.into()));
        let (path, bytes, referer, agent) = resource(kind, agent, &mut random);
        let (status, bytes) = status(kind, random.below(1_000)).unwrap_or((200, bytes));
        let method = if kind == RequestKind::Login { "POST" } else { "GET" };
        let protocol = if matches!(kind, RequestKind::Page | RequestKind::Asset) { "HTTP/2.0" } else { "HTTP/1.1" };
        let referer = if referer.is_empty() { "-".to_owned() } else { format!("{SITE}{referer}") };
        let address = traffic.address(client);
        let request = format_args!("{method} {path} {protocol}");
        write!(out, "{address} - - [{date}] \"{request}\" {status} {bytes} \"{referer}\" \"{agent}\"")?;
        if traffic.mean_request_us > 0 {
            write!(out, " {duration_us}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Returns the path of a request, the size of the response, the path of the referer and the user agent.
fn resource(kind: RequestKind, client: u64, random: &mut Random) -> (String, u64, &'static str, &'static str) {
    match kind {
        RequestKind::Page => {
            let path = match random.below(10) {
                0..=4 => random.pick(&PAGES).to_owned(),
                _ => format!("/products/{}", 1_000 + random.below(900)),
            };
            let referer = if random.chance(0.4) { "" } else { random.pick(&PAGES) };
            (path, 8_000 + random.below(40_000), referer, of(&BROWSERS, client))
        }
        RequestKind::Asset => {
            let path = match random.below(3) {
                0 => format!("/img/products/{}.webp", 1_000 + random.below(900)),
                _ => random.pick(&ASSETS).to_owned(),
            };
            (path, 400 + random.below(120_000), random.pick(&PAGES), of(&BROWSERS, client))
        }
        RequestKind::Crawl => {
            let path = format!("/products/{}", 1_000 + random.below(900));
            (path, 8_000 + random.below(40_000), "", of(&SCRAPERS, client))
        }
        RequestKind::Api => (random.pick(&CALLS).to_owned(), 200 + random.below(6_000), "", of(&SCRIPTS, client)),
        RequestKind::Job => (of(&JOBS, client).to_owned(), 20 + random.below(300), "", "curl/8.14.1"),
        RequestKind::Login => ("/login".to_owned(), 121, "", SCRIPTS[0]),
    }
}

/// Returns the status and the size of a response other than 200. `per_mille` is a random number below 1000.
fn status(kind: RequestKind, per_mille: u64) -> Option<(u16, u64)> {
    match (kind, per_mille) {
        (RequestKind::Login, _) => Some((401, 121)),
        (_, 0..2) => Some((500, 176)),
        (RequestKind::Page | RequestKind::Crawl, 2..25) => Some((404, 1_532)),
        (RequestKind::Asset, 2..250) => Some((304, 0)),
        (RequestKind::Page, 25..60) => Some((302, 0)),
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "below a length")]
fn of(choices: &[&'static str], number: u64) -> &'static str {
    choices[(number % choices.len() as u64) as usize]
}
