//! [`TimeoutStream`]: a stream with timeouts. The first bytes must arrive in time, and writes must not block for too long.

use std::{
    future::Future as _,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// Number of bytes that distinguish HTTP/1 from HTTP/2. After them, the server of the connection has its own timeouts.
const PREFACE: usize = 24;

/// A stream with timeouts.
#[derive(Debug)]
pub(super) struct TimeoutStream<S> {
    stream: S,
    write_timeout: Duration,
    read: usize,
    /// Runs until the first bytes have arrived.
    preface: Pin<Box<Sleep>>,
    /// Runs while a write is blocked.
    blocked: Option<Pin<Box<Sleep>>>,
}

impl<S> TimeoutStream<S> {
    pub(super) fn new(stream: S, header_timeout: Duration, write_timeout: Duration) -> Self {
        Self { stream, write_timeout, read: 0, preface: Box::pin(sleep(header_timeout)), blocked: None }
    }

    /// Returns the result of a write, or an error if it has been blocked for too long.
    fn written<T>(&mut self, context: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.blocked = None;
            return result;
        }
        let write_timeout = self.write_timeout;
        ready!(self.blocked.get_or_insert_with(|| Box::pin(sleep(write_timeout))).as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let result = Pin::new(&mut this.stream).poll_read(context, buffer);
        if this.read < PREFACE {
            this.read += buffer.filled().len() - before;
            if result.is_pending() {
                ready!(this.preface.as_mut().poll(context));
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer sends nothing")));
            }
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.written(context, result)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write_vectored(context, bytes);
        this.written(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_flush(context);
        this.written(context, result)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_shutdown(context);
        this.written(context, result)
    }
}
