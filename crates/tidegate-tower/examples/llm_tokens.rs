//! Calls to a language model with two limits: requests per minute and tokens per minute. The number of tokens of an
//! answer is not known in advance, so each call reserves a maximum and settles the actual number.
//!
//! A minute takes one second here. `cargo run -p tidegate-tower --example llm_tokens`

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tidegate::{Cost, Key, Limit, Policy, Timestamp};
use tidegate_tower::caller::Budget;

const MINUTE: Duration = Duration::from_secs(1);
const REQUESTS: u64 = 20;
const TOKENS: u64 = 10_000;

/// The charges of all calls: the time and the number of tokens.
type Charges = Arc<Mutex<Vec<(u64, u64)>>>;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let budget = Budget::all([
        Policy::new("requests", [Limit::new(REQUESTS, MINUTE)?])?,
        Policy::new("tokens", [Limit::new(TOKENS, MINUTE)?])?,
    ])
    .with_max_wait(Duration::from_secs(30));
    let charges = Charges::default();

    let call = |number: u64| {
        let (budget, charges) = (budget.clone(), Arc::clone(&charges));
        tokio::spawn(async move {
            let (prompt_tokens, max_tokens) = (200 + number * 37 % 400, 1_200);
            let model = Key::new("some-model")?;
            // The prompt, and the longest possible answer.
            let reserved = Cost::new(prompt_tokens + max_tokens)?;
            let permit = budget.acquire_each(&model, &[Cost::ONE, reserved]).await?;
            let charged_at = permit.decision().charged_at().map_or(0, Timestamp::as_micros);
            let completion_tokens = complete(number).await;
            let used = prompt_tokens + completion_tokens;
            permit.settle_each(&[1, used]).await?;
            charges.lock().expect("no panic").push((charged_at, used));
            anyhow::Ok(reserved.get() - used)
        })
    };
    let calls: Vec<_> = (0..60).map(call).collect();
    let mut refunded = 0;
    for call in calls {
        refunded += call.await??;
    }

    let mut charges = charges.lock().expect("no panic").clone();
    charges.sort_unstable();
    let max = |units: fn(&(u64, u64)) -> u64| max_per_minute(&charges, units);
    let [requests, tokens] = [max(|_| 1), max(|(_, tokens)| *tokens)];
    println!("60 calls; {refunded} reserved tokens were given back");
    println!("maximum in any minute: {requests} of {REQUESTS} requests, {tokens} of {TOKENS} tokens");
    anyhow::ensure!(requests <= REQUESTS && tokens <= TOKENS, "a limit was exceeded");
    Ok(())
}

/// The model. Returns the number of tokens of its answer.
async fn complete(number: u64) -> u64 {
    tokio::time::sleep(Duration::from_millis(20 + number % 7 * 10)).await;
    100 + number * 7919 % 1_100
}

fn max_per_minute(charges: &[(u64, u64)], units: fn(&(u64, u64)) -> u64) -> u64 {
    let minute = u64::try_from(MINUTE.as_micros()).unwrap_or(u64::MAX);
    let spent =
        |(end, _): &(u64, u64)| charges.iter().filter(|(at, _)| at <= end && end - at < minute).map(units).sum();
    charges.iter().map(spent).max().unwrap_or(0)
}
