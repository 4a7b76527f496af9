//! What each algorithm lets through around the edge of two windows, as a page.

mod course;
mod scene;

use super::{document, escape, trial};
use crate::{
    figures::{length, moment},
    simulate::{
        boundary::{AtEdge, Boundary},
        words::units,
    },
};

/// The page of [`boundary`](crate::simulate::boundary).
pub fn boundary(found: &Boundary) -> String {
    let limit = escape::text(&found.limit);
    let scenes: String = found.scenes.iter().map(|scene| scene::html(found, scene)).collect();
    let body = format!(
        "<main>\n<header>\n<p class=\"eyebrow\"><b>Tidegate simulate boundary</b> of {limit}</p>\n<h1>{}</h1>\n\
         <p>One client tries as much as it can around the edge of two windows of {}, at {} UTC. Windows begin at whole \
         multiples of their length; an algorithm that counts by them can be caught between two of them.</p>\n</header>\n\
         {scenes}{}</main>\n",
        headline(found),
        length(found.window_us),
        moment(found.edge_us),
        meanings(),
    );
    document(&format!("{} at the edge of two windows · Tidegate simulate", found.limit), &body)
}

/// Who lets more through than the limit, and who never does.
fn headline(found: &Boundary) -> String {
    let worst = worst(found);
    let Some(most) = worst.iter().map(|(_, units)| *units).max() else {
        return "No algorithm was tried.".to_owned();
    };
    let (max, window) = (units(found.max), length(found.window_us));
    let named = |which: &dyn Fn(u64) -> bool| -> Vec<&str> {
        worst.iter().filter(|(_, units)| which(*units)).map(|(name, _)| *name).collect()
    };
    let (within, at_worst) = (named(&|units| units <= found.max), named(&|units| units == most));
    let never = match within[..] {
        [] => String::new(),
        [one] => format!("{one} never lets more than {max} through"),
        _ => format!("{} never let more than {max} through", trial::listed(&within)),
    };
    if most <= found.max {
        return escape::text(&format!("Around the edge of a window {never} within {window}, which is the limit."));
    }
    let between = worst.iter().filter(|(_, units)| *units > found.max && *units < most);
    let between: Vec<String> = between.map(|(name, n)| format!("{name} {}", units(*n))).collect();
    let between = if between.is_empty() { String::new() } else { format!(" ({})", between.join(", ")) };
    let over = format!(
        "Around the edge of a window {} {} {} through within {window}{between}, where the limit is {max}",
        trial::listed(&at_worst),
        if at_worst.len() == 1 { "lets" } else { "let" },
        units(most),
    );
    let never = if never.is_empty() { never } else { format!("; {never}") };
    escape::text(&format!("{over}{never}."))
}

/// Each algorithm and the most that it let through in any window of any scene.
fn worst(found: &Boundary) -> Vec<(&str, u64)> {
    let mut worst: Vec<(&str, u64)> = Vec::new();
    for AtEdge { algorithm, worst_window_units, .. } in found.scenes.iter().flat_map(|scene| &scene.algorithms) {
        match worst.iter_mut().find(|(name, _)| name == algorithm) {
            Some((_, units)) => *units = (*units).max(*worst_window_units),
            None => worst.push((algorithm, *worst_window_units)),
        }
    }
    worst
}

fn meanings() -> String {
    trial::meanings(
        "What the figures mean",
        &[
            ("Worst window", "the most units let through in any window, wherever on the time line it lies"),
            ("Promised", "what the algorithm promises never to exceed there, whatever is tried"),
            (
                "Tried",
                "units tried at one moment are decided as one request that costs as many as fit, which lets the same number \
                 through",
            ),
        ],
    )
}
