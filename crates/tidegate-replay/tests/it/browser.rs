//! Chromium without a screen: opens pages in frames of given widths, and tells what was measured there and what it complained
//! about.

use std::path::Path;
use std::process::{Command, Output};

use serde::Deserialize;

/// Which scheme the reader prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Light,
    Dark,
}

/// What a page turned out to be.
#[derive(Debug, Deserialize)]
pub(crate) struct Measured {
    /// The colour of the paper, as the browser computes it.
    pub(crate) background: String,
    /// Width and height of each chart.
    pub(crate) charts: Vec<(f64, f64)>,
    /// How much wider than the window the page is.
    pub(crate) overflow: f64,
    /// The height of the whole page.
    pub(crate) height: f64,
    /// Letters that stand out of the page, and letters of one chart that meet.
    pub(crate) strays: Vec<String>,
    /// What was loaded beside the page.
    pub(crate) loaded: Vec<String>,
    /// The title that the page has in the end.
    pub(crate) title: String,
}

/// Opens pages, each at its width, and measures them; the second is what stood on the console.
pub(crate) fn measure(pages: &[(&str, u32)], scheme: Scheme) -> (Vec<Measured>, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let frames: Vec<(&str, u32, u32)> = pages.iter().map(|(page, width)| (*page, *width, 1_000)).collect();
    let path = framed(dir.path(), &frames, include_str!("measure.js"));
    let output = chromium(dir.path(), scheme, &["--virtual-time-budget=5000", "--dump-dom", &path]);
    let dom = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    let json = dom.split_once("<pre id=\"measured\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let json = json.unwrap_or_else(|| panic!("nothing was measured: {said}")).0;
    let json = json.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let console = said.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    (serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error} in {json}")), console)
}

/// Writes a picture of a page that is so high at this width.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "pixels")]
pub(crate) fn screenshot(page: &str, width: u32, height: f64, scheme: Scheme, to: &Path) {
    let height = height.ceil() as u32;
    let dir = tempfile::tempdir().unwrap();
    let path = framed(dir.path(), &[(page, width, height)], "");
    let (size, to) = (format!("--window-size={width},{height}"), format!("--screenshot={}", to.display()));
    chromium(dir.path(), scheme, &["--hide-scrollbars", &size, &to, &path]);
}

/// Prints a page.
pub(crate) fn print(page: &str, scheme: Scheme, to: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("page.html");
    std::fs::write(&path, page).unwrap();
    let to = format!("--print-to-pdf={}", to.display());
    chromium(dir.path(), scheme, &["--no-pdf-header-footer", &to, path.to_str().unwrap()]);
}

/// A page around pages, with their widths and heights. Windows can't be as narrow as a telephone, frames can; and the measuring
/// script stands outside, so that a page is the one that people get.
fn framed(dir: &Path, pages: &[(&str, u32, u32)], script: &str) -> String {
    let path = dir.join("frame.html");
    let frame = |(page, width, height): &(&str, u32, u32)| {
        let page = page.replace('&', "&amp;").replace('"', "&quot;");
        format!("<iframe style=\"width:{width}px;height:{height}px\" srcdoc=\"{page}\"></iframe>")
    };
    let around = format!(
        "<!DOCTYPE html><html><head><meta charset=\"utf-8\"><meta name=\"color-scheme\" content=\"light dark\">\
         <style>body{{margin:0}}iframe{{border:0;display:block}}</style></head>\
         <body>{}<script>{script}</script></body></html>",
        pages.iter().map(frame).collect::<String>(),
    );
    std::fs::write(&path, around).unwrap();
    path.to_str().unwrap().to_owned()
}

fn chromium(dir: &Path, scheme: Scheme, arguments: &[&str]) -> Output {
    let preferred = match scheme {
        Scheme::Light => "--blink-settings=preferredColorScheme=1",
        Scheme::Dark => "--blink-settings=preferredColorScheme=0",
    };
    let profile = format!("--user-data-dir={}", dir.join("profile").display());
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        .args(["--disable-background-networking", "--enable-logging=stderr", preferred, &profile])
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("chromium does not start ({error}); scripts/peers installs it"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}
