//! One policy: the keys that it hits hardest, and those nearest its limit.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    text::Line,
    widgets::{Paragraph, Wrap},
};

use tidegate_server::dashboard::{DeniedKey, NearLimitKey, PolicyHits};

use super::{
    super::{
        figures::{fit, per_second, share_denied},
        look::Look,
        picture::Picture,
    },
    title,
};
use crate::{times, visible::visible};

/// The policy in a line.
pub(super) fn draw_policy(frame: &mut Frame<'_>, area: Rect, picture: &Picture, name: &str, look: Look) {
    let line = match picture.policy(name) {
        None => Line::styled(format!("{} is gone from the configuration", visible(name)), look.denied()),
        Some(policy) => {
            let seconds = picture.now.last.seconds;
            let counts = policy.counts;
            let mode = policy.mode.as_deref().unwrap_or("-");
            let shadow = if counts.shadow > 0 {
                format!(", {}/s would be denied", per_second(counts.shadow, seconds))
            } else {
                String::new()
            };
            let text = format!(
                "{} ({}, {}): {}/s allowed, {}/s denied ({}){shadow}",
                visible(name),
                visible(mode),
                visible(&policy.limits.join(" ")),
                per_second(counts.allowed, seconds),
                per_second(counts.denied(), seconds),
                share_denied(counts)
            );
            Line::styled(fit(&text, area.width.into()), Look::title())
        }
    };
    frame.render_widget(line, area);
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, picture: &Picture, name: &str, look: Look) {
    if let Some(problem) = &picture.problem {
        let text = format!("whom it hits can't be told: {}", visible(problem));
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }).style(look.denied()), area);
        return;
    }
    let Some(hits) = picture.hits.as_ref().filter(|hits| hits.policy == name) else {
        frame.render_widget(Line::raw("asking whom it hits"), area);
        return;
    };
    let is_shadow = picture.policy(name).is_some_and(|policy| policy.mode.as_deref() == Some("shadow"));
    let [words, lists] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Line::raw(fit(&summary(hits, is_shadow), area.width.into())), words);
    let [left, _, right] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(2), Constraint::Fill(1)]).areas(lists);
    let hardest = hits.hardest.iter().map(|hit| hard(hit, left.width));
    list(frame, left, "Hit hardest: denials, key", hardest);
    let nearest = hits.nearest.iter().map(|near| close(near, right.width));
    list(frame, right, "Nearest the limit: in use, key", nearest);
}

fn summary(hits: &PolicyHits, is_shadow: bool) -> String {
    let denials = if is_shadow { "would-be denials" } else { "denials" };
    let since = times::time_of_day(hits.since_ms);
    let sampled = if hits.sampled { ", partly estimated" } else { "" };
    let keys = match hits.keys.as_str() {
        "hidden" => "; keys are hidden: show the admin token with --token",
        "hashed" => "; keys are hashed, as the policy wants it",
        _ => "",
    };
    format!("{} {denials} since {since}{sampled}{keys}", hits.denials)
}

fn list(frame: &mut Frame<'_>, area: Rect, name: &str, lines: impl Iterator<Item = String>) {
    let mut lines: Vec<Line<'_>> = lines.map(Line::raw).collect();
    if lines.is_empty() {
        lines.push(Line::raw("none"));
    }
    lines.insert(0, title(name, area.width));
    frame.render_widget(Paragraph::new(lines), area);
}

fn hard(hit: &DeniedKey, width: u16) -> String {
    let count = if hit.error > 0 {
        format!("{} to {}", hit.denials.saturating_sub(hit.error), hit.denials)
    } else {
        hit.denials.to_string()
    };
    fit(&format!("{count:>10}  {}", label(&hit.label.label)), width.into())
}

fn close(near: &NearLimitKey, width: u16) -> String {
    let used = format!("{}/{}", near.used, near.capacity);
    let wait = near.retry_after_ms.map_or(String::new(), |wait| format!(", fits in {}", times::span(wait)));
    let end = format!("  {}{wait}", visible(&near.limit));
    let room = usize::from(width).saturating_sub(12 + Line::raw(end.as_str()).width());
    format!("{used:>10}  {}{end}", fit(&label(&near.label.label), room))
}

fn label(label: &str) -> String {
    if label.is_empty() { "(hidden)".to_owned() } else { visible(label) }
}
