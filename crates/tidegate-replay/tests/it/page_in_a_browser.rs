//! The page in a real browser: wide and narrow, light and dark.

use tidegate_replay::page::replay;

use crate::browser::{self, Scheme};
use crate::sample;

const WIDTHS: [u32; 2] = [1200, 390];

fn is_fine(name: &str, page: &str, charts: Option<usize>, width: u32, scheme: Scheme) {
    let (measured, console) = browser::measure(page, width, scheme);
    let what = format!("{name} at {width} px, {scheme:?}");
    assert_eq!(console, Vec::<String>::new(), "{what}");
    assert_eq!(measured.loaded, Vec::<String>::new(), "{what}");
    assert!(measured.overflow <= 0.0, "{what} is {} px too wide", measured.overflow);
    assert_eq!(measured.strays, Vec::<String>::new(), "{what}");
    assert!(
        measured.charts.iter().all(|(width, height)| *width > 200.0 && *height > 30.0),
        "{what}: {:?}",
        measured.charts
    );
    assert_eq!(charts.unwrap_or(measured.charts.len()), measured.charts.len(), "{what}");
    let paper = if scheme == Scheme::Light { "rgb(255, 255, 255)" } else { "rgb(18, 23, 29)" };
    assert_eq!(measured.background, paper, "{what}");
    assert!(measured.title.ends_with("Tidegate replay"), "{what}: {}", measured.title);
}

#[test]
fn the_page_fits_wide_and_narrow_in_light_and_dark() {
    let page = replay(&sample::usual());
    for width in WIDTHS {
        for scheme in [Scheme::Light, Scheme::Dark] {
            is_fine("usual", &page, Some(14), width, scheme);
        }
    }
}

#[test]
fn odd_findings_fit_too() {
    for (name, findings) in sample::all() {
        for width in WIDTHS {
            is_fine(name, &replay(&findings), None, width, Scheme::Light);
        }
    }
}

#[test]
fn a_complaint_would_be_heard() {
    let page = "<!DOCTYPE html><title>x</title><body><script>console.warn('heard'); missing()</script>";
    let (_, console) = browser::measure(page, 390, Scheme::Light);
    assert_eq!(console.len(), 2, "{console:?}");
    let page = "<!DOCTYPE html><title>x</title><body style=\"width:800px\"><p>wide</p>";
    assert!(browser::measure(page, 390, Scheme::Light).0.overflow > 400.0);
    let page = "<!DOCTYPE html><title>x</title><body><svg class=\"chart\"><text x=\"9\" y=\"20\">one</text>\
                <text x=\"12\" y=\"20\">two</text></svg>";
    assert_eq!(browser::measure(page, 390, Scheme::Light).0.strays, ["meet: one / two"]);
}

/// Pictures to look at, of the samples that `OF` names or of all:
/// `PICTURES=dir OF=usual cargo test -p tidegate-replay --test it -- --ignored pictures`.
#[test]
#[ignore = "for people to look at"]
fn pictures() {
    let dir = std::path::PathBuf::from(std::env::var("PICTURES").expect("PICTURES names a folder"));
    let of = std::env::var("OF").unwrap_or_default();
    for (name, findings) in sample::all().into_iter().filter(|(name, _)| of.is_empty() || of.contains(name)) {
        let page = replay(&findings);
        std::fs::write(dir.join(format!("{name}.html")), &page).unwrap();
        for width in WIDTHS {
            for scheme in [Scheme::Light, Scheme::Dark] {
                let file = format!("{name}-{width}-{scheme:?}.png").to_lowercase();
                browser::screenshot(&page, width, scheme, &dir.join(file));
            }
        }
        browser::print(&page, Scheme::Dark, &dir.join(format!("{name}.pdf")));
    }
}
