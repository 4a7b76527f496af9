//! The terminal: taken, drawn on, and given back however it ends.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::DefaultTerminal;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};
use tidegate::Clock;

use super::{
    draw::draw,
    feed::Feed,
    look::Look,
    state::{Press, State, Wish},
};
use crate::{ask::Place, outcome::Outcome, times, visible::visible};

/// How long a key or an event may wait to be seen.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The terminal while it is ours.
struct Screen(DefaultTerminal);

impl Screen {
    /// Takes it; a panic gives it back before it is told.
    fn take() -> io::Result<Self> {
        ratatui::try_init().map(Self)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

pub(crate) fn watch(place: &Place) -> anyhow::Result<Outcome> {
    let is_over = Arc::new(AtomicBool::new(false));
    take_signals(&is_over).context("signals can't be waited for")?;
    let clock = Clock::system();
    let mut state = State::new(&place.server, times::now_ms(&clock));
    let mut feed = Feed::start(place, None).context("no thread can be had")?;
    let screen = Screen::take().context("the terminal can't be drawn on: use --once")?;
    let ended = run(screen, &mut state, &mut feed, place, &clock, &is_over);
    match ended? {
        Wish::GiveUp(why) => {
            crate::say::complain(visible(&why));
            Ok(Outcome::Usage)
        }
        _ => Ok(Outcome::Good),
    }
}

/// Ends it by signals. A terminal that is gone can't be given back, and waiting for its keys would have no end: that ends it at once, as
/// does a second signal of the others.
fn take_signals(is_over: &Arc<AtomicBool>) -> io::Result<()> {
    flag::register_conditional_shutdown(SIGHUP, 128 + SIGHUP, Arc::new(AtomicBool::new(true)))?;
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(is_over))?;
        flag::register(signal, Arc::clone(is_over))?;
    }
    Ok(())
}

/// Until somebody has seen enough, or the service says no; gives the terminal back in any case.
fn run(
    mut screen: Screen,
    state: &mut State,
    feed: &mut Feed,
    place: &Place,
    clock: &Clock,
    is_over: &AtomicBool,
) -> anyhow::Result<Wish> {
    let look = Look::from_environment();
    let (mut is_new, mut drawn_s) = (true, 0);
    while !is_over.load(Ordering::Relaxed) {
        let now_ms = times::now_ms(clock);
        let mut wishes = vec![state.pass(now_ms)];
        for heard in feed.heard() {
            wishes.push(state.hear(heard));
            is_new = true;
        }
        // Silence is told by the second.
        if is_new || now_ms / 1_000 != drawn_s {
            screen.0.draw(|frame| draw(frame, state, look)).context("the terminal can't be drawn on")?;
            (is_new, drawn_s) = (false, now_ms / 1_000);
        }
        match event::poll(LOOK_EVERY) {
            Ok(true) => {
                is_new = true;
                if let Event::Key(key) = event::read().context("keys can't be read")?
                    && let Some(press) = meant(key)
                {
                    wishes.push(state.press(press));
                }
            }
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("keys can't be read"),
        }
        for wish in wishes {
            match wish {
                Wish::Nothing => {}
                Wish::Listen(policy) => {
                    *feed = Feed::start(place, policy.as_deref()).context("no thread can be had")?;
                }
                end @ (Wish::Quit | Wish::GiveUp(_)) => return Ok(end),
            }
        }
    }
    Ok(Wish::Quit)
}

/// What a key means.
fn meant(key: KeyEvent) -> Option<Press> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return (key.code == KeyCode::Char('c')).then_some(Press::Quit);
    }
    Some(match key.code {
        KeyCode::Up | KeyCode::Char('k') => Press::Up,
        KeyCode::Down | KeyCode::Char('j') => Press::Down,
        KeyCode::Enter => Press::Enter,
        KeyCode::Esc | KeyCode::Backspace => Press::Back,
        KeyCode::Char('p' | ' ') => Press::Pause,
        KeyCode::Char('?' | 'h') => Press::Help,
        KeyCode::Char('q') => Press::Quit,
        _ => return None,
    })
}
