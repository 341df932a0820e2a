//! A name server that answers every name from one list, look-up by look-up.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use hickory_resolver::proto::{
    op::{Message, MessageType, OpCode, ResponseCode},
    rr::{
        RData, Record, RecordType,
        rdata::{A, AAAA},
    },
};
use tokio::{net::UdpSocket, task::JoinHandle};

/// The server.
pub(super) struct Names {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    server: JoinHandle<()>,
}

impl Names {
    /// The last answer is given again and again.
    pub(super) async fn start(answers: &[Vec<IpAddr>]) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let server = tokio::spawn(serve(socket, answers.to_vec(), asked.clone()));
        Self { address, asked, server }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Questions so far.
    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(socket: UdpSocket, answers: Vec<Vec<IpAddr>>, asked: Arc<AtomicUsize>) {
    // Each look-up asks for both kinds of addresses once.
    let (mut v4, mut v6) = (0, 0);
    let mut packet = [0; 1_500];
    while let Ok((length, from)) = socket.recv_from(&mut packet).await {
        let question = Message::from_vec(&packet[..length]).unwrap();
        asked.fetch_add(1, Ordering::SeqCst);
        let query = question.queries[0].clone();
        let counter = if query.query_type() == RecordType::A { &mut v4 } else { &mut v6 };
        let answer = &answers[(*counter).min(answers.len() - 1)];
        *counter += 1;
        let mut message = Message::new(question.metadata.id, MessageType::Response, OpCode::Query);
        message.metadata.response_code = ResponseCode::NoError;
        message.metadata.recursion_desired = true;
        message.metadata.recursion_available = true;
        message.queries.push(query.clone());
        for ip in answer {
            let data = match (ip, query.query_type()) {
                (IpAddr::V4(ip), RecordType::A) => RData::A(A(*ip)),
                (IpAddr::V6(ip), RecordType::AAAA) => RData::AAAA(AAAA(*ip)),
                _ => continue,
            };
            message.answers.push(Record::from_rdata(query.name().clone(), 0, data));
        }
        socket.send_to(&message.to_vec().unwrap(), from).await.unwrap();
    }
}
