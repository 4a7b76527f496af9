//! [`ConnectionFailure`]: the reason why a service gave no response, and what to do about it.

use std::io;

use rustls::{CertificateError, InvalidMessage};

/// The reason why a service gave no response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConnectionFailure {
    /// A sentence with the URL of the service and a hint.
    pub(crate) text: String,
    /// Whether another attempt fails, too, until the arguments or the service are changed.
    pub(crate) is_permanent: bool,
}

impl ConnectionFailure {
    /// Explains an error of a request to the service at `server`.
    pub(crate) fn new(server: &str, error: &ureq::Error) -> Self {
        let temporary = |text: String| Self { text, is_permanent: false };
        let permanent = |text: String| Self { text, is_permanent: true };
        match error {
            ureq::Error::Rustls(error) => permanent(tls_text(server, error)),
            ureq::Error::Io(error) => match error.get_ref().and_then(|inner| inner.downcast_ref()) {
                Some(error) => permanent(tls_text(server, error)),
                None if error.kind() == io::ErrorKind::ConnectionRefused => {
                    temporary(format!("nothing listens at {server}: start a service with `tidegate serve`"))
                }
                None if is_closed(error) => temporary(not_http_text(server)),
                None => temporary(format!("the service at {server} can't be reached: {error}")),
            },
            ureq::Error::HostNotFound => {
                temporary(format!("the host of {server} is not known: check its name in --server"))
            }
            ureq::Error::Timeout(_) => temporary(format!(
                "the service at {server} did not answer in time: check the address, or use --timeout"
            )),
            ureq::Error::Protocol(_) => permanent(not_http_text(server)),
            error => temporary(format!("the service at {server} does not answer: {error}")),
        }
    }
}

/// Returns whether the other side closed the connection instead of answering.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// A service with TLS may close a plain connection before it sends anything, as the RESP listener does. So a closed connection
/// and a response that is not HTTP have the same text.
fn not_http_text(server: &str) -> String {
    let hint = match server.strip_prefix("http://") {
        Some(host) => format!("if the service uses TLS, write https://{host}; otherwise use"),
        None => "use".to_owned(),
    };
    format!("{server} does not answer in HTTP: {hint} the address of its HTTP listener")
}

fn tls_text(server: &str, error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(error) => match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
                "the certificate of {server} is not trusted: name the certificate of its CA with --ca FILE, or add it to \
                 those of the system"
            ),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("{}: use one of its names in --server", name_text(server, error))
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                format!("the certificate of {server} has expired: renew it")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                format!("the certificate of {server} is not valid yet: check the clocks of both machines")
            }
            _ if error.to_string().contains("CaUsedAsEndEntity") => format!(
                "the certificate of {server} is that of a CA (CA:TRUE), which a server can't use: give the service a \
                 certificate with CA:FALSE"
            ),
            error => format!("the certificate of {server} is refused: {error}"),
        },
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => match server.strip_prefix("https://") {
            Some(host) => format!("the service at {server} does not use TLS: write http://{host}"),
            None => format!("the service at {server} does not use TLS"),
        },
        error => format!("a TLS connection to {server} can't be opened: {error}"),
    }
}

/// Says for which names a certificate is valid, if it is known.
fn name_text(server: &str, error: &CertificateError) -> String {
    match error {
        CertificateError::NotValidForNameContext { expected, presented } => {
            let presented = presented.join(", ");
            format!("the certificate of {server} is not valid for `{}`, but for {presented}", expected.to_str())
        }
        _ => format!("the certificate of {server} is not valid for this name"),
    }
}
