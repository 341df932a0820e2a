//! Every row of the list: what the attempt came to, that the deadline was kept, that the connection was left alone
//! afterwards, and that nobody else was later for it.

use std::time::Duration;

use futures::future::join_all;
use posthaste_bench::hostile::{Hostile, Met, Row, rows};
use posthaste_bench::processes;
use posthaste_proto::v1::attempt::Verdict;
use posthaste_proto::v1::{Account, Attempt, CreateAccountRequest, EmitRequest, Endpoint};
use posthaste_tests::calls::{endpoint, event, receiver, schedule};
use posthaste_tests::wait::wait_for;
use posthaste_tests::{Agent, Database, Plane, database};
use tokio::time::{Instant, sleep};

/// How long a receiver has to answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// What an attempt may take beyond it, ten times what is aimed at and more.
const OVER: Duration = Duration::from_secs(1);
/// Endpoints of one account.
const OF_AN_ACCOUNT: usize = 20;
/// Between two events to the healthy one.
const EVERY: Duration = Duration::from_millis(50);
/// What a healthy delivery may take, ten times what is aimed at and more.
const HEALTHY_MAX: Duration = Duration::from_secs(5);
/// What the agent may have in memory at its worst.
const AGENT_BYTES_MAX: u64 = 512 << 20;

struct System {
    hostile: Hostile,
    plane: Plane,
    agent: Agent,
    _database: Database,
}

impl System {
    /// An endpoint for each row.
    async fn start() -> Self {
        let database = database().await;
        let plane = Plane::start(database.url()).await;
        let hostile = Hostile::start().await.unwrap();
        let agent = Agent::start(&plane).await;
        let system = Self { hostile, plane, agent, _database: database };
        for (number, row) in rows().iter().enumerate() {
            let account_id = account_of(number);
            if number % OF_AN_ACCOUNT == 0 {
                system.account(&account_id).await;
            }
            let endpoint = endpoint(&account_id, row.name, &system.hostile.url(row.name).unwrap());
            system.plane.create(Endpoint { timeout: Some(TIMEOUT.try_into().unwrap()), ..endpoint }).await;
        }
        system
    }

    /// One whose deliveries are attempted once while a test runs.
    async fn account(&self, account_id: &str) {
        let account = Account {
            account_id: account_id.to_owned(),
            schedule: Some(schedule(&[3_600_000], 3_600_000)),
            ..Account::default()
        };
        self.plane.accounts().create_account(CreateAccountRequest { account: Some(account) }).await.unwrap();
    }

    /// The first attempt of an event to this endpoint.
    async fn attempt(&self, account_id: &str, endpoint_id: &str) -> Attempt {
        let request =
            EmitRequest { endpoint_ids: vec![endpoint_id.to_owned()], ..event(account_id, "invoice.paid", "{}") };
        let event_id = self.plane.emit(request).await;
        let attempts = wait_for("the attempt", async || {
            let attempts = self.plane.attempts_of(account_id, &event_id).await;
            (!attempts.is_empty()).then_some(attempts)
        });
        attempts.await.remove(0)
    }
}

fn account_of(number: usize) -> String {
    format!("hostile-{}", number / OF_AN_ACCOUNT)
}

/// Everything that is wrong about this attempt.
fn wrong(row: &Row, attempt: &Attempt) -> Option<String> {
    let met = Met { verdict: verdict(attempt), outcome: name(&attempt.outcome), status: attempt.status };
    let took = Duration::try_from(attempt.duration.unwrap()).unwrap();
    let right = met == row.met && took <= TIMEOUT + OVER && attempt.response_body.len() <= 1_024;
    (!right).then(|| format!("{}: must be {:?}, was {met:?} after {took:?}: {attempt:?}", row.name, row.met))
}

fn verdict(attempt: &Attempt) -> &'static str {
    [Verdict::Succeeded, Verdict::Failed, Verdict::Throttled, Verdict::Overloaded, Verdict::StaleConnection]
        .into_iter()
        .find(|verdict| *verdict == attempt.verdict())
        .map_or("another", |verdict| verdict.as_str_name())
}

fn name(outcome: &str) -> &'static str {
    let outcomes = posthaste_domain::attempt::Outcome::ALL.map(posthaste_domain::attempt::Outcome::as_str);
    outcomes.into_iter().find(|known| *known == outcome).unwrap_or("another")
}

#[tokio::test]
async fn each_comes_to_what_it_must_and_nobody_waits_for_it() {
    let system = System::start().await;
    let healthy = receiver().await;
    system.account("healthy").await;
    system.plane.create_endpoint("healthy", "orders", &healthy).await;
    let rows = rows();
    let attacks = async {
        // Twice each, one after the other: the second tells whether the first one's connection was used again.
        let twice = rows.iter().enumerate().map(async |(number, row)| {
            let account_id = account_of(number);
            let first = system.attempt(&account_id, row.name).await;
            let throttled = first.verdict() == Verdict::Throttled;
            let second = if throttled { None } else { Some(system.attempt(&account_id, row.name).await) };
            (row, first, second)
        });
        join_all(twice).await
    };
    let beside = async {
        let mut emitted = Vec::new();
        for _ in 0..120 {
            let at = Instant::now();
            emitted.push(system.plane.emit(event("healthy", "invoice.paid", "{}")).await);
            sleep(EVERY.saturating_sub(at.elapsed())).await;
        }
        emitted
    };
    let (attacked, emitted) = tokio::join!(attacks, beside);

    let mut problems = Vec::new();
    for (row, first, second) in &attacked {
        problems.extend(wrong(row, first));
        if row.name == "closes_at_next" {
            continue;
        }
        problems.extend(second.as_ref().and_then(|attempt| wrong(row, attempt)));
        let visits = system.hostile.visits(row.name);
        if visits.elsewhere > 0 {
            problems.push(format!("{}: its redirect was followed", row.name));
        }
        if row.spoils && visits.reused > 0 {
            problems.push(format!("{}: its connection was used again", row.name));
        }
        if !row.spoils && second.is_some() && visits.reused == 0 {
            problems.push(format!("{}: its connection was thrown away", row.name));
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
    println!("{} receivers misbehaved twice each", attacked.len());

    healthy.wait_for(emitted.len(), Duration::from_secs(10)).await.unwrap();
    for event_id in &emitted {
        let attempts = system.plane.attempts_of("healthy", event_id).await;
        assert_eq!((attempts.len(), attempts[0].status), (1, 200), "{attempts:?}");
        let delivery = system.plane.deliveries_of("healthy", event_id).await.remove(0);
        let (created, ended) = (delivery.create_time.unwrap(), delivery.end_time.unwrap());
        let took = ended.seconds * 1_000 + i64::from(ended.nanos) / 1_000_000
            - created.seconds * 1_000
            - i64::from(created.nanos) / 1_000_000;
        assert!(took < i64::try_from(HEALTHY_MAX.as_millis()).unwrap(), "a healthy delivery took {took} ms");
    }
    // Whatever is left of them keeps no processor busy.
    let before = processes::of_process(system.agent.pid()).unwrap();
    sleep(Duration::from_secs(2)).await;
    let used = processes::of_process(system.agent.pid()).unwrap() - before;
    assert!(used.cpu < Duration::from_secs(1), "the agent used {:?} in 2 s afterwards", used.cpu);
    let peak = used.memory_peak_bytes;
    assert!(peak < AGENT_BYTES_MAX, "the agent had {peak} bytes");
}

#[tokio::test]
async fn what_was_asked_for_is_kept_as_it_came() {
    let system = System::start().await;
    let number = |name: &str| rows().iter().position(|row| row.name == name).unwrap();
    let attempt = async |name: &str| system.attempt(&account_of(number(name)), name).await;
    let latin = attempt("latin_1_beside_retry_after").await;
    let wait = |attempt: &Attempt| Duration::try_from(attempt.wait.unwrap()).unwrap();
    assert_eq!(latin.retry_after, "5".as_bytes());
    assert!(wait(&latin) >= Duration::from_secs(5), "{latin:?}");
    let two = attempt("two_retry_after").await;
    assert!(wait(&two) >= Duration::from_secs(900), "the longest counts: {two:?}");
    let odd = attempt("odd_bytes").await;
    assert_eq!(odd.response_body, [0, 0xff, 0x1b, 0xc3].as_slice());
    let truncated = attempt("truncated_body").await;
    assert!(truncated.response_body_truncated && !truncated.detail.is_empty(), "{truncated:?}");
    assert!(truncated.remote_address.starts_with("127.0.0.1:"), "{truncated:?}");
    assert!(truncated.connect.is_some() && truncated.first_byte.is_some(), "{truncated:?}");
}

#[tokio::test]
async fn a_connection_that_closes_as_it_is_used_again_costs_no_step() {
    let system = System::start().await;
    let number = rows().iter().position(|row| row.name == "closes_at_next").unwrap();
    let account_id = account_of(number);
    assert_eq!(system.attempt(&account_id, "closes_at_next").await.verdict(), Verdict::Succeeded);
    let request =
        EmitRequest { endpoint_ids: vec!["closes_at_next".to_owned()], ..event(&account_id, "invoice.paid", "{}") };
    let event_id = system.plane.emit(request).await;
    system.plane.wait_ended(&account_id, &event_id).await;
    let attempts = system.plane.attempts_of(&account_id, &event_id).await;
    let verdicts: Vec<Verdict> = attempts.iter().map(Attempt::verdict).collect();
    assert_eq!(verdicts, [Verdict::StaleConnection, Verdict::Succeeded], "{attempts:?}");
    assert_eq!(wait_ms(&attempts[0]), 0, "due again at once");
}

fn wait_ms(attempt: &Attempt) -> u128 {
    Duration::try_from(attempt.wait.unwrap()).unwrap().as_millis()
}
