//! Processes, and the records of all of them.

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdin},
    sync::mpsc::{self, Receiver, Sender},
    thread::JoinHandle,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use super::{
    wall_micros,
    windows::{self, Admission},
    worker::Settings,
};

/// The longest time until a condition is met. A machine that is busy with other tests takes much less.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);

/// What a process has printed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Record {
    Admitted { admission: Admission, by_lease: bool },
    Denied,
    Unanswered { before: u64 },
    Leased { until: u64 },
}

impl Record {
    /// The record in a line. A process that is killed may leave half a line.
    fn of(line: &str) -> Option<Self> {
        // The test harness prints into the first line.
        let at = ["admitted", "denied", "unanswered", "leased"].iter().find_map(|word| line.find(word))?;
        let mut words = line[at..].split(' ');
        let word = words.next()?;
        let mut number = || words.next()?.parse::<u64>().ok();
        Some(match word {
            "admitted" => {
                let admission = Admission { before: number()?, after: number()? };
                Self::Admitted { admission, by_lease: number()? == 1 }
            }
            "denied" => Self::Denied,
            "unanswered" => Self::Unanswered { before: number()? },
            _ => Self::Leased { until: number()? },
        })
    }
}

/// A process, by its number in the order of the starts.
struct Process {
    child: Child,
    input: Option<ChildStdin>,
    reader: JoinHandle<()>,
}

/// Processes, and what they have recorded so far.
pub(super) struct Fleet {
    running: Vec<Option<Process>>,
    records: Receiver<(usize, Record)>,
    sender: Sender<(usize, Record)>,
    pub(super) admissions: Vec<Admission>,
    pub(super) by_lease: usize,
    pub(super) denied: usize,
    /// The latest end of the leases of each process so far.
    until: Vec<u64>,
    /// How long after the end of its lease some process has admitted.
    pub(super) latest_by_lease: u64,
}

impl Fleet {
    pub(super) fn new() -> Self {
        let (sender, records) = mpsc::channel();
        Self {
            running: Vec::new(),
            records,
            sender,
            admissions: Vec::new(),
            by_lease: 0,
            denied: 0,
            until: Vec::new(),
            latest_by_lease: 0,
        }
    }

    /// Starts a process. Returns its number.
    pub(super) fn start(&mut self, settings: &Settings) -> usize {
        let number = self.running.len();
        let mut child = settings.command().spawn().expect("a process");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("its output"));
        let sender = self.sender.clone();
        let reader = std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            for record in lines.filter_map(|line| Record::of(&line)) {
                if sender.send((number, record)).is_err() {
                    return;
                }
            }
        });
        self.running.push(Some(Process { child, input, reader }));
        self.until.push(0);
        number
    }

    /// Starts several processes.
    pub(super) fn start_all(&mut self, count: usize, settings: &Settings) {
        for _ in 0..count {
            self.start(settings);
        }
    }

    fn process(&mut self, number: usize) -> &mut Process {
        self.running[number].as_mut().expect("it runs")
    }

    fn signal(&mut self, number: usize, signal: Signal) {
        kill_process(Pid::from_child(&self.process(number).child), signal).expect("it runs");
    }

    /// Stops a process (`SIGSTOP`).
    pub(super) fn stop(&mut self, number: usize) {
        self.signal(number, Signal::STOP);
    }

    pub(super) fn resume(&mut self, number: usize) {
        self.signal(number, Signal::CONT);
    }

    /// Kills a process (`SIGKILL`).
    pub(super) fn kill(&mut self, number: usize) {
        let mut process = self.running[number].take().expect("it runs");
        process.child.kill().expect("it runs");
        process.child.wait().expect("it has ended");
        process.reader.join().expect("a thread");
    }

    /// Adds records until one meets a condition.
    pub(super) fn run_until(&mut self, goal: &str, mut is_met: impl FnMut(&Self, &(usize, Record)) -> bool) {
        let deadline = wall_micros() + u64::try_from(PATIENCE.as_micros()).expect("in range");
        loop {
            let record = self.records.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no record before {goal}"));
            self.add(record);
            if is_met(self, &record) {
                return;
            }
            assert!(wall_micros() < deadline, "waited {PATIENCE:?} for {goal}");
        }
    }

    /// Adds records until there are so many more admissions.
    pub(super) fn run_for(&mut self, admissions: usize) {
        let enough = self.admissions.len() + admissions;
        self.run_until("admissions", |fleet, _| fleet.admissions.len() >= enough);
    }

    /// Adds records until there are so many more admissions by leases.
    pub(super) fn run_for_leased(&mut self, admissions: usize) {
        let enough = self.by_lease + admissions;
        self.run_until("admissions by leases", |fleet, _| fleet.by_lease >= enough);
    }

    fn add(&mut self, (number, record): (usize, Record)) {
        match record {
            Record::Admitted { admission, by_lease } => {
                self.admissions.push(admission);
                if by_lease {
                    self.by_lease += 1;
                    let late = admission.before.saturating_sub(self.until[number]);
                    self.latest_by_lease = self.latest_by_lease.max(late);
                }
            }
            Record::Denied => self.denied += 1,
            Record::Unanswered { .. } => {}
            Record::Leased { until } => self.until[number] = until,
        }
    }

    pub(super) fn worst_window(&self, settings: &Settings) -> u64 {
        windows::worst_window(&self.admissions, settings.limit().window())
    }

    /// Lets all processes end, and adds their last records.
    pub(super) fn finish(&mut self) {
        for process in self.running.iter_mut().filter_map(Option::take) {
            let Process { mut child, input, reader } = process;
            drop(input);
            assert!(child.wait().expect("it ends").success());
            reader.join().expect("a thread");
        }
        while let Ok(record) = self.records.try_recv() {
            self.add(record);
        }
    }

    /// Lets all processes end, and asserts that they have never exceeded the limit together, and that none has admitted a
    /// request by a lease that had ended.
    pub(super) fn finish_within_the_limit(mut self, settings: &Settings) {
        self.finish();
        let (worst, max) = (self.worst_window(settings), settings.limit().max());
        let (all, by_lease) = (self.admissions.len(), self.by_lease);
        println!("{all} admissions, {by_lease} by leases, at most {worst} in a window of {max}");
        assert!(worst <= max, "{worst} admissions in a window of {max}");
        assert_eq!(self.latest_by_lease, 0, "microseconds after the end of a lease");
        assert!(by_lease > 0, "no lease was used");
    }
}

impl Drop for Fleet {
    /// After a failure, no process remains. One that is stopped would not notice that its input has ended.
    fn drop(&mut self) {
        for mut process in self.running.iter_mut().filter_map(Option::take) {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}
