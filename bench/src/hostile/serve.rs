//! The sockets: a request is read as far as its length says, and then the row has its way.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use super::rows::{Row, Step};
use super::{Seen, Visits};

/// Between two bytes that drip.
const DROP_EVERY: Duration = Duration::from_millis(100);

pub(super) async fn run(listener: TcpListener, row: Row, seen: Arc<Seen>) {
    let row = Arc::new(row);
    loop {
        // A client that has left already is none.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (row, seen) = (Arc::clone(&row), Arc::clone(&seen));
        tokio::spawn(async move {
            // The client leaves whenever it has had enough.
            let _ = serve(stream, &row, &seen).await;
        });
    }
}

async fn serve(mut stream: TcpStream, row: &Row, seen: &Seen) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut carried = 0;
    while let Some(name) = request(&mut stream).await? {
        let Visits { requests, reused, elsewhere } = seen.lock().get(row.name).copied().unwrap_or_default();
        let visits = Visits {
            requests: requests + 1,
            reused: reused + usize::from(carried > 0),
            elsewhere: elsewhere + usize::from(name != row.name),
        };
        seen.lock().insert(row.name, visits);
        carried += 1;
        if row.once && carried > 1 {
            return Ok(());
        }
        for step in &row.steps {
            if !take(&mut stream, step).await? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// False when the connection is over.
async fn take(stream: &mut TcpStream, step: &Step) -> io::Result<bool> {
    match step {
        Step::Send(bytes) => stream.write_all(bytes).await?,
        Step::Drip(bytes) => {
            for byte in bytes {
                stream.write_all(&[*byte]).await?;
                sleep(DROP_EVERY).await;
            }
        }
        Step::Flood(bytes) => loop {
            stream.write_all(bytes).await?;
        },
        Step::Hang => {
            let mut rest = [0; 1_024];
            while stream.read(&mut rest).await? > 0 {}
            return Ok(false);
        }
        Step::Close => return Ok(false),
        Step::HalfClose => stream.shutdown().await?,
        Step::Reset => {
            // Whatever is unread makes the kernel reset instead of closing in good order.
            stream.set_zero_linger()?;
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads one request to its end; its path without the slash.
async fn request(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).and_then(|text| text.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await?;
    let path = head.split(' ').nth(1).unwrap_or_default();
    Ok(Some(path.trim_start_matches('/').to_owned()))
}
