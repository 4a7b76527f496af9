//! `tidegate reserve`, `commit`, `release` and `renew`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    arguments::{
        CommitArguments, Format, HoldEnd, ReleaseArguments, RenewArguments, ReserveArguments, TargetArguments,
    },
    client::{self, ApiRequest, Operation},
    outcome::Outcome,
    output::{print_error, print_error_line, print_text},
    times,
    visible::visible,
};

pub(crate) fn reserve(arguments: &ReserveArguments, format: Format) -> anyhow::Result<Outcome> {
    let expires = match arguments.expires {
        HoldEnd::Released => "released",
        HoldEnd::Spent => "spent",
    };
    let body = json!({ "ttl_ms": whole_ms(arguments.ttl)?, "expires": expires });
    let request = client::decision_request(Operation::Reserve, &arguments.check, body)?;
    let target = &arguments.check.subject.target;
    if arguments.id {
        reserve_id(&request, target, format)
    } else {
        client::send(&request, target, format, reserved_text)
    }
}

/// Reserves, and prints only the id to standard output. A denial prints nothing there.
fn reserve_id(request: &ApiRequest, target: &TargetArguments, format: Format) -> anyhow::Result<Outcome> {
    let (status, body) = client::exchange(request, target)?;
    match (format, body["error"].as_str()) {
        (Format::Json, _) => print_error_line(&body.to_string()),
        (Format::Text, Some(error)) => print_error(visible(&client::hinted(body["field"].as_str(), error))),
        (Format::Text, None) => print_error(client::decision_text(&body).trim_end()),
    }
    if let Some(id) = body["reservation"].as_str() {
        print_text(&format!("{}\n", visible(id)))?;
    }
    Ok(client::outcome_of(status, &body))
}

pub(crate) fn commit(arguments: &CommitArguments, format: Format) -> anyhow::Result<Outcome> {
    let actual = match arguments.actual.as_slice() {
        [one] => json!(one),
        several => json!(several),
    };
    let body = json!({ "reservation": arguments.reservation, "actual": actual });
    let text = |body: &Value| changed_text("committed", body);
    client::send(&ApiRequest::post("/v1/commit", body), &arguments.target, format, text)
}

pub(crate) fn release(arguments: &ReleaseArguments, format: Format) -> anyhow::Result<Outcome> {
    let body = json!({ "reservation": arguments.reservation });
    let text = |body: &Value| changed_text("released", body);
    client::send(&ApiRequest::post("/v1/release", body), &arguments.target, format, text)
}

pub(crate) fn renew(arguments: &RenewArguments, format: Format) -> anyhow::Result<Outcome> {
    let body = json!({ "reservation": arguments.reservation, "ttl_ms": whole_ms(arguments.ttl)? });
    let text = |body: &Value| changed_text("renewed", body);
    client::send(&ApiRequest::post("/v1/renew", body), &arguments.target, format, text)
}

/// Returns a ttl in milliseconds.
pub(crate) fn whole_ms(ttl: Duration) -> anyhow::Result<u64> {
    anyhow::ensure!(
        ttl.subsec_nanos().is_multiple_of(1_000_000),
        "--ttl has a fraction of a millisecond: use whole ones"
    );
    Ok(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))
}

/// Formats the answer to a reserve for people. The id has a line of its own, so that it is easy to copy.
pub(crate) fn reserved_text(body: &Value) -> String {
    let decision = client::decision_text(body);
    match (body["reservation"].as_str(), body["ttl_ms"].as_u64()) {
        (Some(id), Some(ttl)) => format!("{decision}reserved for {} as\n{}\n", times::span(ttl), visible(id)),
        _ => decision,
    }
}

fn changed_text(done: &str, body: &Value) -> String {
    if body["known"] == true {
        format!("{done}: {}\n", client::in_use_text(body))
    } else {
        "not open: it was committed or released before, has ended, or is of another store\n".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{changed_text, reserved_text};

    #[test]
    fn a_hold_is_shown_with_its_id_and_a_denial_without() {
        let body = json!({ "reason": "allowed", "limit": "4/inflight", "used": 1, "remaining": 3, "retry_after_ms": null,
                           "degraded": false, "reservation": "njobs.AAAA", "ttl_ms": 90_000 });
        insta::assert_snapshot!(reserved_text(&body), @r"
        allowed: 1 in use under 4/inflight, 3 remaining
        reserved for 1m30s as
        njobs.AAAA
        ");
        let body = json!({ "reason": "limited", "limit": "4/inflight", "used": 4, "remaining": 0, "retry_after_ms": 1_500,
                           "degraded": true, "reservation": null, "ttl_ms": null });
        insta::assert_snapshot!(
            reserved_text(&body),
            @"limited: 4 in use under 4/inflight, 0 remaining, fits in 1500 ms (degraded: decided without the store)"
        );
        let body = json!({ "known": true, "limit": "4/inflight", "used": 0, "remaining": 4 });
        assert_eq!(changed_text("released", &body), "released: 0 in use under 4/inflight, 4 remaining\n");
    }
}
