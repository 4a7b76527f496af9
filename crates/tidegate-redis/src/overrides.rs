//! Overrides of single keys.
//!
//! An override is stored in the key that it overrides, where every decision finds it. A list for each policy names the
//! overrides of that policy. The list is written second: if it can't be written, the override is in force all the same.

use tidegate::{ActiveOverride, Key, OverrideError, Policy, StoreError};

use crate::{
    error::Error,
    override_record,
    pending_request::GroupReply,
    reply::Reader,
    store::RedisStore,
    wire::{Action, KeyRequest, OverrideListStep, OverrideStep, put, put_bytes},
};

/// The answer of Redis to an operation on the override of a key.
pub(crate) struct OverrideAnswer {
    /// Whether the operation was carried out.
    pub(crate) done: bool,
    pub(crate) now: u64,
    /// The override that was in force before.
    pub(crate) before: Option<ActiveOverride>,
}

/// The error of an override that is in force, or was removed, although the list could not be written.
pub(crate) fn unlisted(error: &Error) -> StoreError {
    StoreError::Unlisted(error.to_string())
}

/// Sets, removes or shows the override of a key.
pub(crate) async fn ask_override(
    store: &RedisStore,
    step: OverrideStep,
    policy: &Policy,
    key: &Key<'_>,
    argument: &[u8],
) -> Result<OverrideAnswer, Error> {
    let part = KeyRequest::for_step(store.names().name(policy, key), policy, step as u8, argument);
    let answer = match step {
        OverrideStep::Show => store.ask(Action::Override(step), part).await?,
        OverrideStep::Set | OverrideStep::Remove => {
            store.ask_and_forget_denial(Action::Override(step), part, store.deadline()).await?
        }
    };
    let mut reader = payload(&answer)?;
    let (done, now) = (reader.number(1)? == 1, reader.number(7)?);
    let record = reader.rest();
    let before = if record.is_empty() { None } else { Some(override_record::decode(record)?) };
    Ok(OverrideAnswer { done, now, before })
}

/// The bytes that an operation on overrides returns.
fn payload(answer: &GroupReply) -> Result<Reader<'_>, Error> {
    Ok(Reader::new(Reader::new(answer.bytes()).bytes(4)?))
}

/// The list of a policy's overrides.
pub(crate) struct OverrideList<'a> {
    store: &'a RedisStore,
    policy: &'a Policy,
    name: &'a str,
}

impl<'a> OverrideList<'a> {
    pub(crate) fn new(store: &'a RedisStore, policy: &'a Policy) -> Result<Self, OverrideError> {
        let name = policy.name().ok_or(OverrideError::Unnamed)?;
        Ok(Self { store, policy, name })
    }

    async fn ask(&self, step: OverrideListStep, asked: &[u8]) -> Result<GroupReply, Error> {
        let part = KeyRequest::for_step(self.store.names().list(self.name), self.policy, step as u8, asked);
        self.store.ask(Action::OverrideList(step), part).await
    }

    /// Whether one more may be set, or it is there already.
    pub(crate) async fn has_room(&self, field: &[u8]) -> Result<bool, Error> {
        let mut asked = Vec::with_capacity(4 + field.len());
        let max = u32::try_from(self.store.context().settings.max_overrides).unwrap_or(u32::MAX);
        put(&mut asked, max.into(), 4);
        asked.extend_from_slice(field);
        let answer = self.ask(OverrideListStep::HasRoom, &asked).await?;
        Ok(payload(&answer)?.number(1)? == 1)
    }

    pub(crate) async fn put(&self, field: &[u8], record: &[u8]) -> Result<(), Error> {
        let mut asked = Vec::with_capacity(2 + field.len() + record.len());
        put_bytes(&mut asked, field);
        asked.extend_from_slice(record);
        self.ask(OverrideListStep::Put, &asked).await.map(drop)
    }

    pub(crate) async fn remove(&self, field: &[u8]) -> Result<(), Error> {
        self.ask(OverrideListStep::Remove, field).await.map(drop)
    }

    pub(crate) async fn entries(&self) -> Result<Vec<ActiveOverride>, Error> {
        let (mut found, mut cursor) = (Vec::new(), b"0".to_vec());
        loop {
            let answer = self.ask(OverrideListStep::Page, &cursor).await?;
            let mut page = payload(&answer)?;
            cursor = page.bytes(2)?.to_vec();
            while !page.is_at_end() {
                found.push(override_record::decode(page.bytes(2)?)?);
            }
            if cursor == b"0" {
                return Ok(found);
            }
        }
    }
}
