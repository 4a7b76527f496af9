//! Sample findings: usual and unusual ones.

use tidegate_replay::{
    findings::{
        AtOnceFindings, AtOnceLimit, AtOnceSuggestion, ClientHistory, Curve, CurvePoint, DeniedClient, Findings,
        GroupFindings, GroupedFindings, LimitFindings, ObeyFindings, PolicyFindings, Suggestion, Timeline, WaitStep,
        Waits,
    },
    formatting::ratio,
    logs::{InputSummary, MalformedLine},
};

const MINUTE: u64 = 60_000_000;
const HOUR: u64 = 60 * MINUTE;
/// 17 May 2015, 10:05:03.
const FROM: u64 = 1_431_857_103_000_000;

/// Random numbers that are the same in every run.
struct Random(u64);

impl Random {
    /// Returns a number below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// 83 hours of a web site: 1,753 clients, most of them with a few requests and some with very many; three policies.
pub(crate) fn usual() -> Findings {
    with_policies(&[
        ("60/1m sliding_log", 60, 118, 4),
        ("60/1m fixed_window", 60, 97, 3),
        ("30/1m sliding_log", 30, 402, 19),
    ])
}

/// The same with a dozen candidates.
pub(crate) fn a_dozen() -> Findings {
    let names: Vec<String> = (1..=12).map(|i| format!("{}/1m sliding_buckets:{i}", i * 10)).collect();
    let policies: Vec<_> = (1..=12).zip(&names).map(|(i, name)| (name.as_str(), i * 10, 2_400 / i, 60 / i)).collect();
    with_policies(&policies)
}

fn with_policies(policies: &[(&str, u64, u64, u64)]) -> Findings {
    let (clients, requests) = (1_753, 10_000);
    let mut random = Random(7);
    let wave = |i: u64| [12, 8, 6, 5, 9, 17, 26, 33, 38, 41, 37, 24][usize::try_from(i / 4 % 12).unwrap()];
    let timeline: Vec<u64> = (0..166).map(|i| wave(i) + random.below(16) + if i == 97 { 240 } else { 0 }).collect();
    let denied = policies.iter().map(|(_, _, denied, _)| {
        let mut left = *denied;
        let mut bin = |i: u64| {
            let here = match i {
                97 => left / 2,
                _ if random.below(9) == 0 => random.below(left / 8 + 2).min(left),
                _ => 0,
            };
            let here = here.min(timeline[usize::try_from(i).unwrap()]);
            left -= here;
            here
        };
        (0..166).map(&mut bin).collect()
    });
    let denied = denied.collect();
    let policy = |(name, max, denied, touched): &(&str, u64, u64, u64)| PolicyFindings {
        name: (*name).to_owned(),
        limits: vec![limit(*max, MINUTE, "1m", *denied)],
        algorithm: name.split(' ').next_back().unwrap_or_default().to_owned(),
        allowed: requests - denied,
        denied: *denied,
        impossible: 0,
        share_of_requests_denied: ratio(*denied, requests),
        clients_denied: *touched,
        share_of_clients_denied: ratio(*touched, clients),
        retry_after: waits(*denied, 60),
        hardest_hit: clients_denied(*max, *denied, (*touched).min(10)),
        obey: Some(obey(*denied, requests, *touched)),
    };
    Findings {
        input: InputSummary {
            files: vec!["/var/log/nginx/access.log.1.gz".to_owned(), "/var/log/nginx/access.log".to_owned()],
            lines: 10_003,
            requests,
            units: requests,
            malformed: 3,
            first_malformed: (1..=3).map(malformed).collect(),
            without_key: 0,
            out_of_order: 12,
            latest_by_us: 7_000_000,
            sorted: true,
            sort_us: 5 * MINUTE,
            still_late: 0,
            filters: vec!["--skip status=304".to_owned()],
            filtered: 1_204,
            filters_without_field: Vec::new(),
            troubles: Vec::new(),
            from_us: Some(FROM),
            to_us: Some(FROM + 83 * HOUR),
            whole_seconds: true,
            spread: false,
        },
        by: "ip".to_owned(),
        clients,
        policies: policies.iter().map(policy).collect(),
        timeline: Timeline { from_us: FROM / HOUR * HOUR, bin_us: HOUR / 2, requests: timeline, denied },
        curves: vec![curve("1m", MINUTE, clients, 4), curve("1h", HOUR, clients, 11)],
        at_once: Some(at_once(requests, clients)),
        groups: Some(grouped(clients)),
        interrupted: false,
    }
}

/// Requests at once: a limit of 1 denies many, and a limit of 9 denies none.
fn at_once(requests: u64, clients: u64) -> AtOnceFindings {
    let limit = |(max, denied, touched): (u64, u64, u64)| AtOnceLimit {
        max,
        denied: Some(denied),
        share_of_requests_denied: Some(ratio(denied, requests)),
        touched,
        share: ratio(touched, clients),
    };
    let limits = [(1, 2_904, 811), (2, 1_210, 302), (3, 411, 120), (4, 98, 31), (5, 41, 12), (6, 9, 4), (7, 3, 2)];
    let limits: Vec<AtOnceLimit> = limits.into_iter().chain([(8, 1, 1), (9, 0, 0)]).map(limit).collect();
    let suggestion = |(at, index): (&str, usize)| AtOnceSuggestion {
        at: at.to_owned(),
        limit: format!("{}/inflight", limits[index].max),
        effect: limits[index].clone(),
    };
    AtOnceFindings {
        peak: 61,
        peak_at_us: FROM + HOUR,
        client_peak: 9,
        client: Some("203.0.113.9".to_owned()),
        clients_with_several: 811,
        suggestions: [("none", 8), ("0.1 %", 5), ("1 %", 3)].map(suggestion).to_vec(),
        limits,
    }
}

/// Clients that wait, one of them with a long queue.
fn obey(denied: u64, requests: u64, clients: u64) -> ObeyFindings {
    ObeyFindings {
        denials: denied * 2,
        delayed: denied + 7,
        share_delayed: ratio(denied + 7, requests),
        clients_delayed: clients,
        waits: waits(denied + 7, 60),
        served: requests - 5,
        waiting_at_end: 34,
        clients_waiting_at_end: 2,
        last_served_after_us: 3 * MINUTE,
        longest_queue: 212,
        client_of_longest_queue: Some("66.249.73.135".to_owned()),
        given_up: 5,
        clients_given_up: 1,
        impossible: 0,
    }
}

/// Groups of paths: the largest ones of many.
fn grouped(clients: u64) -> GroupedFindings {
    let names =
        ["/presentations", "/images", "/a-very-long-name-of-a-folder-that-does-not-fit-into-a-table-of-groups", "-"];
    let group = |(i, name): (u64, &&str)| GroupFindings {
        name: Some((*name).to_owned()),
        clients: clients / (i + 1),
        requests: 4_000 / (i + 1),
        curves: vec![curve("1m", MINUTE, clients / (i + 1), 4), curve("1h", HOUR, clients / (i + 1), 11)],
    };
    let mut groups: Vec<GroupFindings> = (0..).zip(&names).map(group).collect();
    groups.push(GroupFindings { name: None, ..groups[0].clone() });
    GroupedFindings { by: "path:1".to_owned(), count: 1_000, overflow: Some(1_000), groups }
}

fn limit(max: u64, window_us: u64, window: &str, bound: u64) -> LimitFindings {
    LimitFindings { limit: format!("{max}/{window}"), max, window_us, bound }
}

fn malformed(line: u64) -> MalformedLine {
    MalformedLine {
        file: "/var/log/nginx/access.log".to_owned(),
        line: line * 811,
        why: "no closing quote".to_owned(),
        text: format!(
            "93.114.45.{line} - - [17/May/2015:10:05:03 +0000] \"GET /presentations/logstash-monitorama-2013"
        ),
    }
}

fn waits(denied: u64, window_s: u64) -> Waits {
    if denied == 0 {
        return Waits::default();
    }
    let mut left = denied;
    let mut step = |up_to_s: u64| {
        let count = if up_to_s == window_s { left } else { left / 4 };
        left -= count;
        WaitStep { up_to_s, count }
    };
    let steps = [1, 2, 5, 10, 20, 30, window_s].into_iter().map(&mut step).collect();
    Waits { count: denied, p50_s: 9, p90_s: 41, p99_s: 57, max_s: window_s, steps }
}

/// Clients that send bursts. The first has the most denials.
fn clients_denied(max: u64, denied: u64, n: u64) -> Vec<DeniedClient> {
    let client = |i: u64| {
        let share = denied / (i + 2);
        let key = match i % 3 {
            0 => format!("66.249.73.{}", 135 - i),
            1 => format!("2001:db8:85a3:8d3:1319:8a2e:370:{:x}", 7_348 + i),
            _ => format!("130.237.218.{}", 86 + i),
        };
        let history = history(max, i);
        let requests = history.requested.iter().sum::<u64>() + history.earlier;
        DeniedClient {
            key,
            requests,
            denied: share.max(1),
            peaks: vec![*history.peak.iter().max().unwrap()],
            history: Some(history),
        }
    };
    (0..n).map(client).collect()
}

fn history(max: u64, seed: u64) -> ClientHistory {
    let mut random = Random(seed + 1);
    let (bin_us, bins) = (5_000_000, 120);
    let per_window = usize::try_from(MINUTE / bin_us).unwrap();
    let burst = 30 + seed * 9 % 50;
    let requested = |i: u64| match i {
        i if (burst..burst + 9).contains(&i) => max / 8 + random.below(max / 8 + 2),
        _ if random.below(3) == 0 => random.below(4),
        _ => 0,
    };
    let requests: Vec<u64> = (0..bins).map(requested).collect();
    let peak: Vec<u64> = (0..requests.len())
        .map(|i| if requests[i] == 0 { 0 } else { requests[(i + 1).saturating_sub(per_window)..=i].iter().sum() })
        .collect();
    let denied = requests.iter().zip(&peak).map(|(n, peak)| peak.saturating_sub(max).min(*n)).collect();
    let from_us = FROM + seed * 7 * HOUR;
    ClientHistory { from_us, bin_us, window_us: MINUTE, max, requested: requests, denied, peak, earlier: seed * 31 }
}

/// A curve with a heavy tail, as web sites have it.
fn curve(window: &str, window_us: u64, clients: u64, stretch: u64) -> Curve {
    let touched = |max: u64| {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a shape"
        )]
        let n = (clients as f64 * (max as f64 / stretch as f64 + 0.6).powf(-1.55)) as u64;
        n.min(clients)
    };
    let mut points: Vec<CurvePoint> = Vec::new();
    for max in 1.. {
        let touched = touched(max);
        if points.last().is_none_or(|last| last.touched != touched) {
            points.push(CurvePoint { max, touched, share: ratio(touched, clients) });
        }
        if touched == 0 {
            break;
        }
    }
    let first_below = |share: f64| points.iter().find(|point| point.share <= share).unwrap();
    let suggestion = |at: &str, share: f64, why: &str| {
        let CurvePoint { max, touched, share } = *first_below(share);
        let limit = format!("{max}/{window}");
        Suggestion {
            at: at.to_owned(),
            limit,
            max,
            touched,
            share,
            share_of_requests: share * 8.0,
            denied: touched * 20,
            share_of_requests_denied: ratio(touched * 20, clients * 10),
            is_minimum: at == "knee",
            why: why.to_owned(),
        }
    };
    let suggestions = vec![
        suggestion("p99.9", 0.001, "999 of 1,000 clients never request more."),
        suggestion("p99", 0.01, "99 of 100 clients never request more."),
        suggestion("knee", 0.03, "Lower limits affect many more clients, higher limits hardly fewer."),
    ];
    Curve { window: window.to_owned(), window_us, requests: clients * 10, points, suggestions }
}

/// All foreign text is hostile and long.
pub(crate) fn hostile() -> Findings {
    let nasty = [
        "<script>document.title='owned'</script>",
        "\"><img src=x onerror=alert(1)>",
        "' onmouseover='alert(1)",
        "a\0b\x1b[31m\r\n\u{202e}gnp.exe\u{2028}]]>",
        "</title></style></svg><h1>",
        "&lt;&#x3c;&amp",
    ];
    let long = "Mozilla/5.0<b>".repeat(300);
    let all = |i: usize| if i.is_multiple_of(4) { long.clone() } else { nasty[i % nasty.len()].to_owned() };
    let mut findings = usual();
    findings.by = all(1);
    findings.input.files = (0..20).map(all).collect();
    findings.input.without_key = 17;
    for (i, line) in findings.input.first_malformed.iter_mut().enumerate() {
        (line.file, line.why, line.text) = (all(i), all(i + 1), all(i + 2));
    }
    for (i, policy) in findings.policies.iter_mut().enumerate() {
        (policy.name, policy.algorithm) = (all(i), all(i + 1));
        policy.hardest_hit.iter_mut().enumerate().for_each(|(i, client)| client.key = all(i));
        policy.limits.iter_mut().for_each(|limit| limit.limit = all(i + 2));
    }
    findings.input.filters = (0..3).map(all).collect();
    findings.input.filters_without_field = (0..2).map(all).collect();
    let at_once = findings.at_once.as_mut().unwrap();
    at_once.client = Some(all(4));
    at_once.suggestions.iter_mut().for_each(|suggestion| (suggestion.at, suggestion.limit) = (all(1), all(2)));
    let groups = findings.groups.as_mut().unwrap();
    groups.by = all(2);
    groups.groups.iter_mut().enumerate().for_each(|(i, group)| group.name = Some(all(i)));
    for policy in &mut findings.policies {
        policy.obey.as_mut().unwrap().client_of_longest_queue = Some(all(4));
    }
    for curve in &mut findings.curves {
        curve.window = all(5);
        curve.suggestions.iter_mut().enumerate().for_each(|(i, suggestion)| {
            (suggestion.at, suggestion.limit, suggestion.why) = (all(i), all(i + 1), all(i + 2));
        });
    }
    findings
}

/// Only curves.
pub(crate) fn no_policies() -> Findings {
    let mut findings = usual();
    findings.policies.clear();
    findings.timeline.denied.clear();
    findings
}

/// An empty file.
pub(crate) fn nothing() -> Findings {
    Findings {
        input: InputSummary { files: vec!["empty.log".to_owned()], ..InputSummary::default() },
        clients: 0,
        timeline: Timeline { denied: vec![Vec::new()], ..Timeline::default() },
        curves: vec![Curve {
            window: "1m".to_owned(),
            window_us: MINUTE,
            requests: 0,
            points: Vec::new(),
            suggestions: Vec::new(),
        }],
        at_once: None,
        groups: None,
        policies: vec![PolicyFindings { hardest_hit: Vec::new(), ..quiet(&usual().policies[0]) }],
        ..usual()
    }
}

/// No request is denied.
pub(crate) fn no_denials() -> Findings {
    let mut findings = usual();
    findings.policies = findings.policies.iter().map(quiet).collect();
    findings.timeline.denied.iter_mut().for_each(|denied| denied.fill(0));
    findings
}

fn quiet(policy: &PolicyFindings) -> PolicyFindings {
    PolicyFindings {
        allowed: policy.allowed + policy.denied,
        denied: 0,
        share_of_requests_denied: 0.0,
        clients_denied: 0,
        share_of_clients_denied: 0.0,
        retry_after: Waits::default(),
        hardest_hit: Vec::new(),
        ..policy.clone()
    }
}

/// One request of one client, in one bin; the curve is a point.
pub(crate) fn one_request() -> Findings {
    let mut findings = no_denials();
    findings.clients = 1;
    (findings.input.lines, findings.input.requests, findings.input.units) = (1, 1, 1);
    (findings.input.malformed, findings.input.first_malformed) = (0, Vec::new());
    (findings.input.from_us, findings.input.to_us) = (Some(FROM), Some(FROM));
    findings.policies.truncate(1);
    findings.timeline = Timeline { from_us: FROM, bin_us: 1, requests: vec![1], denied: vec![vec![0]] };
    findings.curves.truncate(1);
    findings.curves[0].points = vec![CurvePoint { max: 1, touched: 0, share: 0.0 }];
    findings.curves[0].suggestions.truncate(1);
    findings.curves[0].suggestions[0] = Suggestion {
        max: 1,
        touched: 0,
        share: 0.0,
        limit: "1/1m".to_owned(),
        ..findings.curves[0].suggestions[0].clone()
    };
    findings
}

/// One client is denied in its only bin, under two limits of one policy, with an impossible cost. The replay stopped early.
pub(crate) fn one_bin() -> Findings {
    let mut findings = usual();
    findings.interrupted = true;
    findings.input.spread = true;
    findings.policies.truncate(1);
    let policy = &mut findings.policies[0];
    (policy.name, policy.impossible) = ("login".to_owned(), 5);
    policy.limits.push(limit(500, HOUR, "1h", 0));
    policy.hardest_hit.truncate(1);
    let client = &mut policy.hardest_hit[0];
    client.peaks.push(700);
    client.history = Some(ClientHistory {
        from_us: FROM,
        bin_us: HOUR,
        window_us: MINUTE,
        max: 60,
        requested: vec![700],
        denied: vec![640],
        peak: vec![700],
        earlier: 0,
    });
    findings.timeline = Timeline { from_us: FROM, bin_us: HOUR, requests: vec![10_000], denied: vec![vec![118]] };
    findings
}

/// The largest numbers.
pub(crate) fn huge() -> Findings {
    let mut findings = usual();
    let most = u64::MAX;
    (findings.clients, findings.input.requests, findings.input.units, findings.input.lines) = (most, most, most, most);
    findings.timeline.requests.iter_mut().for_each(|n| *n = most / 3);
    (findings.timeline.from_us, findings.timeline.bin_us) = (most / 2, most / 4);
    for policy in &mut findings.policies {
        (policy.denied, policy.allowed, policy.clients_denied) = (most / 2, most / 2, most);
        (policy.retry_after.max_s, policy.retry_after.p99_s) = (most, most);
        for client in &mut policy.hardest_hit {
            (client.requests, client.denied, client.peaks[0]) = (most, most, most);
            let history = client.history.as_mut().unwrap();
            (history.max, history.window_us, history.bin_us, history.from_us) = (most, most, most, most);
            history.requested[3] = most;
            history.peak[3] = most;
            history.denied[3] = most;
        }
    }
    let last = AtOnceLimit { max: most, denied: None, share_of_requests_denied: None, touched: most, share: 0.0 };
    findings.at_once.as_mut().unwrap().limits.push(last);
    for curve in &mut findings.curves {
        curve.points.push(CurvePoint { max: most, touched: most, share: 0.0 });
    }
    findings
}

/// All of them, by name.
pub(crate) fn all() -> Vec<(&'static str, Findings)> {
    vec![
        ("usual", usual()),
        ("a_dozen", a_dozen()),
        ("hostile", hostile()),
        ("no_policies", no_policies()),
        ("nothing", nothing()),
        ("no_denials", no_denials()),
        ("one_request", one_request()),
        ("one_bin", one_bin()),
        ("huge", huge()),
    ]
}
