//! Snapshots of the screen.

use ratatui::{Terminal, backend::TestBackend};
use serde_json::json;

use super::{
    super::{
        live_stream::LiveUpdate,
        samples,
        state::{Press, State},
        theme::Theme,
    },
    draw,
};

const THEME: Theme = Theme { has_colours: true };

fn screen(state: &State, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
    terminal.draw(|frame| draw(frame, state, THEME)).expect("it can be drawn on");
    terminal.backend().to_string()
}

fn state_after(update: LiveUpdate) -> State {
    let mut state = State::new("http://127.0.0.1:8080", samples::NOW_MS);
    state.update(update);
    state
}

#[test]
fn overview() {
    insta::assert_snapshot!(screen(&state_after(samples::overview_update()), 80, 24));
}

#[test]
fn overview_with_room() {
    let mut state = state_after(samples::overview_update());
    state.press(Press::Down);
    insta::assert_snapshot!(screen(&state, 120, 40));
}

#[test]
fn policy() {
    let mut state = state_after(samples::overview_update());
    state.press(Press::Enter);
    state.update(samples::hits_update());
    insta::assert_snapshot!(screen(&state, 80, 24));
}

#[test]
fn stale() {
    let mut state = state_after(samples::overview_update());
    state.update(LiveUpdate::Lost("the service ended the stream".to_owned()));
    state.advance(samples::NOW_MS + 12_345);
    insta::assert_snapshot!(screen(&state, 80, 24));
}

#[test]
fn no_update_yet() {
    let mut state = State::new("http://127.0.0.1:8080", samples::NOW_MS);
    assert!(screen(&state, 80, 24).contains("connecting"));
    state.update(LiveUpdate::Lost("io: Connection refused".to_owned()));
    state.advance(samples::NOW_MS + 500);
    assert!(screen(&state, 80, 24).contains("not live: no update for 0s, reconnecting (io: Connection refused)"));
}

#[test]
fn small() {
    insta::assert_snapshot!(screen(&state_after(samples::overview_update()), 60, 20));
    for (width, height) in [(1, 1), (79, 24), (80, 23)] {
        screen(&state_after(samples::overview_update()), width, height);
    }
}

#[test]
fn redis_with_an_open_breaker() {
    let state = state_after(samples::overview_with(|overview| {
        overview["store"] = json!({
            "kind": "redis", "answers": false, "keys": null, "max_keys": null, "bytes": null, "max_bytes": null,
            "evicted": null, "no_room": null, "may_evict": false,
            "nodes": [
                {"node": "10.0.0.1:6379", "breaker": "closed"}, {"node": "10.0.0.2:6379", "breaker": "open"},
                {"node": "10.0.0.3:6379", "breaker": "half_open"},
            ],
            "degraded": {"open": 1, "closed": 2, "local": 3}, "errors": [{"kind": "timeout", "count": 3}]
        });
        overview["configuration_error"] = json!("tidegate.toml:3: `none` is not a limit");
    }));
    insta::assert_snapshot!(screen(&state, 120, 30));
}

#[test]
fn hostile_keys() {
    let hostile = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}evil\u{200b}\r\n";
    let mut state = state_after(samples::overview_with(|overview| {
        overview["journal"][1]["text"] = json!(format!("{hostile} is banned under public-api"));
        overview["policies"][3]["limits"] = json!([hostile]);
    }));
    state.press(Press::Enter);
    state.update(samples::hits_with(|hits| {
        hits["hardest"][0]["label"] = json!(hostile);
        hits["hardest"][1]["label"] = json!("東京".repeat(100));
        hits["nearest"][0]["label"] = json!(hostile);
        hits["nearest"][1]["label"] = json!("");
    }));
    let shown = screen(&state, 120, 30);
    assert!(!shown.chars().any(|letter| letter != '\n' && letter.is_control() || letter == '\u{202e}'), "{shown}");
    insta::assert_snapshot!(shown);
}

#[test]
fn leases_of_a_policy() {
    let mut state = state_after(samples::overview_with(samples::add_leases));
    state.press(Press::Enter);
    state.update(samples::hits_update());
    insta::assert_snapshot!(screen(&state, 120, 36));
    // The lists keep their place on the smallest screen.
    assert!(screen(&state, 80, 24).contains("Nearest to the limit"));
}

#[test]
fn paused_and_help() {
    let mut state = state_after(samples::overview_update());
    state.press(Press::Pause);
    assert!(screen(&state, 80, 24).contains("paused at 2026-11-16 15:20:58 UTC"));
    state.press(Press::Help);
    insta::assert_snapshot!(screen(&state, 80, 24));
}

#[test]
fn without_colours_no_cell_has_one() {
    let mut terminal = Terminal::new(TestBackend::new(120, 40)).expect("a screen");
    let mut state = state_after(samples::overview_update());
    state.update(LiveUpdate::Lost("gone".to_owned()));
    terminal.draw(|frame| draw(frame, &state, Theme { has_colours: false })).expect("it can be drawn on");
    let cells = &terminal.backend().buffer().content;
    assert!(
        cells.iter().all(|cell| cell.fg == ratatui::style::Color::Reset && cell.bg == ratatui::style::Color::Reset)
    );
}
