//! A model behind two limits at once, requests per minute and tokens per minute, where nobody knows beforehand how many tokens an
//! answer has: reserve what it may take, settle for what it took.
//!
//! Minutes are compressed to seconds. `cargo run -p tidegate-tower --example llm_tokens`

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tidegate::{Cost, Key, Limit, Policy, Timestamp};
use tidegate_tower::caller::Budget;

const MINUTE: Duration = Duration::from_secs(1);
const REQUESTS: u64 = 20;
const TOKENS: u64 = 10_000;

/// What a call has cost: when it was paid for, and how many tokens.
type Bill = Arc<Mutex<Vec<(u64, u64)>>>;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let budget = Budget::all([
        Policy::new("requests", [Limit::new(REQUESTS, MINUTE)?])?,
        Policy::new("tokens", [Limit::new(TOKENS, MINUTE)?])?,
    ])
    .with_max_wait(Duration::from_secs(30));
    let bill = Bill::default();

    let ask = |number: u64| {
        let (budget, bill) = (budget.clone(), Arc::clone(&bill));
        tokio::spawn(async move {
            let (prompt_tokens, max_tokens) = (200 + number * 37 % 400, 1_200);
            let model = Key::new("some-model")?;
            // The prompt, and as much as it may answer.
            let reserved = Cost::new(prompt_tokens + max_tokens)?;
            let permit = budget.acquire_each(&model, &[Cost::ONE, reserved]).await?;
            let paid_at = permit.decision().charged_at().map_or(0, Timestamp::as_micros);
            let completion_tokens = complete(number).await;
            let used = prompt_tokens + completion_tokens;
            permit.settle_each(&[1, used]).await?;
            bill.lock().expect("no panic").push((paid_at, used));
            anyhow::Ok(reserved.get() - used)
        })
    };
    let asking: Vec<_> = (0..60).map(ask).collect();
    let mut given_back = 0;
    for answer in asking {
        given_back += answer.await??;
    }

    let mut bill = bill.lock().expect("no panic").clone();
    bill.sort_unstable();
    let most = |units: fn(&(u64, u64)) -> u64| most_in_a_minute(&bill, units);
    let [requests, tokens] = [most(|_| 1), most(|(_, tokens)| *tokens)];
    println!("60 answers; {given_back} tokens were reserved and given back");
    println!("the most that any minute held: {requests} of {REQUESTS} requests, {tokens} of {TOKENS} tokens");
    anyhow::ensure!(requests <= REQUESTS && tokens <= TOKENS, "more was spent than may be");
    Ok(())
}

/// The model. It takes a while, and nobody knows how much it will say.
async fn complete(number: u64) -> u64 {
    tokio::time::sleep(Duration::from_millis(20 + number % 7 * 10)).await;
    100 + number * 7919 % 1_100
}

fn most_in_a_minute(bill: &[(u64, u64)], units: fn(&(u64, u64)) -> u64) -> u64 {
    let minute = u64::try_from(MINUTE.as_micros()).unwrap_or(u64::MAX);
    let held = |(end, _): &(u64, u64)| bill.iter().filter(|(at, _)| at <= end && end - at < minute).map(units).sum();
    bill.iter().map(held).max().unwrap_or(0)
}
