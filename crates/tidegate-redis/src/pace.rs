//! [`Pace`]: whether a server answers within the timeout, judged by the share of its newest answers that were in time.
//!
//! Each call of the script counts as one answer, and so does each check of the server. An answer is timed from sending
//! the call to receiving the answer, without the time that requests waited before. A server is too slow if most answers
//! of the last second or two were late, and at least [`LEAST`] of them. One stall delays only the answers under way at
//! that time, which are fewer. While many requests wait, this process or the server may only be short of processor
//! time. Then the server is too slow only if no answer was in time.

/// Minimum number of late answers.
const LEAST: u32 = 8;
/// Length of one part of the window, in microseconds.
const PART: u64 = 500_000;

/// The newest answers, in two parts of a window: the current part and the previous one.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Pace {
    began: u64,
    current: Answers,
    previous: Answers,
}

#[derive(Debug, Default, Clone, Copy)]
struct Answers {
    in_time: u32,
    late: u32,
}

impl Pace {
    /// Records an answer that came at `now`. Returns whether the server is too slow.
    pub(crate) fn note(&mut self, now: u64, in_time: bool, under_pressure: bool) -> bool {
        if now.saturating_sub(self.began) >= PART {
            let is_next = now.saturating_sub(self.began) < 2 * PART;
            self.previous = if is_next { self.current } else { Answers::default() };
            (self.began, self.current) = (now, Answers::default());
        }
        let counted = if in_time { &mut self.current.in_time } else { &mut self.current.late };
        *counted = counted.saturating_add(1);
        let late = self.current.late.saturating_add(self.previous.late);
        let in_time = self.current.in_time.saturating_add(self.previous.in_time);
        late >= LEAST && if under_pressure { in_time == 0 } else { late > in_time }
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;

    /// Whether the server is too slow after these answers, one each millisecond.
    fn is_slow(answers: &[(bool, u32)], under_pressure: bool) -> bool {
        let (mut pace, mut now, mut slow) = (Pace::default(), 10_000_000, false);
        for (in_time, times) in answers {
            for _ in 0..*times {
                now += 1000;
                slow = pace.note(now, *in_time, under_pressure);
            }
        }
        slow
    }

    #[test]
    fn the_share_of_answers_in_time_decides_and_not_one_stall() {
        assert!(!is_slow(&[(true, 5), (false, 3)], false), "one stall");
        assert!(!is_slow(&[(false, 7)], false), "too few to tell");
        assert!(is_slow(&[(false, 8)], false));
        assert!(!is_slow(&[(true, 100), (false, 99)], false));
        assert!(is_slow(&[(true, 100), (false, 101)], false));
    }

    #[test]
    fn under_pressure_one_answer_in_time_shows_that_the_server_is_not_too_far_away() {
        assert!(!is_slow(&[(true, 1), (false, 400)], true));
        assert!(is_slow(&[(false, 8)], true));
    }

    #[test]
    fn old_answers_do_not_count() {
        let mut pace = Pace::default();
        for _ in 0..1000 {
            pace.note(1_000_000, true, false);
        }
        let late = (0..8).map(|i| pace.note(3_000_000 + i, false, false)).last();
        assert_eq!(late, Some(true));
    }
}
