//! Binding a port before anything is served on it.

use std::net::SocketAddr;

use tokio::net::TcpListener;

/// A port that is bound, and its address.
pub(crate) type Port = (TcpListener, SocketAddr);

/// Why a port can't be bound.
#[derive(Debug, thiserror::Error)]
#[error("{address} can't be listened on: is another program using it?")]
pub(crate) struct ListenError {
    address: SocketAddr,
    #[source]
    source: std::io::Error,
}

/// Binds a port; 0 takes a free one. Answers the address that was bound.
///
/// # Errors
/// When it is taken or not ours.
pub(crate) async fn listen(address: SocketAddr) -> Result<Port, ListenError> {
    let failed = |source| ListenError { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}
