//! The page, without a browser: every tag is closed, nothing foreign is markup, and nothing is loaded.

use tidegate_replay::page::replay;

use crate::sample;

fn parsed(page: &str) -> roxmltree::Document<'_> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..roxmltree::ParsingOptions::default() };
    roxmltree::Document::parse_with_options(page, options).unwrap()
}

#[test]
fn every_page_is_well_formed() {
    for (name, findings) in sample::all() {
        let page = replay(&findings);
        let document = parsed(&page);
        let headings: Vec<u32> =
            document.descendants().filter_map(|node| node.tag_name().name().strip_prefix('h')?.parse().ok()).collect();
        assert_eq!(headings[0], 1, "{name}");
        assert!(headings.windows(2).all(|pair| pair[1] > 1 && pair[1] <= pair[0] + 1), "{name}: {headings:?}");
        for number in ["NaN", "inf"] {
            assert!(!page.contains(&format!("\"{number}")), "{name} has a place that is {number}");
        }
    }
}

#[test]
fn every_chart_and_table_is_told_to_those_who_do_not_see_it() {
    let page = replay(&sample::usual());
    let document = parsed(&page);
    let all = |tag: &'static str| document.descendants().filter(move |node| node.has_tag_name(tag));
    let charts: Vec<_> =
        all("svg").filter(|svg| svg.attribute("class").is_some_and(|class| class.starts_with("chart"))).collect();
    // Shares, requests, denials, two curves, waits, and two for each of four clients.
    assert_eq!(charts.len(), 14);
    for chart in charts {
        assert_eq!(chart.attribute("role"), Some("img"));
        assert!(chart.attribute("aria-label").is_some_and(|label| label.len() > 10));
    }
    for table in all("table") {
        assert!(table.children().any(|node| node.has_tag_name("caption")));
    }
    assert!(all("th").all(|th| th.attribute("scope").is_some()));
}

#[test]
fn the_headline_answers() {
    let page = replay(&sample::usual());
    let headline =
        "60/1m sliding_log</bdi> would have denied 1.2\u{a0}% of 10,000 requests and touched 4 of 1,753 clients.";
    assert!(page.contains(headline));
}

#[test]
fn nothing_foreign_is_markup() {
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
    for (name, findings) in sample::all() {
        let page = replay(&findings);
        let document = parsed(&page);
        let addresses = ["src", "href", "srcset", "action", "data"];
        let loads = document.descendants().flat_map(|node| node.attributes()).find(|a| addresses.contains(&a.name()));
        assert_eq!(loads, None, "{name}");
        let style =
            document.descendants().find(|node| node.has_tag_name("style")).and_then(|style| style.text()).unwrap();
        assert!(!style.contains("@import") && !style.replace("url(#", "").contains("url("), "{name}");
    }
}
