//! [`Patient`]: a stream with time-outs. The first bytes have to arrive in time, and writes must not be stuck for too
//! long.

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

/// So many bytes tell HTTP/1 from HTTP/2; after them, what serves the connection has timeouts of its own.
const PREFACE: usize = 24;

/// A stream with patience.
#[derive(Debug)]
pub(super) struct Patient<S> {
    stream: S,
    write_timeout: Duration,
    read: usize,
    /// Runs until the first bytes are there.
    preface: Pin<Box<Sleep>>,
    /// Runs while a write is stuck.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, header_timeout: Duration, write_timeout: Duration) -> Self {
        Self { stream, write_timeout, read: 0, preface: Box::pin(sleep(header_timeout)), stuck: None }
    }

    /// Passes on what a write came to, unless it has been stuck for too long.
    fn written<T>(&mut self, context: &mut Context<'_>, came: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if came.is_ready() {
            self.stuck = None;
            return came;
        }
        let write_timeout = self.write_timeout;
        ready!(self.stuck.get_or_insert_with(|| Box::pin(sleep(write_timeout))).as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer takes no answers")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let came = Pin::new(&mut this.stream).poll_read(context, buffer);
        if this.read < PREFACE {
            this.read += buffer.filled().len() - before;
            if came.is_pending() {
                ready!(this.preface.as_mut().poll(context));
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer says nothing")));
            }
        }
        came
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let came = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.written(context, came)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let came = Pin::new(&mut this.stream).poll_write_vectored(context, bytes);
        this.written(context, came)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let came = Pin::new(&mut this.stream).poll_flush(context);
        this.written(context, came)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let came = Pin::new(&mut this.stream).poll_shutdown(context);
        this.written(context, came)
    }
}
