//! The pages without a browser: every tag is closed, foreign text is never markup, and nothing is loaded.

use tidegate_replay::page::replay;

use crate::{sample, simulated};

/// Returns all pages with their names.
fn all() -> Vec<(String, String)> {
    let samples = sample::all().into_iter().map(|(name, findings)| (name.to_owned(), replay(&findings)));
    let simulated = [
        simulated::REPLAYS.clone(),
        simulated::BOUNDARIES.clone(),
        simulated::ACCURACIES.clone(),
        simulated::COMPARISONS.clone(),
    ];
    samples.chain(simulated.concat()).collect()
}

fn page_of(pages: &[(String, String)], wanted: &str) -> String {
    pages.iter().find(|(name, _)| name == wanted).unwrap_or_else(|| panic!("no {wanted}")).1.clone()
}

fn parsed(page: &str) -> roxmltree::Document<'_> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..roxmltree::ParsingOptions::default() };
    roxmltree::Document::parse_with_options(page, options).unwrap()
}

#[test]
fn every_page_is_well_formed() {
    for (name, page) in all() {
        let document = parsed(&page);
        let headings: Vec<u32> =
            document.descendants().filter_map(|node| node.tag_name().name().strip_prefix('h')?.parse().ok()).collect();
        assert_eq!(headings[0], 1, "{name}");
        assert!(headings.windows(2).all(|pair| pair[1] > 1 && pair[1] <= pair[0] + 1), "{name}: {headings:?}");
        for number in ["NaN", "inf"] {
            assert!(!page.contains(&format!("\"{number}")), "{name} has a position that is {number}");
        }
    }
}

#[test]
fn every_chart_and_table_has_a_description() {
    for (name, page) in all() {
        let document = parsed(&page);
        let all = |tag: &'static str| document.descendants().filter(move |node| node.has_tag_name(tag));
        let is_chart = |class: &str| class.starts_with("chart");
        for chart in all("svg").filter(|svg| svg.attribute("class").is_some_and(is_chart)) {
            assert_eq!(chart.attribute("role"), Some("img"), "{name}");
            assert!(chart.attribute("aria-label").is_some_and(|label| label.len() > 10), "{name}");
        }
        for table in all("table") {
            assert!(table.children().any(|node| node.has_tag_name("caption")), "{name}");
        }
        assert!(all("th").all(|th| th.attribute("scope").is_some()), "{name}");
    }
}

#[test]
fn the_headline_of_a_replay_reports_the_denials() {
    let page = replay(&sample::usual());
    let headline =
        "60/1m sliding_log</bdi> would have denied 1.2\u{a0}% of 10,000 requests and affected 4 of 1,753 clients.";
    assert!(page.contains(headline));
}

#[test]
fn the_headline_of_a_boundary_names_the_algorithms_above_the_limit() {
    let pages = &simulated::BOUNDARIES;
    for (name, headline) in [
        (
            "boundary",
            "Around a window boundary, sliding_counter and fixed_window admit 200 within 1m (gcra 199), where the limit is 100; \
             sliding_log and sliding_buckets:10 never admit more than 100.",
        ),
        (
            "boundary_of_one",
            "Around a window boundary, sliding_log never admits more than 10 within 1s, which is the limit.",
        ),
        ("boundary_of_none", "No algorithm was tried."),
    ] {
        let page = page_of(pages, name);
        assert!(page.contains(&format!("<h1>{headline}</h1>")), "{name}");
    }
}

#[test]
fn the_published_rate_is_compared_with_the_measured_rates() {
    let pages = &simulated::ACCURACIES;
    let page = page_of(pages, "accuracy");
    for text in [
        "Cloudflare reports about 0.003\u{a0}% of wrong decisions",
        "<bdi>poisson</bdi>",
        "simulated clients request 0.25 times the limit on average; seed 1",
    ] {
        assert!(page.contains(text), "{text}");
    }
    assert!(!page_of(pages, "accuracy_of_nothing").contains("Cloudflare"));
    assert!(page_of(pages, "accuracy_of_one").contains("<h1>Only sliding_log was tried, and it is never wrong.</h1>"));
}

#[test]
fn the_headline_of_a_comparison_reports_the_denials() {
    let pages = &simulated::COMPARISONS;
    assert!(
        page_of(pages, "comparison").contains("<h1>Of 3,168 requests, sliding_log denies 21\u{a0}%, the others from")
    );
    assert!(page_of(pages, "comparison_of_one_request").contains("<h1>No algorithm denies any of 1 request.</h1>"));
    let nothing = page_of(pages, "comparison_of_nothing");
    assert!(nothing.contains("<h1>The input has no requests, so there is nothing to decide.</h1>"));
}

#[test]
fn foreign_text_is_never_markup() {
    let page = replay(&sample::hostile());
    let document = parsed(&page);
    let tags: Vec<&str> = document.descendants().map(|node| node.tag_name().name()).collect();
    assert!(!tags.iter().any(|tag| ["script", "img", "link", "iframe"].contains(tag)), "{tags:?}");
    assert_eq!(tags.iter().filter(|tag| **tag == "b").count(), 1, "only that of the page itself");
    assert_eq!(tags.iter().filter(|tag| **tag == "h1").count(), 1);
    let on =
        document.descendants().flat_map(|node| node.attributes()).find(|attribute| attribute.name().starts_with("on"));
    assert_eq!(on, None);
    assert!(page.chars().all(|c| c == '\n' || !c.is_control()));
}

#[test]
fn nothing_is_loaded() {
    for (name, page) in all() {
        let document = parsed(&page);
        let addresses = ["src", "href", "srcset", "action", "data"];
        let loads = document.descendants().flat_map(|node| node.attributes()).find(|a| addresses.contains(&a.name()));
        assert_eq!(loads, None, "{name}");
        let style =
            document.descendants().find(|node| node.has_tag_name("style")).and_then(|style| style.text()).unwrap();
        assert!(!style.contains("@import") && !style.replace("url(#", "").contains("url("), "{name}");
    }
}
