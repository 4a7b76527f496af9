//! [`Batch`]: the commands of one read, and the commands of a transaction that EXEC runs, answered in order.

use futures_util::future::join_all;
use tidegate::{Hold, Inspection, Lease, Refund};

use super::{
    command::{Command, ReplyFormat},
    commands::{CommandInfo, Verb},
    decision,
    reply::Replies,
    request::{Args, Ending, Requests},
    session::{Session, unknown},
    transaction::{Running, Transaction},
};
use crate::{
    config::ServerSettings,
    metrics::Transport,
    service::{
        ActivePolicies, Actor, ChangedReservation, LeaseDecision, PolicyDecision, PolicyDecisions, Refusal,
        ReservationChange, ReservedDecision, Service,
    },
};

/// Replies of more bytes are sent before further commands are answered.
const MAX_UNSENT: usize = 256 << 10;

/// Maximum number of concurrent decisions of one connection, so that one connection does not fill the queue of the
/// store.
const MAX_CONCURRENT: usize = 128;

/// Commands that were read together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    requests: Requests,
    /// Number of answered commands.
    answered: usize,
    transaction: Transaction,
}

/// The result of a command.
enum Outcome<'p> {
    One(PolicyDecision<'p>, ReplyFormat),
    All(PolicyDecisions<'p>, ReplyFormat),
    Reserved(ReservedDecision<PolicyDecision<'p>>, Hold, ReplyFormat),
    Leased(LeaseDecision<'p>, Lease, ReplyFormat),
    Changed(ChangedReservation<'p>, ReplyFormat),
    Refunded(Refund, ReplyFormat),
    Done(bool),
    State(Option<Inspection>),
}

impl Batch {
    /// Finds the commands in the input. Returns their total length, and the reason why there are no more.
    pub(crate) fn read(&mut self, input: &mut [u8], max: usize) -> (usize, Ending) {
        self.answered = 0;
        self.requests.read(input, max)
    }

    /// Releases the memory of a large batch. All commands must be answered.
    pub(crate) fn clear(&mut self) {
        self.answered = 0;
        self.requests.clear();
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.answered == self.requests.len() && self.transaction.running.is_none()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.len() == 0
    }

    /// Answers the remaining commands, or as many of them as fill one write.
    pub(crate) async fn answer(
        &mut self,
        input: &[u8],
        service: &Service,
        settings: &ServerSettings,
        session: &mut Session,
        out: &mut Replies,
    ) {
        let Self { requests, answered, transaction } = self;
        let active = service.active_policies();
        let executor = Executor { service, settings, active: &active, actor: session.actor() };
        loop {
            let Some(mut running) = transaction.running.take() else {
                executor.run(requests, input, answered, transaction, session, out).await;
                if transaction.running.is_none() {
                    return;
                }
                continue;
            };
            let before = out.len();
            let Running { queue, next, is_reply_wanted } = &mut *running;
            executor.run(&queue.requests, &queue.bytes, next, transaction, session, out).await;
            if !*is_reply_wanted {
                out.truncate(before);
            }
            if *next < queue.requests.len() {
                transaction.running = Some(running);
                return;
            }
        }
    }
}

/// Runs commands.
struct Executor<'p> {
    service: &'p Service,
    settings: &'p ServerSettings,
    active: &'p ActivePolicies,
    actor: Actor,
}

impl<'p> Executor<'p> {
    /// Runs commands from `next` on, until EXEC starts queued commands or the replies fill one write.
    async fn run(
        &self,
        requests: &Requests,
        input: &[u8],
        next: &mut usize,
        transaction: &mut Transaction,
        session: &mut Session,
        out: &mut Replies,
    ) {
        // Concurrent decisions let the store send them as one batch. In memory this has no advantage.
        let mut pending: Vec<Command<'_>> = Vec::new();
        let mut decisions = 0;
        let immediate = self.service.is_immediate();
        while *next < requests.len() && out.len() < MAX_UNSENT && !session.over && transaction.running.is_none() {
            let args = requests.get(input, *next);
            *next += 1;
            let parsed = Self::parse(args, session);
            let count = parsed.as_ref().map_or(0, |(_, command)| command.as_ref().map_or(0, Command::decisions));
            let waits = !immediate && count > 0 && transaction.open.is_none();
            if decisions >= MAX_CONCURRENT || decisions > 0 && !waits {
                decisions = 0;
                self.run_pending(&mut pending, session, out).await;
            }
            if waits {
                decisions += count;
                pending.extend(parsed.into_iter().filter_map(|(_, command)| command));
                continue;
            }
            let before = out.len();
            match &parsed {
                Ok((verb, _))
                    if (transaction.open.is_some() || verb.is_of_transactions())
                        && transaction.answer(*verb, args, out) => {}
                Ok((_, Some(command))) => write(&self.execute(command).await, out),
                Ok((verb, None)) => session.answer(*verb, args, &self.settings.tokens, self.service, out),
                Err(error) => {
                    transaction.abort();
                    out.error(error);
                }
            }
            if !session.wants_reply() {
                out.truncate(before);
                if let Some(begun) = &mut transaction.running {
                    begun.is_reply_wanted = false;
                }
            }
        }
        self.run_pending(&mut pending, session, out).await;
    }

    #[inline]
    fn parse<'a>(args: Args<'a>, session: &Session) -> Result<(Verb, Option<Command<'a>>), String> {
        let info = args.get(0).and_then(CommandInfo::named).ok_or_else(|| unknown(args))?;
        if let Some(error) = session.forbids(info) {
            return Err(error);
        }
        if !info.takes(args.len()) {
            return Err(info.wrong_number());
        }
        Ok((info.verb, Command::parse(info.verb, args)?))
    }

    #[inline]
    async fn execute(&self, command: &Command<'_>) -> Result<Outcome<'p>, Refusal> {
        let Self { service, active, .. } = *self;
        Ok(match command {
            Command::Decide { op, request, format } => {
                Outcome::One(service.decide(Transport::Resp, active, *op, request).await?, *format)
            }
            Command::DecideAll { op, requests, format } => {
                Outcome::All(service.decide_all(Transport::Resp, active, *op, requests).await?, *format)
            }
            Command::Reserve { request, hold, format } => {
                Outcome::Reserved(service.reserve(Transport::Resp, active, request, *hold).await?, *hold, *format)
            }
            Command::Lease { request, lease, format } => {
                Outcome::Leased(service.lease(Transport::Resp, active, request, lease).await?, lease.clone(), *format)
            }
            Command::Commit { id, actual, format } => Outcome::Changed(
                service.change_reservation(active, id, ReservationChange::Commit(actual)).await?,
                *format,
            ),
            Command::Change { id, change, format } => {
                Outcome::Changed(service.change_reservation(active, id, *change).await?, *format)
            }
            Command::Refund { request, charged_at, format } => {
                Outcome::Refunded(service.refund(active, request, *charged_at).await?, *format)
            }
            Command::Reset(request) => Outcome::Done(service.reset(active, request, self.actor).await?),
            Command::Inspect(request) => Outcome::State(service.inspect(active, request).await?),
        })
    }

    /// Runs decisions concurrently, and writes their replies in order.
    async fn run_pending(&self, pending: &mut Vec<Command<'_>>, session: &mut Session, out: &mut Replies) {
        if pending.is_empty() {
            return;
        }
        for outcome in join_all(pending.iter().map(|command| self.execute(command))).await {
            let before = out.len();
            write(&outcome, out);
            if !session.wants_reply() {
                out.truncate(before);
            }
        }
        pending.clear();
    }
}

#[inline]
fn write(outcome: &Result<Outcome<'_>, Refusal>, out: &mut Replies) {
    match outcome {
        Ok(Outcome::One(decided, format)) => decision::one(decided, *format, out),
        Ok(Outcome::All(decided, format)) => decision::several(decided, *format, out),
        Ok(Outcome::Reserved(reserved, hold, format)) => decision::reserved(reserved, *hold, *format, out),
        Ok(Outcome::Leased(leased, lease, format)) => decision::leased(leased, lease, *format, out),
        Ok(Outcome::Changed(changed, format)) => decision::changed(changed, *format, out),
        Ok(Outcome::Refunded(refund, format)) => decision::refunded(refund, *format, out),
        Ok(Outcome::Done(done)) => out.integer(u8::from(*done)),
        Ok(Outcome::State(Some(state))) => decision::state(state, out),
        Ok(Outcome::State(None)) => out.null(),
        Err(refusal) => out.error(&format!("ERR {refusal}")),
    }
}
