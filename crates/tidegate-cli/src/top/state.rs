//! [`State`]: what is on the screen, changed by what is heard and by what is pressed.

use tidegate_server::dashboard::PolicySummary;

use super::{feed::Heard, picture::Picture};

/// After this long without a word, what is shown is no longer how things are.
const LIVE_MS: u64 = 3_000;

/// The same of a stream that is known to have ended.
const LOST_MS: u64 = 1_500;

/// After this long a stream is given up that was not closed.
const GIVEN_UP_MS: u64 = 15_000;

/// All that the screen shows.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) server: String,
    live: Option<Picture>,
    frozen: Option<Picture>,
    pub(crate) view: View,
    /// The policy that the cursor is on, by its name: the order changes each second.
    chosen: Option<String>,
    pub(crate) has_help: bool,
    /// What the last key came to, if it was not what was asked for.
    pub(crate) notice: Option<String>,
    /// Why the service is not heard.
    pub(crate) trouble: Option<String>,
    began_ms: u64,
    heard_ms: Option<u64>,
    asked_ms: u64,
    /// The time here.
    pub(crate) now_ms: u64,
}

/// What is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum View {
    Overview,
    Policy(String),
}

/// A key that was pressed, by what it means.
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

/// What is to be done besides drawing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wish {
    Nothing,
    Quit,
    /// Listen anew, to this policy too.
    Listen(Option<String>),
    /// End: the service says no.
    GiveUp(String),
}

impl State {
    pub(crate) fn new(server: &str, now_ms: u64) -> Self {
        Self {
            server: server.to_owned(),
            live: None,
            frozen: None,
            view: View::Overview,
            chosen: None,
            has_help: false,
            notice: None,
            trouble: None,
            began_ms: now_ms,
            heard_ms: None,
            asked_ms: now_ms,
            now_ms,
        }
    }

    /// What is shown; nothing before anything was heard.
    pub(crate) fn picture(&self) -> Option<&Picture> {
        self.frozen.as_ref().or(self.live.as_ref())
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    /// For how long nothing was heard, if that is too long.
    pub(crate) fn silent_ms(&self) -> Option<u64> {
        let silent = self.now_ms.saturating_sub(self.heard_ms.unwrap_or(self.began_ms));
        // A stream that ends is begun anew at once: only if that fails is there anything to tell.
        let is_lost = self.trouble.is_some() && (self.heard_ms.is_none() || silent > LOST_MS);
        (silent > LIVE_MS || is_lost).then_some(silent)
    }

    pub(crate) fn was_heard(&self) -> bool {
        self.heard_ms.is_some()
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, now_ms: u64) -> Wish {
        self.now_ms = now_ms.max(self.now_ms);
        // Closed streams are begun anew where they are read; this is for those that fell silent.
        let last = self.heard_ms.unwrap_or(self.began_ms).max(self.asked_ms);
        if self.trouble.is_none() && self.now_ms.saturating_sub(last) > GIVEN_UP_MS {
            return self.listen();
        }
        Wish::Nothing
    }

    pub(crate) fn hear(&mut self, heard: Heard) -> Wish {
        if !matches!(heard, Heard::Lost(_) | Heard::Refused(_)) {
            self.heard_ms = Some(self.now_ms);
            self.trouble = None;
        }
        match heard {
            Heard::Overview(overview) => {
                let hits = self.live.take().and_then(|before| before.hits);
                self.live = Some(Picture { hits, ..Picture::new(*overview) });
            }
            Heard::Tick(tick) => {
                if let Some(picture) = &mut self.live {
                    picture.tick(*tick);
                }
            }
            Heard::Hits(hits) => {
                if let Some(picture) = &mut self.live {
                    (picture.hits, picture.problem) = (Some(*hits), None);
                }
            }
            Heard::Problem(why) => {
                if let Some(picture) = &mut self.live {
                    picture.problem = Some(why);
                }
            }
            Heard::Lost(why) => self.trouble = Some(why),
            Heard::Refused(why) if self.view == View::Overview => return Wish::GiveUp(why),
            Heard::Refused(why) => {
                self.notice = Some(why);
                self.view = View::Overview;
                return self.listen();
            }
        }
        Wish::Nothing
    }

    pub(crate) fn press(&mut self, press: Press) -> Wish {
        self.notice = None;
        if self.has_help && press != Press::Quit {
            self.has_help = false;
            return Wish::Nothing;
        }
        match press {
            Press::Quit => return Wish::Quit,
            Press::Help => self.has_help = true,
            Press::Pause if self.frozen.is_some() => self.frozen = None,
            Press::Pause => self.frozen = self.live.clone(),
            Press::Up => self.move_by(-1),
            Press::Down => self.move_by(1),
            Press::Back if self.view != View::Overview => {
                self.view = View::Overview;
                return self.listen();
            }
            Press::Enter if self.view == View::Overview => return self.enter(),
            Press::Back | Press::Enter => {}
        }
        Wish::Nothing
    }

    /// The place of the cursor among the policies.
    pub(crate) fn place(&self) -> usize {
        let place = self.policies().iter().position(|policy| Some(&policy.name) == self.chosen.as_ref());
        place.unwrap_or(0)
    }

    fn policies(&self) -> &[PolicySummary] {
        self.picture().map_or(&[], |picture| &picture.now.policies)
    }

    fn move_by(&mut self, step: isize) {
        let place = self.place().saturating_add_signed(step).min(self.policies().len().saturating_sub(1));
        self.chosen = self.policies().get(place).map(|policy| policy.name.clone());
    }

    fn enter(&mut self) -> Wish {
        let Some(policy) = self.policies().get(self.place()) else { return Wish::Nothing };
        let (name, is_configured) = (policy.name.clone(), policy.mode.is_some());
        self.chosen = Some(name.clone());
        if !is_configured {
            self.notice = Some(format!("{name} is no policy of the configuration: its keys are not followed"));
            return Wish::Nothing;
        }
        // A frozen picture knows nothing of the keys that are asked for now.
        self.frozen = None;
        if let Some(picture) = &mut self.live {
            (picture.hits, picture.problem) = (None, None);
        }
        self.view = View::Policy(name);
        self.listen()
    }

    fn listen(&mut self) -> Wish {
        self.asked_ms = self.now_ms;
        Wish::Listen(match &self.view {
            View::Overview => None,
            View::Policy(name) => Some(name.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Press, State, View, Wish};
    use crate::top::{feed::Heard, samples};

    fn heard(now_ms: u64) -> State {
        let mut state = State::new("http://127.0.0.1:8080", now_ms);
        assert_eq!(state.hear(samples::heard_overview()), Wish::Nothing);
        state
    }

    #[test]
    fn the_cursor_stays_on_its_policy_when_the_order_changes() {
        let mut state = heard(0);
        state.press(Press::Down);
        assert_eq!(state.picture().expect("a picture").now.policies[state.place()].name, "login");
        state.hear(samples::heard_tick(|now| now["policies"][0]["allowed"] = 1_000_000.into()));
        assert_eq!((state.place(), state.policies()[0].name.as_str()), (0, "login"));
        for _ in 0..9 {
            state.press(Press::Down);
        }
        assert_eq!(state.place(), 3, "the last one");
    }

    #[test]
    fn a_policy_is_entered_and_left_and_what_is_none_is_not() {
        let mut state = heard(0);
        assert_eq!(state.press(Press::Enter), Wish::Listen(Some("public-api".to_owned())));
        state.hear(samples::heard_hits());
        assert!(state.picture().is_some_and(|picture| picture.hits.is_some()));
        assert_eq!(state.press(Press::Back), Wish::Listen(None));
        assert_eq!(state.press(Press::Back), Wish::Nothing);
        state.press(Press::Down);
        state.press(Press::Down);
        assert_eq!((state.press(Press::Enter), &state.view), (Wish::Nothing, &View::Overview));
        assert!(state.notice.as_ref().is_some_and(|notice| notice.contains("(limits)")));
    }

    #[test]
    fn silence_is_told_and_a_silent_stream_is_given_up() {
        let mut state = heard(1_000);
        assert_eq!((state.pass(4_000), state.silent_ms()), (Wish::Nothing, None));
        assert_eq!((state.pass(4_001), state.silent_ms()), (Wish::Nothing, Some(3_001)));
        assert_eq!(state.pass(16_001), Wish::Listen(None));
        assert_eq!(state.pass(16_100), Wish::Nothing, "it was just asked");
        state.hear(Heard::Lost("gone".to_owned()));
        assert_eq!(state.pass(90_000), Wish::Nothing, "it is tried again already");
        assert_eq!(state.silent_ms(), Some(89_000));
        state.hear(samples::heard_overview());
        assert_eq!((state.silent_ms(), &state.trouble), (None, &None));
    }

    #[test]
    fn what_is_paused_stands_still_until_it_goes_on() {
        let mut state = heard(0);
        state.press(Press::Pause);
        state.hear(samples::heard_tick(|now| now["last"]["per_second"] = 7.into()));
        let shown = |state: &State| state.picture().map(|picture| picture.now.last.per_second);
        assert_eq!((state.is_paused(), shown(&state)), (true, Some(123.4)));
        state.press(Press::Pause);
        assert_eq!((state.is_paused(), shown(&state)), (false, Some(7.0)));
    }

    #[test]
    fn a_policy_that_is_gone_leads_back_and_a_token_that_is_wrong_ends_it() {
        let mut state = heard(0);
        state.press(Press::Enter);
        assert_eq!(state.hear(Heard::Refused("no such policy".to_owned())), Wish::Listen(None));
        assert_eq!((&state.view, state.notice.as_deref()), (&View::Overview, Some("no such policy")));
        assert_eq!(state.hear(Heard::Refused("no token".to_owned())), Wish::GiveUp("no token".to_owned()));
    }
}
