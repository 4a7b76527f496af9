//! [`RootStream`]: the bytes of a connection to the root, over TCP or TLS, with a bound on what is received without an answer.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{error::ConnectError, url::RootUrl};

/// Maximum number of bytes that the root may send while no request gets a complete reply. Replies have at most a few hundred
/// kilobytes, and those to all requests that are under way may arrive together.
const MAX_UNPARSED: usize = 32 << 20;

/// Bytes that have arrived since a request was last answered.
pub(crate) type Unparsed = Arc<AtomicUsize>;

/// The bytes of a connection.
pub(crate) struct RootStream {
    socket: Socket,
    unparsed: Unparsed,
}

enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// The TLS settings with these trusted certificates, or with those of this machine.
pub(crate) fn tls_config(ca: Option<&[u8]>) -> Result<Arc<ClientConfig>, ConnectError> {
    let wrong = |error: &dyn std::fmt::Display| ConnectError::Certificates(error.to_string());
    let mut trusted = RootCertStore::empty();
    match ca {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                trusted.add(certificate.map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))?;
            }
        }
        None => {
            trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if trusted.is_empty() {
        return Err(wrong(&"there are none: set tls_ca to a file of certificates in PEM"));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| wrong(&error))?;
    Ok(Arc::new(builder.with_root_certificates(trusted).with_no_client_auth()))
}

impl RootStream {
    pub(crate) async fn connect(root: &RootUrl, tls: Option<&Arc<ClientConfig>>) -> io::Result<(Self, Unparsed)> {
        let stream = TcpStream::connect((root.host.as_str(), root.port)).await?;
        stream.set_nodelay(true)?;
        let socket = match tls {
            None => Socket::Plain(stream),
            Some(config) => {
                let name = ServerName::try_from(root.host.clone()).map_err(io::Error::other)?;
                let connector = TlsConnector::from(Arc::clone(config));
                Socket::Tls(Box::new(connector.connect(name, stream).await?))
            }
        };
        let unparsed = Unparsed::default();
        Ok((Self { socket, unparsed: Arc::clone(&unparsed) }, unparsed))
    }
}

impl AsyncRead for RootStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = match &mut self.socket {
            Socket::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Socket::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        };
        let count = buf.filled().len() - before;
        if self.unparsed.fetch_add(count, Relaxed) + count > MAX_UNPARSED {
            return Poll::Ready(Err(io::Error::other("the reply is too long")));
        }
        read
    }
}

impl AsyncWrite for RootStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.socket {
            Socket::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Socket::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.socket {
            Socket::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Socket::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.socket {
            Socket::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
