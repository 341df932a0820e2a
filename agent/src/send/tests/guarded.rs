//! Receivers that must not be reached, whatever their URL or the name server says.

use super::*;
use crate::guard::tests::Names;

const NAME: &str = "hooks.example.com";

fn asking(names: &Arc<Names>) -> Sender {
    let policy = Policy::new(true, &["127.0.0.0/8"]).unwrap();
    Sender::new(Clock::start(), Guard::asking(policy, names))
}

async fn met_by(sender: &Sender, url: &str) -> Facts {
    report(sender, config(url), content(b"{}")).await.facts
}

#[tokio::test]
async fn no_spelling_of_an_address_slips_past() {
    let (names, receiver) = (Names::new(&[]), Receiver::start(OK, Then::Stay).await);
    let sender = Sender::new(Clock::start(), Guard::asking(Policy::new(true, &[""; 0]).unwrap(), &names));
    let port = receiver.port();
    for host in [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0x7f000001",
        "0177.0.0.1",
        "%31%32%37.0.0.1",
        "\u{2460}\u{2461}\u{2466}.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "localhost",
        "localhost.",
        "user@127.0.0.1",
    ] {
        let facts = met_by(&sender, &format!("http://{host}:{port}/hook")).await;
        assert_eq!((facts.outcome, facts.reached), (Outcome::RefusedAddress, None), "{host}: {}", facts.detail);
        assert!(facts.rule.is_some(), "{host}");
    }
    assert_eq!((receiver.connections(), names.asked()), (0, 0));
}

#[tokio::test]
async fn a_name_is_refused_by_where_it_leads() {
    let (names, receiver) = (Names::new(&[&["169.254.169.254", "10.0.0.1"]]), Receiver::start(OK, Then::Stay).await);
    let facts = met_by(&asking(&names), &format!("http://{NAME}:{}/hook", receiver.port())).await;
    assert_eq!((facts.outcome, facts.rule), (Outcome::RefusedAddress, Some("link_local")), "{}", facts.detail);
    assert_eq!(facts.reached, Some(Reached::Dns));
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn one_forbidden_address_spoils_the_answer() {
    for answer in [["127.0.0.1", "10.0.0.1"], ["10.0.0.1", "127.0.0.1"]] {
        let (names, receiver) = (Names::new(&[&answer]), Receiver::start(OK, Then::Stay).await);
        let facts = met_by(&asking(&names), &format!("http://{NAME}:{}/hook", receiver.port())).await;
        assert_eq!((facts.outcome, facts.rule), (Outcome::RefusedAddress, Some("private")), "{}", facts.detail);
        assert_eq!(receiver.connections(), 0);
    }
}

#[tokio::test]
async fn a_name_is_asked_for_once_for_each_connection_and_checked_each_time() {
    let (names, receiver) = (Names::new(&[&["127.0.0.1"], &["10.0.0.1"]]), Receiver::start(OK, Then::Close).await);
    let (sender, url) = (asking(&names), format!("http://{NAME}:{}/hook", receiver.port()));
    assert_eq!(met_by(&sender, &url).await.outcome, Outcome::Answered);
    assert_eq!(names.asked(), 1, "what was checked is what is connected to");
    let second = met_by(&sender, &url).await;
    assert_eq!((second.outcome, second.rule), (Outcome::RefusedAddress, Some("private")), "{}", second.detail);
    assert_eq!((names.asked(), receiver.connections()), (2, 1));
}

#[tokio::test]
async fn a_name_without_address_is_no_refusal() {
    let (unknown, empty) = (Names::new(&[]), Names::new(&[&[]]));
    for names in [unknown, empty] {
        let facts = met_by(&asking(&names), &format!("http://{NAME}/hook")).await;
        assert_eq!((facts.outcome, facts.reached), (Outcome::DnsFailed, Some(Reached::Dns)), "{}", facts.detail);
    }
}
