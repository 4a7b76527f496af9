//! [`ClientCounts`]: the requests, units, peaks and denials of each client.

/// Counts of all clients. The counts of one client are adjacent: requests, units, peak (for each window), denials (for each policy).
#[derive(Debug)]
pub(super) struct ClientCounts {
    cells: Vec<u64>,
    windows: usize,
    columns: usize,
}

/// Columns of the counts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Column {
    Requests,
    Units,
    /// Largest number of units requested in this window.
    Peak(usize),
    /// Requests denied by this policy.
    Denied(usize),
}

impl ClientCounts {
    pub(super) fn new(windows: usize, policies: usize) -> Self {
        Self { cells: Vec::new(), windows, columns: 2 + windows + policies }
    }

    /// Returns the number of clients.
    pub(super) fn len(&self) -> usize {
        self.cells.len() / self.columns
    }

    #[inline]
    fn index(&self, column: Column) -> usize {
        match column {
            Column::Requests => 0,
            Column::Units => 1,
            Column::Peak(window) => 2 + window,
            Column::Denied(policy) => 2 + self.windows + policy,
        }
    }

    /// Returns a count of a client, which may be new.
    #[inline]
    pub(super) fn get_mut(&mut self, client: u32, column: Column) -> &mut u64 {
        let start = client as usize * self.columns;
        if start >= self.cells.len() {
            self.cells.resize(start + self.columns, 0);
        }
        let index = start + self.index(column);
        &mut self.cells[index]
    }

    pub(super) fn get(&self, client: u32, column: Column) -> u64 {
        self.cells.get(client as usize * self.columns + self.index(column)).copied().unwrap_or(0)
    }

    /// Returns a count of every client, in order.
    pub(super) fn column(&self, column: Column) -> impl Iterator<Item = u64> + '_ {
        self.cells.iter().skip(self.index(column)).step_by(self.columns).copied()
    }
}
