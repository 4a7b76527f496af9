//! [`State`]: the content of the screen, changed by updates and keys.

use tidegate_server::dashboard::PolicySummary;

use super::{live_stream::LiveUpdate, snapshot::Snapshot};

/// After this long without an update, the screen is marked as not live.
const LIVE_MS: u64 = 3_000;

/// The same for a stream that has ended.
const LOST_MS: u64 = 1_500;

/// After this long without an update, an open stream is replaced.
const GIVEN_UP_MS: u64 = 15_000;

/// The content of the screen.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) server: String,
    live: Option<Snapshot>,
    frozen: Option<Snapshot>,
    /// The policy whose keys are shown, instead of the overview.
    pub(crate) opened: Option<String>,
    /// Name of the policy under the cursor. The order of the policies changes each second.
    chosen: Option<String>,
    pub(crate) has_help: bool,
    /// The reason why the last key had no effect.
    pub(crate) notice: Option<String>,
    /// The error of the stream.
    pub(crate) error: Option<String>,
    opened_ms: u64,
    updated_ms: Option<u64>,
    started_ms: u64,
    /// The local time.
    pub(crate) now_ms: u64,
}

/// The meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Press {
    Up,
    Down,
    Enter,
    Back,
    Pause,
    Help,
    Quit,
}

/// An action other than drawing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Nothing,
    Quit,
    /// Start a new stream, also for this policy.
    StartStream(Option<String>),
    /// Exit: the service refuses the stream.
    Exit(String),
}

impl State {
    pub(crate) fn new(server: &str, now_ms: u64) -> Self {
        Self {
            server: server.to_owned(),
            live: None,
            frozen: None,
            opened: None,
            chosen: None,
            has_help: false,
            notice: None,
            error: None,
            opened_ms: now_ms,
            updated_ms: None,
            started_ms: now_ms,
            now_ms,
        }
    }

    /// Returns what is shown; `None` before the first update.
    pub(crate) fn snapshot(&self) -> Option<&Snapshot> {
        self.frozen.as_ref().or(self.live.as_ref())
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    /// Returns the time without updates, if it is too long.
    pub(crate) fn silent_ms(&self) -> Option<u64> {
        let silent = self.now_ms.saturating_sub(self.updated_ms.unwrap_or(self.opened_ms));
        // A stream that ends is reconnected at once. Only a failure of that is shown.
        let is_lost = self.error.is_some() && (self.updated_ms.is_none() || silent > LOST_MS);
        (silent > LIVE_MS || is_lost).then_some(silent)
    }

    pub(crate) fn has_updates(&self) -> bool {
        self.updated_ms.is_some()
    }

    /// Advances the time.
    pub(crate) fn advance(&mut self, now_ms: u64) -> Action {
        self.now_ms = now_ms.max(self.now_ms);
        // Closed streams are reconnected by their reader. This replaces open streams without updates.
        let last = self.updated_ms.unwrap_or(self.opened_ms).max(self.started_ms);
        if self.error.is_none() && self.now_ms.saturating_sub(last) > GIVEN_UP_MS {
            return self.start_stream();
        }
        Action::Nothing
    }

    pub(crate) fn update(&mut self, update: LiveUpdate) -> Action {
        if !matches!(update, LiveUpdate::Lost(_) | LiveUpdate::Refused(_)) {
            self.updated_ms = Some(self.now_ms);
            self.error = None;
        }
        match (update, &mut self.live) {
            (LiveUpdate::Overview(overview), live) => {
                let hits = live.take().and_then(|before| before.hits);
                *live = Some(Snapshot { hits, ..Snapshot::new(*overview) });
            }
            (LiveUpdate::Tick(tick), Some(snapshot)) => snapshot.tick(*tick),
            (LiveUpdate::Hits(hits), Some(snapshot)) => (snapshot.hits, snapshot.problem) = (Some(*hits), None),
            (LiveUpdate::Problem(why), Some(snapshot)) => snapshot.problem = Some(why),
            (LiveUpdate::Tick(_) | LiveUpdate::Hits(_) | LiveUpdate::Problem(_), None) => {}
            (LiveUpdate::Lost(why), _) => self.error = Some(why),
            (LiveUpdate::Refused(why), _) if self.opened.is_none() => return Action::Exit(why),
            (LiveUpdate::Refused(why), _) => {
                self.notice = Some(why);
                self.opened = None;
                return self.start_stream();
            }
        }
        Action::Nothing
    }

    pub(crate) fn press(&mut self, press: Press) -> Action {
        self.notice = None;
        if self.has_help && press != Press::Quit {
            self.has_help = false;
            return Action::Nothing;
        }
        match press {
            Press::Quit => return Action::Quit,
            Press::Help => self.has_help = true,
            Press::Pause if self.frozen.is_some() => self.frozen = None,
            Press::Pause => self.frozen = self.live.clone(),
            Press::Up => self.move_by(-1),
            Press::Down => self.move_by(1),
            Press::Back if self.opened.is_some() => {
                self.opened = None;
                return self.start_stream();
            }
            Press::Enter if self.opened.is_none() => return self.enter(),
            Press::Back | Press::Enter => {}
        }
        Action::Nothing
    }

    /// Returns the index of the policy under the cursor.
    pub(crate) fn cursor(&self) -> usize {
        let cursor = self.policies().iter().position(|policy| Some(&policy.name) == self.chosen.as_ref());
        cursor.unwrap_or(0)
    }

    fn policies(&self) -> &[PolicySummary] {
        self.snapshot().map_or(&[], |snapshot| &snapshot.now.policies)
    }

    fn move_by(&mut self, step: isize) {
        let cursor = self.cursor().saturating_add_signed(step).min(self.policies().len().saturating_sub(1));
        self.chosen = self.policies().get(cursor).map(|policy| policy.name.clone());
    }

    fn enter(&mut self) -> Action {
        let Some(policy) = self.policies().get(self.cursor()) else { return Action::Nothing };
        let (name, is_configured) = (policy.name.clone(), policy.mode.is_some());
        self.chosen = Some(name.clone());
        if !is_configured {
            self.notice = Some(format!("{name} is not a configured policy: its keys are not recorded"));
            return Action::Nothing;
        }
        // A frozen snapshot lacks the keys of this policy.
        self.frozen = None;
        if let Some(snapshot) = &mut self.live {
            (snapshot.hits, snapshot.problem) = (None, None);
        }
        self.opened = Some(name);
        self.start_stream()
    }

    fn start_stream(&mut self) -> Action {
        self.started_ms = self.now_ms;
        Action::StartStream(self.opened.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::{Action, Press, State};
    use crate::top::{live_stream::LiveUpdate, samples};

    fn state_at(now_ms: u64) -> State {
        let mut state = State::new("http://127.0.0.1:8080", now_ms);
        assert_eq!(state.update(samples::overview_update()), Action::Nothing);
        state
    }

    #[test]
    fn the_cursor_stays_on_its_policy_when_the_order_changes() {
        let mut state = state_at(0);
        state.press(Press::Down);
        assert_eq!(state.snapshot().expect("a snapshot").now.policies[state.cursor()].name, "login");
        state.update(samples::tick_update(|now| now["policies"][0]["limited"] = 1_000_000.into()));
        assert_eq!((state.cursor(), state.policies()[0].name.as_str()), (0, "login"));
        for _ in 0..9 {
            state.press(Press::Down);
        }
        assert_eq!(state.cursor(), 3, "the last one");
    }

    #[test]
    fn only_configured_policies_can_be_opened() {
        let mut state = state_at(0);
        assert_eq!(state.press(Press::Enter), Action::StartStream(Some("public-api".to_owned())));
        state.update(samples::hits_update());
        assert!(state.snapshot().is_some_and(|snapshot| snapshot.hits.is_some()));
        assert_eq!(state.press(Press::Back), Action::StartStream(None));
        assert_eq!(state.press(Press::Back), Action::Nothing);
        state.press(Press::Down);
        state.press(Press::Down);
        assert_eq!((state.press(Press::Enter), &state.opened), (Action::Nothing, &None));
        assert!(state.notice.as_ref().is_some_and(|notice| notice.contains("(limits)")));
    }

    #[test]
    fn a_stream_without_updates_is_marked_and_replaced() {
        let mut state = state_at(1_000);
        assert_eq!((state.advance(4_000), state.silent_ms()), (Action::Nothing, None));
        assert_eq!((state.advance(4_001), state.silent_ms()), (Action::Nothing, Some(3_001)));
        assert_eq!(state.advance(16_001), Action::StartStream(None));
        assert_eq!(state.advance(16_100), Action::Nothing, "a new stream has just started");
        state.update(LiveUpdate::Lost("gone".to_owned()));
        assert_eq!(state.advance(90_000), Action::Nothing, "the reader reconnects already");
        assert_eq!(state.silent_ms(), Some(89_000));
        state.update(samples::overview_update());
        assert_eq!((state.silent_ms(), &state.error), (None, &None));
    }

    #[test]
    fn a_paused_screen_does_not_change() {
        let mut state = state_at(0);
        state.press(Press::Pause);
        state.update(samples::tick_update(|now| now["last"]["per_second"] = 7.into()));
        let shown = |state: &State| state.snapshot().map(|snapshot| snapshot.now.last.per_second);
        assert_eq!((state.is_paused(), shown(&state)), (true, Some(123.4)));
        state.press(Press::Pause);
        assert_eq!((state.is_paused(), shown(&state)), (false, Some(7.0)));
    }

    #[test]
    fn a_refused_policy_leads_back_and_a_refused_service_exits() {
        let mut state = state_at(0);
        state.press(Press::Enter);
        assert_eq!(state.update(LiveUpdate::Refused("no such policy".to_owned())), Action::StartStream(None));
        assert_eq!((&state.opened, state.notice.as_deref()), (&None, Some("no such policy")));
        assert_eq!(state.update(LiveUpdate::Refused("no token".to_owned())), Action::Exit("no token".to_owned()));
    }
}
