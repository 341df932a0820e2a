//! `docs/tour.md` works as it stands: every block is run, in the page's order, by a shell and the programs of a newcomer,
//! against a real `posthaste up`. Only the two ports are others.

mod page;
mod shell;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use page::{Block, blocks, repository};
use posthaste_proto::v1::delivery::State;
use posthaste_proto::v1::delivery_service_client::DeliveryServiceClient;
use posthaste_proto::v1::{Delivery, ListDeliveriesRequest};
use posthaste_tests::Up;
use posthaste_tests::own_server::open_folder;
use posthaste_tests::process::channel;
use posthaste_tests::wait::{wait_for, wait_until};
use shell::{Shell, Terminal};
use sqlx::{Connection, PgConnection};

const PAGE: &str = "docs/tour.md";

/// How long a block may take.
pub(crate) const BLOCK_LIMIT: Duration = Duration::from_secs(60);

/// Lines of code that a receiver of one's own may take.
const RECEIVER_LINES_MAX: usize = 10;

/// Every snippet with a file is that file, and every file is on the page.
#[test]
fn the_page_shows_the_examples() {
    let mut shown = BTreeSet::new();
    for block in blocks(PAGE) {
        let Some(file) = block.file else { continue };
        let text = fs::read_to_string(repository(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(block.text, text, "{file} and the page differ");
        let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
        assert!(!file.contains("/receive.") || lines <= RECEIVER_LINES_MAX, "{file} has {lines} lines");
        shown.insert(file);
    }
    let mut there = BTreeSet::new();
    for folder in ["python", "node", "rust", "sql"] {
        for entry in fs::read_dir(repository("examples").join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.contains('.') && !name.starts_with("package") {
                there.insert(format!("examples/{folder}/{name}"));
            }
        }
    }
    assert_eq!(shown, there);
}

/// A folder that looks like a clone to what the page runs in it: the snippets from the page, and our `.proto` files.
fn lay_out(clone: &Path, page: &[Block], ports: &[(&str, String)]) {
    for block in page {
        if let Some(file) = &block.file {
            let path = clone.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, with_ports(&block.text, ports)).unwrap();
        }
    }
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(repository(to), clone.join(name)).unwrap();
    link("proto", "proto");
    link("target/node/node_modules", "examples/node/node_modules");
}

fn with_ports(text: &str, ports: &[(&str, String)]) -> String {
    ports.iter().fold(text.to_owned(), |text, (page, here)| text.replace(page, here))
}

/// A port that stays free while one receiver gives way to the next: below those that the system hands out by itself.
fn free_port() -> u16 {
    let mut candidates = (0..100).map(|_| rand::random_range(20_000..32_000_u16));
    candidates.find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a port is free")
}

async fn deliveries(server: &str) -> Vec<Delivery> {
    let request = ListDeliveriesRequest { account_id: "acme".to_owned(), page_size: 100, ..Default::default() };
    DeliveryServiceClient::new(channel(server)).list_deliveries(request).await.unwrap().into_inner().deliveries
}

/// A reader takes longer than a program does: what was emitted has arrived when the next block is typed.
async fn wait_until_all_arrived(server: &str) {
    wait_until("all deliveries to be delivered", async || {
        deliveries(server).await.iter().all(|delivery| delivery.state() == State::Delivered)
    })
    .await;
}

#[tokio::test]
async fn every_block_of_the_tour_runs() {
    let folder = open_folder();
    let mut up = Up::start(&folder.path().join("data"), &[]).await;
    let database = wait_for("the database's URL", async || {
        up.line().await.split_once("The database, for SQL of your own: ").map(|(_, url)| url.to_owned())
    })
    .await;
    let free = free_port();
    let grpc = up.grpc().rsplit_once(':').unwrap().1.to_owned();
    let ports = [("7420", grpc), ("9000", free.to_string())];
    let (page, clone) = (blocks(PAGE), folder.path().join("clone"));
    fs::create_dir(&clone).unwrap();
    lay_out(&clone, &page, &ports);

    let mut shell = Shell::start(&clone, &up.url()).await;
    let (mut terminal, mut ended) = (None::<Terminal>, Vec::new());
    let mut said = String::new();
    for block in page.iter().filter(|block| block.language == "sh" || block.language == "sql") {
        let text = with_ports(&block.text, &ports);
        match (block.language.as_str(), block.note.as_str()) {
            // What `./test --prepare` and cargo did for us.
            ("sh", "setup") => {}
            ("sh", "terminal") if text.starts_with("posthaste up ") => {}
            ("sh", "terminal") => {
                if let Some(terminal) = terminal.take() {
                    ended.push(terminal.interrupt().await);
                }
                terminal = Some(Terminal::start(&clone, &up.url(), &text, free).await);
            }
            ("sh", _) => said.push_str(&shell.type_in(&text).await),
            ("sql", _) => {
                let mut connection = PgConnection::connect(&database).await.unwrap();
                sqlx::raw_sql(sqlx::AssertSqlSafe(text)).execute(&mut connection).await.unwrap();
            }
            (language, note) => panic!("nobody runs a block of {language} {note}"),
        }
        // Before there is a receiver nothing is emitted.
        if terminal.is_some() {
            wait_until_all_arrived(&up.url()).await;
        }
    }
    ended.push(terminal.expect("a receiver runs").interrupt().await);
    check(&ended, &said, &deliveries(&up.url()).await);
    assert!(up.stop().await.success());
}

/// What the terminals showed, and what the shell did.
fn check(ended: &[String], said: &str, deliveries: &[Delivery]) {
    let [scripted, python, node] = ended else { panic!("{} receivers ran", ended.len()) };
    assert!(
        scripted.contains("3 requests, 1 distinct webhook-id, 0 duplicates, 0 bad signatures: every check held"),
        "{scripted}"
    );
    assert!(python.contains("{'order': 'or_2'}"), "{python}");
    for order in ["or_3", "or_4", "or_5", "or_6", "or_7"] {
        assert!(node.contains(&format!("{{ order: '{order}' }}")), "{order}: {node}");
    }
    assert_eq!(deliveries.len(), 7, "{deliveries:#?}");
    // The attempts of the first event, as `posthaste attempts` shows them.
    assert_eq!(said.split_whitespace().filter(|word| *word == "503").count(), 2, "{said}");
    assert_eq!(said.matches("goes to").count(), 3, "{said}");
    assert!(said.contains("delivered"), "{said}");
}
