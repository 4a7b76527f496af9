//! Overrides of single keys.
//!
//! An override is stored in the key that it overrides, where every decision finds it. A list for each policy names the
//! overrides of that policy. The list is written second: if it can't be written, the override is in force all the same.

use tidegate::{ActiveOverride, Key, Override, OverrideError, Policy, StoreError, Timestamp};

use crate::{
    error::Error,
    override_record,
    reply::Reader,
    store::RedisStore,
    wire::{Action, KeyRequest, OverrideListStep, OverrideStep, put},
};

/// The answer of Redis to an operation on the override of a key.
struct OverrideAnswer {
    /// Whether the operation was carried out.
    done: bool,
    now: u64,
    /// The override that was in force before.
    before: Option<ActiveOverride>,
}

/// Sets the override of a key. Returns the override that it replaces.
pub(crate) async fn set(
    store: &RedisStore,
    policy: &Policy,
    key: &Key<'_>,
    by: &Override,
) -> Result<Option<Override>, StoreError> {
    let list = OverrideList::new(store, policy)?;
    // The script reads an end of 0 as no end.
    if by.end().is_some_and(|end| end <= store.time().unwrap_or(Timestamp::from_micros(0))) {
        return Err(OverrideError::Over.into());
    }
    let field = store.name(policy, key).bytes;
    if !list.has_room(&field).await? {
        return Err(OverrideError::TooMany { max: store.max_overrides() }.into());
    }
    let encoded = override_record::encode(key, by);
    let answer = ask(store, OverrideStep::Set, policy, key, &encoded).await?;
    if !answer.done {
        return Err(OverrideError::Over.into());
    }
    let record = override_record::record(&encoded, answer.now);
    list.put(&field, &record).await.map_err(|error| unlisted(&error))?;
    Ok(answer.before.map(|before| before.r#override))
}

/// Removes the override of a key. Returns it if it was in force.
pub(crate) async fn remove(store: &RedisStore, policy: &Policy, key: &Key<'_>) -> Result<Option<Override>, StoreError> {
    let list = OverrideList::new(store, policy)?;
    let answer = ask(store, OverrideStep::Remove, policy, key, &[]).await?;
    // Also if there was no override: an earlier attempt may have removed it without the list.
    list.remove(&store.name(policy, key).bytes).await.map_err(|error| unlisted(&error))?;
    Ok(answer.before.map(|before| before.r#override))
}

/// The override of a key, if one is in force.
pub(crate) async fn show(
    store: &RedisStore,
    policy: &Policy,
    key: &Key<'_>,
) -> Result<Option<ActiveOverride>, StoreError> {
    Ok(ask(store, OverrideStep::Show, policy, key, &[]).await?.before)
}

/// All overrides of a policy that are in force, in the order of their keys.
pub(crate) async fn list(store: &RedisStore, policy: &Policy) -> Result<Vec<ActiveOverride>, StoreError> {
    let Ok(list) = OverrideList::new(store, policy) else { return Ok(Vec::new()) };
    let mut found = list.entries().await?;
    found.sort_by_cached_key(|active| (active.key.as_bytes().to_vec(), active.key.is_joined()));
    // While the list grows, two pages may contain the same override.
    found.dedup_by(|one, other| one.key == other.key);
    Ok(found)
}

fn unlisted(error: &Error) -> StoreError {
    StoreError::Unlisted(error.to_string())
}

async fn ask(
    store: &RedisStore,
    step: OverrideStep,
    policy: &Policy,
    key: &Key<'_>,
    argument: &[u8],
) -> Result<OverrideAnswer, Error> {
    let name = store.name(policy, key);
    let part = KeyRequest::for_step(name.bytes, policy, step as u8, argument);
    let answer = match step {
        OverrideStep::Show => store.ask(Action::Override(step), part, name.slot).await?,
        OverrideStep::Set | OverrideStep::Remove => {
            store.ask_and_forget_denial(Action::Override(step), part, name.slot).await?
        }
    };
    let mut reader = Reader::new(answer.bytes());
    let mut reader = Reader::new(reader.bytes(4)?);
    let (done, now) = (reader.number(1)? == 1, reader.number(7)?);
    let record = reader.rest();
    let before = if record.is_empty() { None } else { Some(override_record::decode(record)?) };
    Ok(OverrideAnswer { done, now, before })
}

/// The list of a policy's overrides.
struct OverrideList<'a> {
    store: &'a RedisStore,
    policy: &'a Policy,
    name: &'a str,
}

impl<'a> OverrideList<'a> {
    fn new(store: &'a RedisStore, policy: &'a Policy) -> Result<Self, OverrideError> {
        let name = policy.name().ok_or(OverrideError::Unnamed)?;
        Ok(Self { store, policy, name })
    }

    async fn ask<T>(
        &self,
        step: OverrideListStep,
        asked: &[u8],
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let name = self.store.names().list(self.name);
        let part = KeyRequest::for_step(name.bytes, self.policy, step as u8, asked);
        let answer = self.store.ask(Action::OverrideList(step), part, name.slot).await?;
        let mut reader = Reader::new(answer.bytes());
        read(&mut Reader::new(reader.bytes(4)?))
    }

    /// Whether one more may be set, or it is there already.
    async fn has_room(&self, field: &[u8]) -> Result<bool, Error> {
        let mut asked = Vec::with_capacity(4 + field.len());
        let most = u32::try_from(self.store.max_overrides()).unwrap_or(u32::MAX);
        put(&mut asked, most.into(), 4);
        asked.extend_from_slice(field);
        self.ask(OverrideListStep::HasRoom, &asked, |reader| Ok(reader.number(1)? == 1)).await
    }

    async fn put(&self, field: &[u8], record: &[u8]) -> Result<(), Error> {
        let mut asked = Vec::with_capacity(2 + field.len() + record.len());
        put(&mut asked, field.len() as u64, 2);
        asked.extend_from_slice(field);
        asked.extend_from_slice(record);
        self.ask(OverrideListStep::Put, &asked, |_| Ok(())).await
    }

    async fn remove(&self, field: &[u8]) -> Result<(), Error> {
        self.ask(OverrideListStep::Remove, field, |_| Ok(())).await
    }

    async fn entries(&self) -> Result<Vec<ActiveOverride>, Error> {
        let (mut found, mut cursor) = (Vec::new(), b"0".to_vec());
        loop {
            let page = |reader: &mut Reader<'_>| {
                let next = reader.bytes(2)?.to_vec();
                let mut records = Vec::new();
                while !reader.is_at_end() {
                    records.push(override_record::decode(reader.bytes(2)?)?);
                }
                Ok((next, records))
            };
            let (next, records) = self.ask(OverrideListStep::Page, &cursor, page).await?;
            found.extend(records);
            if next == b"0" {
                return Ok(found);
            }
            cursor = next;
        }
    }
}
