//! Tests of the page in a real browser: Chromium, driven by playwright-core, with the accessibility checks of axe-core.
//! `scripts/peers` installs them. Each test starts a service and runs one of the `scripts` against it.

mod browser;
mod hostile;
#[path = "../it/running.rs"]
#[allow(dead_code, reason = "shared with the other tests, which use all of it")]
mod running;
#[path = "../peers/tools.rs"]
#[allow(dead_code, reason = "shared with the other tests, which use all of it")]
mod tools;

use browser::Script;
use running::{Running, Stopped};

const POLICIES: &str = "[policies.api]\nlimits = [\"5/1h\"]\n\
    [policies.login]\nlimits = [\"3/1m\", \"20/1d\"]\nalgorithm = \"sliding_counter\"\n\
    [policies.buckets]\nlimits = [\"20/1m\"]\nalgorithm = \"sliding_buckets:6\"\n\
    [policies.steady]\nlimits = [\"20/1m\"]\nalgorithm = \"gcra:5\"\n\
    [policies.fixed]\nlimits = [\"20/1m\"]\nalgorithm = \"fixed_window\"\n\
    [policies.api-next]\nlimits = [\"2/1h\"]\nmode = \"shadow\"\ncandidate_for = \"api\"\n\
    [policies.strict-login]\nlimits = [\"1/1m\"]\nmode = \"shadow\"\ncandidate_for = \"login\"\n\
    [policies.unpaired]\nlimits = [\"2/1h\"]\nmode = \"shadow\"\n\
    [policies.secret]\nlimits = [\"1/1h\"]\nhide_keys = true\n";

#[test]
fn every_view_shows_the_figures_of_the_api_under_live_traffic() {
    let running = Running::start(POLICIES);
    Script::new("views", running.http).run();
}

#[test]
fn the_page_of_a_key_survives_a_reload_and_shows_its_denials_and_policies() {
    let running = Running::start(POLICIES);
    Script::new("keys", running.http).run();
}

#[test]
fn the_page_of_a_key_lists_its_open_holds_with_the_times_of_their_ends() {
    let running = Running::start(&format!(
        "{POLICIES}[policies.jobs]\nlimits = [\"60/1h\", \"4/inflight\"]\n[policies.many]\nlimits = [\"1000/inflight\"]\n"
    ));
    Script::new("holds", running.http).run();
}

#[test]
fn the_leases_of_this_node_are_listed_by_key_and_those_of_other_nodes_on_the_page_of_a_key() {
    let redis = tidegate_testbed::Server::start();
    let store = format!("[store]\nurl = \"{}\"\ntimeout = \"2s\"\n", redis.url());
    let policies = "[policies.hot]\nlimits = [\"1_000_000/1h\"]\nlease = \"10s\"\n\
        [policies.tight]\nlimits = [\"40/1h\"]\nlease = \"10s\"\n\
        [policies.hidden]\nlimits = [\"1000/1h\"]\nlease = \"10s\"\nhide_keys = true\n";
    let start = || Running::start(&format!("{store}{policies}"));
    let (running, other) = (start(), start());
    let url = format!("http://{}", other.http);
    Script::new("leases", running.http).env("TIDEGATE_OTHER", url).run();
}

#[test]
fn an_unknown_policy_is_not_an_outage_and_empty_views_say_what_to_do() {
    let folder = std::env::temp_dir().join(format!("tidegate-empty-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a writable directory");
    let file = folder.join("policies.toml");
    std::fs::write(&file, "[server]\n").expect("a writable file");
    let running = Running::start_from_file(&file);
    let mut script = Script::new("empty", running.http).start();
    script.wait_for("empty");
    std::fs::write(&file, POLICIES).expect("a writable file");
    running.reload();
    script.send("configured");
    script.wait_for("seen");
    std::fs::write(&file, "[server]\nallow_removal = true\n[policies.login]\nlimits = [\"3/1m\"]\n")
        .expect("a writable file");
    running.reload();
    script.send("removed");
    script.finish();
    std::fs::remove_dir_all(folder).expect("the path exists");
}

#[test]
fn resets_and_overrides_change_the_next_decision() {
    let running = Running::start(POLICIES);
    Script::new("changes", running.http).run();
}

#[test]
fn the_page_is_read_only_without_the_admin_token_and_has_a_login_form() {
    let running = Running::start(&format!("[server]\nadmin_token = \"change-me-now\"\n{POLICIES}"));
    Script::new("tokens", running.http).run();
}

#[test]
fn nothing_is_shown_before_a_required_login() {
    let tokens = "[server]\ntoken = \"use-me-now\"\nadmin_token = \"change-me-now\"\n";
    let running = Running::start(&format!("{tokens}{POLICIES}"));
    Script::new("closed", running.http).run();
}

#[test]
fn the_page_survives_a_restart_and_shows_when_it_is_not_live() {
    let running = Stopped::on_free_ports().start(POLICIES);
    let mut script = Script::new("restart", running.http).start();
    script.wait_for("live");
    let stopped = running.stopped();
    script.send("stopped");
    script.wait_for("stale");
    let _again = stopped.start(POLICIES);
    script.send("started");
    script.finish();
}

#[test]
fn a_degraded_state_is_shown_with_its_cause_and_cure_until_it_ends() {
    let folder = std::env::temp_dir().join(format!("tidegate-degraded-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a writable directory");
    let file = folder.join("policies.toml");
    std::fs::write(&file, POLICIES).expect("a writable file");
    let running = Running::start_from_file(&file);
    let mut script = Script::new("degraded", running.http).start();
    script.wait_for("live");
    std::fs::write(&file, "[policies.api]\nlimts = [\"5/1h\"]\n").expect("a writable file");
    running.reload();
    script.send("refused");
    script.wait_for("seen");
    std::fs::write(&file, POLICIES).expect("a writable file");
    running.reload();
    script.send("corrected");
    script.finish();
    std::fs::remove_dir_all(folder).expect("the path exists");
}

#[test]
fn the_page_is_accessible_by_keyboard_and_screen_reader_in_light_and_dark_and_on_a_phone() {
    let running = Running::start(POLICIES);
    Script::new("accessible", running.http).run();
}

#[test]
fn ten_thousand_hostile_keys_are_shown_as_text() {
    let running = Running::start("[policies.api]\nlimits = [\"1/1h\"]\n");
    let keys = hostile::keys(10_000);
    hostile::deny(&running, &keys);
    let file = std::env::temp_dir().join(format!("tidegate-hostile-{}.json", std::process::id()));
    std::fs::write(&file, serde_json::to_vec(&keys).expect("valid JSON")).expect("a writable file");
    Script::new("hostile", running.http).env("TIDEGATE_KEYS", &file).run();
    std::fs::remove_file(file).expect("the path exists");
}
