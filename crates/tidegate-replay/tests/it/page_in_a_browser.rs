//! The pages in a real browser: wide and narrow, light and dark.

use crate::browser::{self, Measured, Scheme};
use crate::{sample, simulated};
use tidegate_replay::page::replay;

const WIDTHS: [u32; 2] = [1280, 390];

fn is_fine(what: &str, measured: &Measured, scheme: Scheme) {
    assert_eq!(measured.loaded, Vec::<String>::new(), "{what}");
    assert!(measured.overflow <= 0.0, "{what} is {} px too wide", measured.overflow);
    assert!(
        measured.charts.iter().all(|(width, height)| *width > 200.0 && *height > 30.0),
        "{what}: {:?}",
        measured.charts
    );
    let paper = if scheme == Scheme::Light { "rgb(255, 255, 255)" } else { "rgb(18, 23, 29)" };
    assert_eq!(measured.background, paper, "{what}");
    let (_, of) = measured.title.rsplit_once(" · ").unwrap_or_default();
    assert!(["Tidegate replay", "Tidegate simulate"].contains(&of), "{what}: {}", measured.title);
}

/// Checks all pages at all widths. Returns the number of charts of each.
fn are_fine(pages: &[(String, String)], scheme: Scheme) -> Vec<usize> {
    let frames: Vec<(&str, u32)> =
        pages.iter().flat_map(|(_, page)| WIDTHS.map(|width| (page.as_str(), width))).collect();
    let (measured, console) = browser::measure(&frames, scheme);
    assert_eq!(console, Vec::<String>::new());
    assert_eq!(measured.len(), frames.len());
    let mut strays = Vec::new();
    for (measured, ((name, _), width)) in
        measured.iter().zip(pages.iter().flat_map(|page| WIDTHS.map(|width| (page, width))))
    {
        let what = format!("{name} at {width} px, {scheme:?}");
        is_fine(&what, measured, scheme);
        strays.extend(measured.strays.iter().map(|stray| format!("{what}: {stray}")));
    }
    assert!(strays.is_empty(), "{strays:#?}");
    measured.iter().step_by(WIDTHS.len()).map(|measured| measured.charts.len()).collect()
}

fn replayed() -> Vec<(String, String)> {
    sample::all().into_iter().map(|(name, findings)| (name.to_owned(), replay(&findings))).collect()
}

#[test]
fn replays_fit_wide_and_narrow_in_light_and_dark() {
    let pages = replayed();
    assert_eq!(are_fine(&pages, Scheme::Light)[0], 15);
    are_fine(&pages[..1], Scheme::Dark);
}

#[test]
fn pages_of_real_replays_fit_wide_and_narrow() {
    for scheme in [Scheme::Light, Scheme::Dark] {
        are_fine(&simulated::REPLAYS, scheme);
    }
}

#[test]
fn simulations_fit_wide_and_narrow_in_light_and_dark() {
    let pages = [simulated::BOUNDARIES.clone(), simulated::ACCURACIES.clone(), simulated::COMPARISONS.clone()].concat();
    for scheme in [Scheme::Light, Scheme::Dark] {
        are_fine(&pages, scheme);
    }
}

#[test]
fn errors_and_overflows_are_detected() {
    let pages = [
        "<!DOCTYPE html><title>x</title><body><script>console.warn('warning'); missing()</script>",
        "<!DOCTYPE html><title>x</title><body style=\"width:800px\"><p>wide</p>",
        "<!DOCTYPE html><title>x</title><body><svg class=\"chart\"><text x=\"9\" y=\"20\">one</text>\
         <text x=\"12\" y=\"20\">two</text></svg>",
        "<!DOCTYPE html><title>x</title><body><svg class=\"chart\"><text x=\"9\" y=\"20\">label</text>\
         <line class=\"rule\" x1=\"20\" x2=\"20\" y1=\"0\" y2=\"90\" stroke=\"red\"/></svg>",
    ];
    let (measured, console) = browser::measure(&pages.map(|page| (page, 390)), Scheme::Light);
    assert_eq!(console.len(), 2, "{console:?}");
    assert!(measured[1].overflow > 400.0);
    assert_eq!(measured[2].strays, ["overlap: one / two"]);
    assert_eq!(measured[3].strays, ["crossed by a line: label"]);
}

/// Writes pictures of the pages that `OF` names, or of all:
/// `PICTURES=dir OF=usual cargo test -p tidegate-replay --test it -- --ignored pictures`.
#[test]
#[ignore = "writes pictures for people"]
fn pictures() {
    let dir = std::path::PathBuf::from(std::env::var("PICTURES").expect("PICTURES names a folder"));
    let of = std::env::var("OF").unwrap_or_default();
    let all = [
        replayed(),
        simulated::REPLAYS.clone(),
        simulated::BOUNDARIES.clone(),
        simulated::ACCURACIES.clone(),
        simulated::COMPARISONS.clone(),
    ];
    for (name, page) in all.concat().into_iter().filter(|(name, _)| of.is_empty() || of.split(',').any(|of| of == name))
    {
        std::fs::write(dir.join(format!("{name}.html")), &page).unwrap();
        let (measured, _) = browser::measure(&WIDTHS.map(|width| (page.as_str(), width)), Scheme::Light);
        for (width, measured) in WIDTHS.into_iter().zip(measured) {
            for scheme in [Scheme::Light, Scheme::Dark] {
                let file = format!("{name}-{width}-{scheme:?}.png").to_lowercase();
                browser::screenshot(&page, width, measured.height, scheme, &dir.join(file));
            }
        }
        browser::print(&page, Scheme::Dark, &dir.join(format!("{name}.pdf")));
    }
}
