//! A TCP connection to one of some addresses, the first that stands (RFC 8305, section 5).

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use tokio::{net::TcpStream, task::JoinSet, time::timeout};

/// The next address is tried beside those before after this long.
const NEXT_AFTER: Duration = Duration::from_millis(250);
/// Addresses that are tried.
const ADDRESSES_MAX: usize = 8;

/// Connects to whichever answers first, both families in turn. None is tried that isn't in `addresses`.
pub(super) async fn dial(addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
    let mut waiting = in_turn(addresses).into_iter().map(|ip| SocketAddr::new(ip, port));
    let mut dialing = JoinSet::new();
    let mut failed = None;
    loop {
        if let Some(address) = waiting.next() {
            dialing.spawn(TcpStream::connect(address));
        }
        let more = waiting.len() > 0;
        let met = if more { timeout(NEXT_AFTER, dialing.join_next()).await } else { Ok(dialing.join_next().await) };
        match met {
            // It takes its time: try the next one beside it.
            Err(_) => {}
            Ok(Some(Ok(Ok(stream)))) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Ok(Some(Ok(Err(error)))) => failed = Some(error),
            Ok(Some(Err(panicked))) => failed = Some(io::Error::other(panicked)),
            Ok(None) => return Err(failed.unwrap_or_else(|| io::Error::other("there is no address to connect to"))),
        }
    }
}

/// One of the first's family, one of the other's, and so on.
fn in_turn(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let first_is_v6 = addresses.first().is_some_and(IpAddr::is_ipv6);
    let (mut first, mut second): (Vec<IpAddr>, Vec<IpAddr>) =
        addresses.iter().copied().partition(|ip| ip.is_ipv6() == first_is_v6);
    first.reverse();
    second.reverse();
    let mut turns = Vec::with_capacity(addresses.len());
    while turns.len() < addresses.len() {
        turns.extend(first.pop());
        turns.extend(second.pop());
    }
    turns.truncate(ADDRESSES_MAX);
    turns
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn families_take_turns() {
        let ips = |texts: &[&str]| -> Vec<IpAddr> { texts.iter().map(|text| text.parse().unwrap()).collect() };
        let check = |from: &[&str], to: &[&str]| assert_eq!(in_turn(&ips(from)), ips(to));
        check(&["1.1.1.1", "1.1.1.2", "2::1"], &["1.1.1.1", "2::1", "1.1.1.2"]);
        check(&["2::1", "2::2", "1.1.1.1"], &["2::1", "1.1.1.1", "2::2"]);
        check(&[], &[]);
        let many: Vec<String> = (0..20).map(|n| format!("1.1.1.{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        check(&many, &many[..ADDRESSES_MAX]);
    }

    #[tokio::test]
    async fn an_address_that_refuses_or_hangs_doesn_t_keep_the_next() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let stream = dial(&[ip("127.0.0.2"), ip("127.0.0.1")], port).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap().ip(), ip("127.0.0.1"));
        assert!(dial(&[ip("127.0.0.2")], port).await.is_err());
        assert!(dial(&[], port).await.is_err());
    }
}
