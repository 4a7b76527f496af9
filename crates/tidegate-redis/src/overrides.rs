//! Overrides of single keys: setting, lifting and listing them.
//!
//! An override lies in the key that it is about, where every decision finds it. A list for each policy names those that there are.
//! It comes second: if it can't be written, the override holds all the same.

use tidegate::{ActiveOverride, Key, Override, OverrideError, Policy, Timestamp};

use crate::{
    error::Error,
    override_record,
    reply::Reader,
    store::RedisStore,
    wire::{Action, KeyRequest, OverrideListStep, OverrideStep, put},
};

/// Why an override could not be set, lifted or shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OverrideTrouble {
    /// There can't be such an override.
    #[error(transparent)]
    Refused(#[from] OverrideError),
    /// Redis did not answer. Whether it was set or lifted is not known, unless the trouble says so; repeating it is safe.
    #[error(transparent)]
    Redis(#[from] Error),
    /// It was set or lifted and holds so, but the list of overrides does not tell; repeating it is safe.
    #[error("it is in force as asked, but the list of overrides could not be written: {0}; repeating it is safe")]
    Unlisted(Error),
}

/// What a key held before.
struct Before {
    /// Whether what was asked was done.
    done: bool,
    now: u64,
    held: Option<ActiveOverride>,
}

impl RedisStore {
    /// Overrides the limits of a key under a policy, with its history kept; the override that held until now, if there was one.
    /// Whoever shares this Redis heeds it from now on.
    ///
    /// # Errors
    /// If the policy has no name, if the override is over already, if there are as many as may be, or if Redis does not answer.
    pub async fn set_override(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        by: &Override,
    ) -> Result<Option<Override>, OverrideTrouble> {
        self.set_override_when(policy, key, by, None).await
    }

    /// The same at a given time, for replays and tests.
    ///
    /// # Errors
    /// As [`set_override`](Self::set_override).
    pub async fn set_override_at(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        by: &Override,
        now: Timestamp,
    ) -> Result<Option<Override>, OverrideTrouble> {
        self.set_override_when(policy, key, by, Some(now)).await
    }

    async fn set_override_when(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        by: &Override,
        given: Option<Timestamp>,
    ) -> Result<Option<Override>, OverrideTrouble> {
        let list = List::new(self, policy, given)?;
        // The script takes 0 for none.
        if by.end().is_some_and(|end| end <= given.unwrap_or(Timestamp::from_micros(0))) {
            return Err(OverrideError::Over.into());
        }
        let field = self.name(policy, key, given).bytes;
        if !list.has_room(&field).await? {
            return Err(OverrideError::TooMany { most: self.max_overrides() }.into());
        }
        let encoded = override_record::encode(key, by);
        let before = self.ask_override(OverrideStep::Set, policy, key, &encoded, given).await?;
        if !before.done {
            return Err(OverrideError::Over.into());
        }
        let record = override_record::record(&encoded, before.now);
        list.put(&field, &record).await.map_err(OverrideTrouble::Unlisted)?;
        Ok(before.held.map(|held| held.by))
    }

    /// Ends the override of a key under a policy, with its history kept; what it was, if it still held.
    ///
    /// # Errors
    /// If the policy has no name, or if Redis does not answer.
    pub async fn remove_override(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Override>, OverrideTrouble> {
        self.remove_override_when(policy, key, None).await
    }

    /// The same at a given time, for replays and tests.
    ///
    /// # Errors
    /// As [`remove_override`](Self::remove_override).
    pub async fn remove_override_at(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        now: Timestamp,
    ) -> Result<Option<Override>, OverrideTrouble> {
        self.remove_override_when(policy, key, Some(now)).await
    }

    async fn remove_override_when(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        given: Option<Timestamp>,
    ) -> Result<Option<Override>, OverrideTrouble> {
        let list = List::new(self, policy, given)?;
        let before = self.ask_override(OverrideStep::Remove, policy, key, &[], given).await?;
        let field = self.name(policy, key, given).bytes;
        // Also where nothing was lifted: an earlier try may have come this far.
        list.remove(&field).await.map_err(OverrideTrouble::Unlisted)?;
        Ok(before.held.map(|held| held.by))
    }

    /// The override of a key under a policy, if one holds.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn override_of(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<ActiveOverride>, Error> {
        self.override_of_when(policy, key, None).await
    }

    /// The same at a given time, for replays and tests.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn override_of_at(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        now: Timestamp,
    ) -> Result<Option<ActiveOverride>, Error> {
        self.override_of_when(policy, key, Some(now)).await
    }

    async fn override_of_when(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        given: Option<Timestamp>,
    ) -> Result<Option<ActiveOverride>, Error> {
        Ok(self.ask_override(OverrideStep::Show, policy, key, &[], given).await?.held)
    }

    /// All overrides of a policy that hold, in the order of their keys. It is read page by page: what is set or lifted meanwhile
    /// may be told or not.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn overrides(&self, policy: &Policy) -> Result<Vec<ActiveOverride>, Error> {
        self.overrides_when(policy, None).await
    }

    /// The same at a given time, for replays and tests.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn overrides_at(&self, policy: &Policy, now: Timestamp) -> Result<Vec<ActiveOverride>, Error> {
        self.overrides_when(policy, Some(now)).await
    }

    async fn overrides_when(&self, policy: &Policy, given: Option<Timestamp>) -> Result<Vec<ActiveOverride>, Error> {
        let Ok(list) = List::new(self, policy, given) else { return Ok(Vec::new()) };
        let mut found = list.entries().await?;
        let order = |one: &ActiveOverride| (one.key.as_bytes().to_vec(), one.key.is_joined());
        found.sort_by_cached_key(order);
        // A page that is read while the list grows may tell of one that another has told of.
        found.dedup_by(|one, other| one.key == other.key);
        Ok(found)
    }

    async fn ask_override(
        &self,
        step: OverrideStep,
        policy: &Policy,
        key: &Key<'_>,
        asked: &[u8],
        given: Option<Timestamp>,
    ) -> Result<Before, Error> {
        let name = self.name(policy, key, given);
        let part = KeyRequest::for_step(name.bytes, policy, step as u8, asked);
        let answer = match step {
            OverrideStep::Show => self.ask(Action::Override(step), part, name.slot, given).await?,
            OverrideStep::Set | OverrideStep::Remove => {
                self.ask_and_forget(Action::Override(step), part, name.slot, given).await?
            }
        };
        let mut reader = Reader::new(answer.bytes());
        let mut reader = Reader::new(reader.bytes(4)?);
        let (done, now) = (reader.number(1)? == 1, reader.number(7)?);
        let record = reader.rest();
        let held = if record.is_empty() { None } else { Some(override_record::decode(record)?) };
        Ok(Before { done, now, held })
    }
}

/// The list of a policy's overrides.
struct List<'a> {
    store: &'a RedisStore,
    policy: &'a Policy,
    name: &'a str,
    given: Option<Timestamp>,
}

impl<'a> List<'a> {
    fn new(store: &'a RedisStore, policy: &'a Policy, given: Option<Timestamp>) -> Result<Self, OverrideError> {
        let name = policy.name().ok_or(OverrideError::Unnamed)?;
        Ok(Self { store, policy, name, given })
    }

    async fn ask<T>(
        &self,
        step: OverrideListStep,
        asked: &[u8],
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let name = self.store.list_name(self.name, self.given);
        let part = KeyRequest::for_step(name.bytes, self.policy, step as u8, asked);
        let answer = self.store.ask(Action::OverrideList(step), part, name.slot, self.given).await?;
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
