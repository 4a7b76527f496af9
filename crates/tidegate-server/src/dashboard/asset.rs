//! [`Asset`]: a file of the page. The files are part of the program, plain and compressed.

use std::{io::Write as _, sync::LazyLock};

use flate2::{Compression, write::GzEncoder};
use sha2::{Digest as _, Sha256};

/// A file of the page.
#[derive(Debug)]
pub(super) struct Asset {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) text: String,
    /// The compressed bytes.
    pub(super) gzip: Vec<u8>,
    /// The entity tag.
    pub(super) tag: String,
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("assets/", $name)))),*]
    };
}

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let files = files![
        "actions.js",
        "admissions.js",
        "api.js",
        "banners.js",
        "chart.js",
        "comparison.js",
        "dashboard.js",
        "dialog.js",
        "dom.js",
        "empty.js",
        "favicon.svg",
        "format.js",
        "hardest.js",
        "index.html",
        "key.js",
        "known.js",
        "lanes.js",
        "leases.js",
        "limits.js",
        "login.js",
        "main.js",
        "meter.js",
        "overrides.js",
        "overview.js",
        "policy.js",
        "requests.js",
        "reservations.js",
        "stream.js",
        "style.css",
        "timeline.js",
        "try.js",
    ];
    // The browser loads all modules at once, instead of each one when another one imports it.
    let modules = files.iter().filter_map(|(name, _)| name.strip_suffix(".js"));
    let preload = |module| format!("<link rel=\"modulepreload\" href=\"/assets/{module}.js\">\n");
    let preloads: String = modules.map(preload).collect();
    files.into_iter().map(|(name, text)| Asset::new(name, text.replace("<!-- preloads -->\n", &preloads))).collect()
});

/// Returns the file with this name.
pub(super) fn asset(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

impl Asset {
    fn new(name: &'static str, text: String) -> Self {
        let kind = match name.rsplit_once('.').map(|(_, ending)| ending) {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "application/octet-stream",
        };
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(text.as_bytes()).expect("a list takes all bytes");
        let digest = Sha256::digest(&text);
        let tag = format!("\"{:x}\"", u64::from_be_bytes(*digest.first_chunk().expect("a digest is longer")));
        Self { name, kind, text, gzip: gzip.finish().expect("a list takes all bytes"), tag }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{ASSETS, asset};

    /// Returns the bytes of all files, compressed and uncompressed.
    fn sizes() -> [usize; 2] {
        [ASSETS.iter().map(|asset| asset.gzip.len()).sum(), ASSETS.iter().map(|asset| asset.text.len()).sum()]
    }

    #[test]
    fn every_file_is_served_and_their_total_size_is_small() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dashboard/assets");
        for file in std::fs::read_dir(folder).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            assert!(asset(&name).is_some_and(|asset| asset.kind != "application/octet-stream"), "{name}");
        }
        let [compressed, _] = sizes();
        assert!(compressed <= 150_000, "{compressed} bytes are too many");
    }

    #[test]
    fn the_documented_size_of_the_page_is_right_within_a_twentieth() {
        let figures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures.md");
        let figures = std::fs::read_to_string(figures).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        let (_, sentence) = figures.split_once("The whole page is ").expect("a sentence about the size");
        let numbers = sentence.split(|char: char| !char.is_ascii_digit()).filter_map(|digits| digits.parse().ok());
        let documented: Vec<usize> = numbers.take(2).collect();
        let is_right = |(kilobytes, size): (&usize, &usize)| (kilobytes * 1_000).abs_diff(*size) <= size / 20;
        let [compressed, plain] = sizes();
        assert!(
            documented.iter().zip(&[compressed, plain]).all(is_right),
            "write: The whole page is {} kB compressed ({} kB uncompressed).",
            (compressed + 500) / 1_000,
            (plain + 500) / 1_000
        );
    }
}
