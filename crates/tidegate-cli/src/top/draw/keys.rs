//! Draws one policy: its most denied keys, and those nearest to its limit.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    text::Line,
    widgets::{Paragraph, Wrap},
};

use tidegate_server::dashboard::{DeniedKey, KeyLease, KeysAre, NearLimitKey, PolicyHits};

use super::{
    super::{numbers::fit, snapshot::Snapshot, status_text, theme::Theme},
    title,
};
use crate::{times, visible::visible};

/// Draws the policy in one line.
pub(super) fn draw_policy(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot, name: &str, theme: Theme) {
    let line = match snapshot.policy(name) {
        None => Line::styled(format!("{} is no longer configured", visible(name)), theme.denied()),
        Some(policy) => {
            let [name, mode, limits, allowed, denied, shadow, share] = status_text::row(policy, snapshot, " ");
            let shadow = if policy.counts.shadow > 0 { format!(", {shadow}/s would be denied") } else { String::new() };
            let text = format!("{name} ({mode}, {limits}): {allowed}/s allowed, {denied}/s denied ({share}){shadow}");
            Line::styled(fit(&text, area.width.into()), Theme::title())
        }
    };
    frame.render_widget(line, area);
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot, name: &str, theme: Theme) {
    if let Some(problem) = &snapshot.problem {
        let text = format!("the keys can't be shown: {}", visible(problem));
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }).style(theme.denied()), area);
        return;
    }
    let Some(hits) = snapshot.hits.as_ref().filter(|hits| hits.policy == name) else {
        frame.render_widget(Line::raw("loading the keys"), area);
        return;
    };
    let is_shadow = snapshot.policy(name).is_some_and(|policy| policy.mode.as_deref() == Some("shadow"));
    let [words, lists] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Line::raw(fit(&summary(hits, is_shadow), area.width.into())), words);
    let leases = leases_of(snapshot, name);
    // Title, headings and some rows.
    let rows = u16::try_from(leases.len()).map_or(8, |rows| rows.min(8));
    let height = if leases.is_empty() { 0 } else { (2 + rows).min(lists.height / 2) };
    let [lists, bottom] = Layout::vertical([Constraint::Fill(1), Constraint::Length(height)]).areas(lists);
    draw_leases(frame, bottom, &leases);
    let [left, _, right] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(2), Constraint::Fill(1)]).areas(lists);
    let hardest = hits.hardest.iter().map(|hit| denied(hit, left.width));
    list(frame, left, "Most denied: denials, key", hardest);
    let nearest = hits.nearest.iter().map(|near| near_limit(near, right.width));
    list(frame, right, "Nearest to the limit: in use, key", nearest);
}

/// The leases of this node for keys under a policy.
fn leases_of<'s>(snapshot: &'s Snapshot, name: &str) -> Vec<&'s KeyLease> {
    let all = snapshot.now.store.leases.iter().flat_map(|leases| &leases.keys);
    all.filter(|lease| lease.policy == name).collect()
}

fn draw_leases(frame: &mut Frame<'_>, area: Rect, leases: &[&KeyLease]) {
    let row = |cells: [String; 6]| {
        let [left, of, ends_in, admitted, denied, key] = cells;
        fit(&format!("{left:>10} {of:>10} {ends_in:>9} {admitted:>12} {denied:>12}  {key}"), area.width.into())
    };
    let head = row(status_text::LEASE_HEADINGS.map(str::to_owned));
    let rows = leases.iter().map(|lease| row(status_text::lease(lease)));
    list(frame, area, "Leases of this node", std::iter::once(head).chain(rows));
}

fn summary(hits: &PolicyHits, is_shadow: bool) -> String {
    let denials = if is_shadow { "would-be denials" } else { "denials" };
    let since = times::time_of_day(hits.since_ms);
    let sampled = if hits.sampled { ", partly estimated" } else { "" };
    let keys = match hits.keys {
        KeysAre::Hidden => "; keys are hidden: set the admin token with --token",
        KeysAre::Hashed => "; keys are hashed: the policy hides them",
        KeysAre::Plain => "",
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

fn denied(hit: &DeniedKey, width: u16) -> String {
    let count = if hit.error > 0 {
        format!("{} to {}", hit.denials.saturating_sub(hit.error), hit.denials)
    } else {
        hit.denials.to_string()
    };
    fit(&format!("{count:>10}  {}", status_text::label(&hit.label.label)), width.into())
}

fn near_limit(near: &NearLimitKey, width: u16) -> String {
    let used = format!("{}/{}", near.used, near.capacity);
    let wait = near.retry_after_ms.map_or(String::new(), |wait| format!(", fits in {}", times::span(wait)));
    let end = format!("  {}{wait}", visible(&near.limit));
    let room = usize::from(width).saturating_sub(12 + Line::raw(end.as_str()).width());
    format!("{used:>10}  {}{end}", fit(&status_text::label(&near.label.label), room))
}
