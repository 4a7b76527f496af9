//! [`ResponseTimes`]: whether a server answers within the timeout, judged by the share of its newest answers that were in time.
//!
//! Each call of the script counts as one answer, and so does each check of the server. An answer is timed from sending
//! the call to receiving the answer, without the time that requests waited before. A server is too slow if most answers
//! of the last second or two were late, and at least [`MIN_LATE`] of them. One stall delays only the answers under way at
//! that time, which are fewer. While many requests wait, this process or the server may only be short of processor
//! time. Then the server is too slow only if no answer was in time.

/// Minimum number of late answers.
const MIN_LATE: u32 = 8;
/// Length of one half of the window, in microseconds.
const HALF_WINDOW: u64 = 500_000;

/// The newest answers, in two halves of a window: the current half and the previous one.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct ResponseTimes {
    began: u64,
    current: Answers,
    previous: Answers,
}

#[derive(Debug, Default, Clone, Copy)]
struct Answers {
    in_time: u32,
    late: u32,
}

impl ResponseTimes {
    /// Records an answer that came at `now`. Returns whether the server is too slow.
    pub(crate) fn record(&mut self, now: u64, in_time: bool, is_busy: bool) -> bool {
        if now.saturating_sub(self.began) >= HALF_WINDOW {
            let is_next = now.saturating_sub(self.began) < 2 * HALF_WINDOW;
            self.previous = if is_next { self.current } else { Answers::default() };
            (self.began, self.current) = (now, Answers::default());
        }
        let counted = if in_time { &mut self.current.in_time } else { &mut self.current.late };
        *counted = counted.saturating_add(1);
        let late = self.current.late.saturating_add(self.previous.late);
        let in_time = self.current.in_time.saturating_add(self.previous.in_time);
        late >= MIN_LATE && if is_busy { in_time == 0 } else { late > in_time }
    }
}

#[cfg(test)]
mod tests {
    use super::ResponseTimes;

    /// Whether the server is too slow after these answers, one each millisecond.
    fn is_slow(answers: &[(bool, u32)], is_busy: bool) -> bool {
        let (mut response_times, mut now, mut slow) = (ResponseTimes::default(), 10_000_000, false);
        for (in_time, times) in answers {
            for _ in 0..*times {
                now += 1000;
                slow = response_times.record(now, *in_time, is_busy);
            }
        }
        slow
    }

    #[test]
    fn the_share_of_answers_in_time_decides_not_one_stall() {
        assert!(!is_slow(&[(true, 5), (false, 3)], false), "one stall");
        assert!(!is_slow(&[(false, 7)], false), "too few late answers");
        assert!(is_slow(&[(false, 8)], false));
        assert!(!is_slow(&[(true, 100), (false, 99)], false));
        assert!(is_slow(&[(true, 100), (false, 101)], false));
    }

    #[test]
    fn while_many_requests_wait_one_answer_in_time_shows_that_the_server_is_not_too_slow() {
        assert!(!is_slow(&[(true, 1), (false, 400)], true));
        assert!(is_slow(&[(false, 8)], true));
    }

    #[test]
    fn old_answers_do_not_count() {
        let mut response_times = ResponseTimes::default();
        for _ in 0..1000 {
            response_times.record(1_000_000, true, false);
        }
        let late = (0..8).map(|i| response_times.record(3_000_000 + i, false, false)).last();
        assert_eq!(late, Some(true));
    }
}
