//! [`Batch`]: the commands of one read, and the commands of a transaction that EXEC runs, answered in order.

use futures_util::future::join_all;
use tidegate::Inspection;

use super::{
    catalogue::Verb,
    command::{Command, Shape},
    decision,
    reply::Replies,
    request::{Args, Ending, Requests},
    session::{Session, unknown},
    transaction::Transaction,
};
use crate::{
    config::ServerSettings,
    metrics::Transport,
    service::{Answer, Answers, Live, Refusal, Service, Who},
};

/// Replies beyond so many bytes are sent before more are made.
const MOST_UNSENT: usize = 256 << 10;

/// Maximum number of concurrent decisions of one connection, so that one connection does not fill the queue of the
/// store.
const MOST_TOGETHER: usize = 128;

/// Commands that were read together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    requests: Requests,
    /// How many of them are answered.
    answered: usize,
    transaction: Transaction,
}

/// What the service says to a command.
enum Outcome<'l> {
    One(Answer<'l>, Shape),
    All(Answers<'l>, Shape),
    Done(bool),
    State(Option<Inspection>),
    Refused(Refusal),
}

impl Batch {
    /// Finds the commands in the input; how many bytes they are, and why there are no more.
    pub(crate) fn read(&mut self, input: &mut [u8], most: usize) -> (usize, Ending) {
        self.answered = 0;
        self.requests.read(input, most)
    }

    /// Gives back the memory that a large batch took. All of it must be answered.
    pub(crate) fn rest(&mut self) {
        self.answered = 0;
        self.requests.rest();
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.answered == self.requests.len() && !self.transaction.is_running()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.len() == 0
    }

    /// Answers those that are not answered yet, or as many of them as make enough replies for one write.
    pub(crate) async fn answer(
        &mut self,
        input: &[u8],
        service: &Service,
        settings: &ServerSettings,
        session: &mut Session,
        out: &mut Replies,
    ) {
        let Self { requests, answered, transaction } = self;
        let live = service.live();
        let teller = Teller { service, settings, live: &live, who: session.who() };
        loop {
            let Some(mut running) = transaction.take_running() else {
                teller.answer(requests, input, answered, transaction, session, out).await;
                if transaction.is_running() {
                    continue;
                }
                return;
            };
            let before = out.len();
            let (queued, bytes, next) = running.parts();
            teller.answer(queued, bytes, next, transaction, session, out).await;
            if !running.is_heard() {
                out.truncate(before);
            }
            if !running.is_done() {
                transaction.put_back(running);
                return;
            }
        }
    }
}

/// What commands are answered by.
struct Teller<'l> {
    service: &'l Service,
    settings: &'l ServerSettings,
    live: &'l Live,
    who: Who,
}

impl<'l> Teller<'l> {
    /// Answers commands from `next` on, until EXEC starts queued commands or there are enough replies for one write.
    async fn answer(
        &self,
        requests: &Requests,
        input: &[u8],
        next: &mut usize,
        transaction: &mut Transaction,
        session: &mut Session,
        out: &mut Replies,
    ) {
        // Decisions are started together, so that the store can send them as one batch. In memory this has no
        // advantage.
        let mut together: Vec<Command<'_>> = Vec::new();
        let mut parts = 0;
        let immediate = self.service.is_immediate();
        while *next < requests.len() && out.len() < MOST_UNSENT && !session.over && !transaction.is_running() {
            let args = requests.get(input, *next);
            *next += 1;
            if !immediate {
                if !transaction.is_open()
                    && let Some(decides) = Self::decides(args, session)
                {
                    parts += decides.parts();
                    together.push(decides);
                    if parts >= MOST_TOGETHER {
                        parts = 0;
                        self.settle(&mut together, session, out).await;
                    }
                    continue;
                }
                self.settle(&mut together, session, out).await;
                parts = 0;
            }
            let before = out.len();
            if let Some(command) = self.understand(args, transaction, session, out) {
                let outcome = self.ask(&command).await;
                Self::tell(&outcome, out);
            }
            if !session.hears() {
                out.truncate(before);
                transaction.unheard();
            }
        }
        self.settle(&mut together, session, out).await;
    }

    /// Answers a command, or gives back what has to be asked of the service.
    #[inline]
    fn understand<'a>(
        &self,
        args: Args<'a>,
        transaction: &mut Transaction,
        session: &mut Session,
        out: &mut Replies,
    ) -> Option<Command<'a>> {
        match Self::read(args, session) {
            Ok((verb, _))
                if (transaction.is_open() || verb.is_of_transactions()) && transaction.answer(verb, args, out) => {}
            Ok((_, Some(command))) => return Some(command),
            Ok((verb, None)) => session.answer(verb, args, &self.settings.tokens, self.service, out),
            Err(error) => {
                transaction.abort();
                self.service.metrics().refused(Transport::Resp);
                out.error(&error);
            }
        }
        None
    }

    /// A command, if it decides and nothing is wrong with it.
    fn decides<'a>(args: Args<'a>, session: &Session) -> Option<Command<'a>> {
        Self::read(args, session).ok()?.1.filter(Command::decides)
    }

    #[inline]
    fn read<'a>(args: Args<'a>, session: &Session) -> Result<(Verb, Option<Command<'a>>), String> {
        let verb = args.get(0).and_then(Verb::named).ok_or_else(|| unknown(args))?;
        let entry = verb.entry();
        if let Some(error) = session.forbids(entry) {
            return Err(error);
        }
        if !entry.takes(args.len()) {
            return Err(entry.wrong_number());
        }
        Ok((verb, Command::read(verb, args)?))
    }

    #[inline]
    async fn ask(&self, command: &Command<'_>) -> Outcome<'l> {
        let outcome = match command {
            Command::Decide { op, ask, shape } => {
                let answer = self.service.decide(Transport::Resp, self.live, *op, ask).await;
                return answer.map_or_else(Outcome::Refused, |answer| Outcome::One(answer, *shape));
            }
            Command::DecideAll { asks, shape } => {
                let answers = self.service.decide_all(Transport::Resp, self.live, tidegate::Op::Check, asks).await;
                return answers.map_or_else(Outcome::Refused, |answers| Outcome::All(answers, *shape));
            }
            Command::Refund { ask, charged_at } => {
                self.service.refund(self.live, ask, *charged_at).await.map(|refund| Outcome::Done(refund.is_returned()))
            }
            Command::Forget(ask) => self.service.reset(self.live, ask, self.who).await.map(Outcome::Done),
            Command::Inspect(ask) => self.service.inspect(self.live, ask).await.map(Outcome::State),
        };
        outcome.unwrap_or_else(|refusal| {
            self.service.metrics().refused(Transport::Resp);
            Outcome::Refused(refusal)
        })
    }

    #[inline]
    fn tell(outcome: &Outcome<'_>, out: &mut Replies) {
        match outcome {
            Outcome::One(answer, shape) => decision::one(answer, *shape, out),
            Outcome::All(answers, shape) => decision::several(answers, *shape, out),
            Outcome::Done(done) => out.integer(u8::from(*done)),
            Outcome::State(Some(state)) => decision::state(state, out),
            Outcome::State(None) => out.null(),
            Outcome::Refused(refusal) => out.error(&format!("ERR {refusal}")),
        }
    }

    /// Asks for all that is to be decided, in order, and tells what came of it, in the same order.
    async fn settle(&self, together: &mut Vec<Command<'_>>, session: &mut Session, out: &mut Replies) {
        if together.is_empty() {
            return;
        }
        for outcome in join_all(together.iter().map(|command| self.ask(command))).await {
            let before = out.len();
            Self::tell(&outcome, out);
            if !session.hears() {
                out.truncate(before);
            }
        }
        together.clear();
    }
}
