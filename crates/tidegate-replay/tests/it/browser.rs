//! Opens pages in headless Chromium, in frames of given widths. Returns measurements and console messages.

use std::path::Path;
use std::process::{Command, Output};

use serde::Deserialize;

/// Preferred colour scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Light,
    Dark,
}

/// Measurements of a page.
#[derive(Debug, Deserialize)]
pub(crate) struct Measured {
    /// Background colour.
    pub(crate) background: String,
    /// Width and height of each chart.
    pub(crate) charts: Vec<(f64, f64)>,
    /// Width of the page beyond the window.
    pub(crate) overflow: f64,
    /// The height of the whole page.
    pub(crate) height: f64,
    /// Texts outside of the page, and texts of one chart that overlap another text or a line.
    pub(crate) strays: Vec<String>,
    /// Loaded resources.
    pub(crate) loaded: Vec<String>,
    /// Title of the page.
    pub(crate) title: String,
}

/// Measures pages, each at its width. Also returns the console messages.
pub(crate) fn measure(pages: &[(&str, u32)], scheme: Scheme) -> (Vec<Measured>, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let frames: Vec<(&str, u32, u32)> = pages.iter().map(|(page, width)| (*page, *width, 1_000)).collect();
    let path = framed(dir.path(), &frames, include_str!("measure.js"));
    let output = chromium(dir.path(), scheme, &["--virtual-time-budget=5000", "--dump-dom", &path]);
    let dom = String::from_utf8_lossy(&output.stdout);
    let messages = String::from_utf8_lossy(&output.stderr);
    let json = dom.split_once("<pre id=\"measured\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let json = json.unwrap_or_else(|| panic!("nothing was measured: {messages}")).0;
    let json = json.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let console = messages.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    (serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error} in {json}")), console)
}

/// Writes a picture of a page of this width and height.
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

/// Writes a page with frames. A frame can be as narrow as a phone, a window can't. The script is outside of the pages, so that the pages
/// are unchanged.
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
