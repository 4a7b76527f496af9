//! [`Tallies`]: what each client asked for and got.

/// Counts of all clients, by their numbers. Those of one lie side by side: requests, units, the most units in a window (one for each
/// window), and denials (one for each policy).
#[derive(Debug)]
pub(super) struct Tallies {
    cells: Vec<u64>,
    windows: usize,
    policies: usize,
}

/// The counts of one client.
#[derive(Debug)]
pub(super) struct Tally<'a> {
    cells: &'a mut [u64],
    windows: usize,
}

impl Tallies {
    pub(super) fn new(windows: usize, policies: usize) -> Self {
        Self { cells: Vec::new(), windows, policies }
    }

    fn columns(&self) -> usize {
        2 + self.windows + self.policies
    }

    /// How many clients there are.
    pub(super) fn len(&self) -> usize {
        self.cells.len() / self.columns()
    }

    /// The counts of a client, which may be new.
    #[inline]
    pub(super) fn of(&mut self, client: u32) -> Tally<'_> {
        let columns = self.columns();
        let at = client as usize * columns;
        if at >= self.cells.len() {
            self.cells.resize(at + columns, 0);
        }
        Tally { cells: &mut self.cells[at..at + columns], windows: self.windows }
    }

    /// A count of every client, in their order.
    fn column(&self, column: usize) -> impl Iterator<Item = u64> + '_ {
        self.cells.iter().skip(column).step_by(self.columns()).copied()
    }

    pub(super) fn requests(&self) -> impl Iterator<Item = u64> + '_ {
        self.column(0)
    }

    pub(super) fn peaks(&self, window: usize) -> impl Iterator<Item = u64> + '_ {
        self.column(2 + window)
    }

    pub(super) fn denied(&self, policy: usize) -> impl Iterator<Item = u64> + '_ {
        self.column(2 + self.windows + policy)
    }
}

impl Tally<'_> {
    pub(super) fn requests(&mut self) -> &mut u64 {
        &mut self.cells[0]
    }

    pub(super) fn units(&mut self) -> &mut u64 {
        &mut self.cells[1]
    }

    pub(super) fn peak(&mut self, window: usize) -> &mut u64 {
        &mut self.cells[2 + window]
    }

    pub(super) fn denied(&mut self, policy: usize) -> &mut u64 {
        &mut self.cells[2 + self.windows + policy]
    }
}
