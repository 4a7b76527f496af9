//! The terminal: it is restored however the command ends.

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
    live_stream::LiveStream,
    state::{Action, Press, State},
    theme::Theme,
};
use crate::{client::Endpoint, outcome::Outcome, times, visible::visible};

/// Interval of checks for keys and events.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The terminal in raw mode.
struct Screen(DefaultTerminal);

impl Screen {
    /// Enters raw mode. A panic restores the terminal before its message.
    fn enter() -> io::Result<Self> {
        ratatui::try_init().map(Self)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

pub(crate) fn watch(endpoint: &Endpoint) -> anyhow::Result<Outcome> {
    let is_over = Arc::new(AtomicBool::new(false));
    take_signals(&is_over).context("signals can't be waited for")?;
    let clock = Clock::system();
    let mut state = State::new(&endpoint.server, times::now_ms(&clock));
    let mut live = LiveStream::start(endpoint, None).context("the thread can't be started")?;
    let screen = Screen::enter().context("the terminal can't be used: use --once")?;
    let ended = run(screen, &mut state, &mut live, endpoint, &clock, &is_over);
    match ended? {
        Action::Exit(why) => {
            crate::output::print_error(visible(&why));
            Ok(Outcome::Usage)
        }
        _ => Ok(Outcome::Good),
    }
}

/// Handles signals. SIGHUP means that the terminal is gone, so it exits at once, like a second SIGINT or SIGTERM.
fn take_signals(is_over: &Arc<AtomicBool>) -> io::Result<()> {
    flag::register_conditional_shutdown(SIGHUP, 128 + SIGHUP, Arc::new(AtomicBool::new(true)))?;
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(is_over))?;
        flag::register(signal, Arc::clone(is_over))?;
    }
    Ok(())
}

/// Draws until the user quits or the service refuses the stream.
fn run(
    mut screen: Screen,
    state: &mut State,
    live: &mut LiveStream,
    endpoint: &Endpoint,
    clock: &Clock,
    is_over: &AtomicBool,
) -> anyhow::Result<Action> {
    let theme = Theme::from_environment();
    let (mut is_new, mut drawn_s) = (true, 0);
    while !is_over.load(Ordering::Relaxed) {
        let now_ms = times::now_ms(clock);
        let mut actions = vec![state.advance(now_ms)];
        for update in live.updates() {
            actions.push(state.update(update));
            is_new = true;
        }
        // The time without updates is shown in seconds.
        if is_new || now_ms / 1_000 != drawn_s {
            screen.0.draw(|frame| draw(frame, state, theme)).context("the terminal can't be drawn on")?;
            (is_new, drawn_s) = (false, now_ms / 1_000);
        }
        match event::poll(CHECK_INTERVAL) {
            Ok(true) => {
                is_new = true;
                if let Event::Key(key) = event::read().context("keys can't be read")?
                    && let Some(press) = press(key)
                {
                    actions.push(state.press(press));
                }
            }
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("keys can't be read"),
        }
        for action in actions {
            match action {
                Action::Nothing => {}
                Action::StartStream(policy) => {
                    *live = LiveStream::start(endpoint, policy.as_deref()).context("the thread can't be started")?;
                }
                end @ (Action::Quit | Action::Exit(_)) => return Ok(end),
            }
        }
    }
    Ok(Action::Quit)
}

/// Returns the meaning of a key.
fn press(key: KeyEvent) -> Option<Press> {
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
