//! [`Theme`]: colours for light and dark terminals. All information is also in words.

use ratatui::style::{Color, Modifier, Style};

/// Whether there are colours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Theme {
    pub(crate) has_colours: bool,
}

impl Theme {
    /// Respects `NO_COLOR`.
    pub(crate) fn from_environment() -> Self {
        Self { has_colours: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) }
    }

    fn colour(self, colour: Color) -> Style {
        if self.has_colours { Style::new().fg(colour) } else { Style::new() }
    }

    pub(crate) fn allowed(self) -> Style {
        self.colour(Color::Green)
    }

    pub(crate) fn denied(self) -> Style {
        self.colour(Color::Red)
    }

    pub(crate) fn shadow(self) -> Style {
        self.colour(Color::Magenta)
    }

    pub(crate) fn alarm(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD | Modifier::REVERSED)
    }

    pub(crate) fn title() -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(crate) fn chosen() -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}
