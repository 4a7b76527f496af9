//! The results of policies if clients wait, as text.

use std::fmt::Write as _;

use super::{chart::WIDTH, paragraph, wrap};
use crate::{
    findings::{ObeyFindings, PolicyFindings},
    formatting::{count, seconds, share},
    table::Table,
    wording,
};

/// Writes a table of the delays, and what is left at the end. `names` has the names of the policies.
pub(super) fn write(out: &mut String, policies: &[PolicyFindings], names: &[String]) {
    let obeying = || policies.iter().zip(names).filter_map(|(policy, name)| Some((policy.obey.as_ref()?, name)));
    if obeying().next().is_none() {
        return;
    }
    let _ = write!(out, "\nDelays if clients wait as they are told\n{}", paragraph(wording::OBEDIENCE));
    let mut table = Table::new(["", ">delayed", ">", ">p50", ">p99", ">max", ">served"]);
    for (obey, name) in obeying() {
        let ObeyFindings { waits, .. } = obey;
        let wait = |wait_s: u64| if waits.count > 0 { seconds(wait_s) } else { "-".to_owned() };
        table.row([
            name.clone(),
            count(obey.delayed),
            share(obey.share_delayed),
            wait(waits.p50_s),
            wait(waits.p99_s),
            wait(waits.max_s),
            count(obey.served),
        ]);
    }
    out.push_str(&table.text());
    for (obey, name) in obeying() {
        let sentences = wording::obedience(obey);
        if !sentences.is_empty() {
            out.push_str(&wrap(&format!("{name}: {}", sentences.join(" ")), "  ", "    ", WIDTH - 2));
        }
    }
}
