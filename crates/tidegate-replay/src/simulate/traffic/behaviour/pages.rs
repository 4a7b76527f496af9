//! [`Pages`]: a page, what belongs to it at once, then time to read.

use super::Clock;
use crate::simulate::{
    random::Random,
    traffic::{curve::Curve, requests::What},
};

/// A client that loads pages: bursts and pauses.
#[derive(Debug, Clone)]
pub(in crate::simulate::traffic) struct Pages {
    clock: Clock,
    /// Requests of a page, on average.
    page: f64,
    mean_asset_gap: f64,
    mean_think: f64,
    curve: Option<Curve>,
    /// What is still to come of the page.
    assets: u64,
    begun: bool,
}

impl Pages {
    /// A client whose requests are `mean_gap` apart on average, come in pages of `page` requests, and take `loading` a page.
    pub(in crate::simulate::traffic) fn new(
        clock: Clock,
        mean_gap: f64,
        page: f64,
        loading: f64,
        curve: Option<Curve>,
    ) -> Self {
        let cycle = mean_gap * page;
        // A busy client loads faster, so that it comes to its rate.
        let loading = loading.min(cycle / 2.0);
        Self {
            clock,
            page,
            mean_asset_gap: loading / page,
            mean_think: cycle - loading,
            curve,
            assets: 0,
            begun: false,
        }
    }

    pub(super) fn next(&mut self, random: &mut Random) -> (u64, What) {
        if self.assets > 0 {
            self.assets -= 1;
            self.clock.pass(random.exponential(self.mean_asset_gap));
            return (self.clock.now(), What::Asset);
        }
        // Most pages follow the last one soon, some after a long while; the mean is the mean.
        // Traffic begins with everybody in the middle of something, and whoever one meets is mostly in a long while.
        let long = random.chance(if self.begun { 0.2 } else { 0.2 * 3.4 });
        let mean = self.mean_think * if long { 3.4 } else { 0.4 };
        let busy = self.curve.map_or(1.0, |curve| curve.at(self.clock.now()));
        self.clock.pass(random.exponential(mean) / busy);
        self.begun = true;
        self.assets = random.geometric(self.page) - 1;
        (self.clock.now(), What::Page)
    }
}
