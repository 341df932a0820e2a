//! `--rotate-master-key` as an operator runs it: a process beside living replicas, killed and run again, with a key too few.

use std::{path::PathBuf, process::Stdio, time::Duration};

use futures::future::join_all;
use posthaste_bench::receiver::{Receiver, Signature};
use posthaste_control_plane::{
    secret::{KeyRing, Owner, Sealed},
    store::secrets::SecretPlace,
};
use posthaste_domain::signature::{Key, Scheme, Secret};
use posthaste_proto::v1::{
    Endpoint, GetSecretRequest, RotateSecretRequest, delivery::State, endpoint::SignatureScheme,
};
use posthaste_tests::{
    Agent, Database, Plane,
    calls::{endpoint, event, receiver},
    program,
    wait::{LIMIT, wait_until},
};
use sqlx::{Connection, PgPool, Row};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::fixture::{self, Planned, schema};

/// As many as three batches have.
const ROWS: u8 = 250;
const COPIES: i64 = 2;

/// The line of a key file.
fn key(id: &str) -> String {
    use base64::{Engine, prelude::BASE64_STANDARD};
    format!("{id}:{}\n", BASE64_STANDARD.encode([id.as_bytes()[1]; 32]))
}

fn keys(ids: &[&str]) -> String {
    ids.iter().map(|id| key(id)).collect()
}

/// A key file with these keys, in this order.
fn key_file(ids: &[&str]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("posthaste.key");
    std::fs::write(&path, keys(ids)).unwrap();
    (folder, path)
}

fn start(url: &str, file: &PathBuf) -> Child {
    Command::new(program::path())
        .args(["internal", "control-plane", "--rotate-master-key", "--accept-loss", "--database-url", url])
        .arg("--secret-key-file")
        .arg(file)
        .env_remove("POSTHASTE_SECRET_KEY")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Runs it to its end with these keys: exit code, output, log.
async fn rotate(url: &str, ids: &[&str]) -> (Option<i32>, String, String) {
    let (_folder, file) = key_file(ids);
    let output = tokio::time::timeout(LIMIT, start(url, &file).wait_with_output()).await.expect("ends").unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

async fn plane(database: &Database, ids: &[&str]) -> Plane {
    Plane::with(database.url(), &["--secret-key", &keys(ids)]).await
}

fn rotation(endpoint_id: &str, overlap: Duration) -> RotateSecretRequest {
    RotateSecretRequest {
        account_id: "acme".to_owned(),
        endpoint_id: endpoint_id.to_owned(),
        secret: String::new(),
        overlap: Some(overlap.try_into().unwrap()),
    }
}

async fn sealed_with(pool: &PgPool, key_id: &str) -> i64 {
    let count = "/* test_sealed_with */ SELECT count(*) FROM posthaste.endpoint_secret WHERE key_id = $1";
    sqlx::query_scalar(count).bind(key_id).fetch_one(pool).await.unwrap()
}

/// Emits an event that every endpoint gets; each request must be signed with what the receiver trusts.
async fn deliver(plane: &Plane, receiver: &Receiver, endpoints: usize) {
    let seen = receiver.received().len();
    let event_id = plane.emit(event("acme", "invoice.paid", "{}")).await;
    let ended = plane.wait_ended("acme", &event_id).await;
    assert!(ended.len() == endpoints && ended.iter().all(|one| one.state() == State::Delivered), "{ended:?}");
    let received = receiver.received().split_off(seen);
    assert_eq!(received.len(), endpoints);
    assert!(received.iter().all(|request| request.signature == Signature::Verified), "{received:?}");
}

async fn public_key(plane: &Plane) -> String {
    let request = GetSecretRequest { account_id: "acme".to_owned(), endpoint_id: "pair".to_owned() };
    plane.endpoints().get_secret(request).await.unwrap().into_inner().secrets.remove(0).secret
}

#[tokio::test]
async fn secrets_of_two_keys_get_the_new_one_and_sign_as_before() {
    let (database, pool) = schema().await;
    let receiver = receiver().await;
    let mut first = plane(&database, &["k1"]).await;
    first.create_account("acme").await;
    first.create_endpoint("acme", "a", &receiver).await;
    first.create_endpoint("acme", "b", &receiver).await;
    let pair = Endpoint {
        signature_scheme: SignatureScheme::Ed25519.into(),
        paused: true,
        ..endpoint("acme", "pair", &receiver.url("/pair"))
    };
    first.create(Endpoint { event_types: vec!["none".to_owned()], ..pair }).await;
    let public = public_key(&first).await;
    first.stop().await;
    let mut second = plane(&database, &["k2", "k1"]).await;
    second.create_endpoint("acme", "c", &receiver).await;
    assert_eq!((sealed_with(&pool, "k1").await, sealed_with(&pool, "k2").await), (3, 1));

    let (code, told, log) = rotate(database.url(), &["k2", "k1"]).await;
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(
        told,
        "re-sealed 3 secrets with key `k2`\nno stored secret needs `k1`: may be removed from the secret key file\n"
    );
    assert_eq!((sealed_with(&pool, "k1").await, sealed_with(&pool, "k2").await), (0, 4));
    // The replica that lives through it goes on, and one that never had the old key starts.
    let agent = Agent::start(&second).await;
    deliver(&second, &receiver, 3).await;
    drop(agent);
    second.stop().await;
    let third = plane(&database, &["k2"]).await;
    let _agent = Agent::start(&third).await;
    deliver(&third, &receiver, 3).await;
    assert_eq!(public_key(&third).await, public);
    let (code, told, _) = rotate(database.url(), &["k2"]).await;
    assert_eq!((code, told.as_str()), (Some(0), "re-sealed 0 secrets with key `k2`\n"));
}

/// Secrets of two endpoints by SQL, all sealed with `k1`, in the order of their rows.
async fn many(pool: &PgPool) -> Vec<Key> {
    fixture::account(pool, "acme").await;
    let ring = KeyRing::parse(&key("k1")).unwrap();
    let mut secrets = Vec::new();
    for id in ["a", "b"] {
        let number = fixture::endpoint(pool, "acme", id, Planned::default()).await;
        for byte in 0..ROWS {
            let secret = Key::from_random(Scheme::HmacSha256, [byte; 32]);
            let sealed = ring.seal_secret(owner(id), &secret).unwrap();
            let insert = "/* test_secret */ INSERT INTO posthaste.endpoint_secret
                (endpoint_number, key_id, nonce, ciphertext) VALUES ($1, $2, $3, $4)";
            let query = sqlx::query(insert).bind(number).bind(sealed.key_id).bind(sealed.nonce);
            query.bind(sealed.ciphertext).execute(pool).await.unwrap();
            secrets.push(secret);
        }
    }
    secrets
}

fn owner(endpoint_id: &str) -> Owner<'_> {
    Owner { account_id: "acme", endpoint_id, scheme: Scheme::HmacSha256 }
}

/// The stored rows, in the order of their primary key.
async fn stored(pool: &PgPool) -> Vec<Sealed> {
    let select = "/* test_stored_secrets */ SELECT key_id, nonce, ciphertext FROM posthaste.endpoint_secret
                  ORDER BY endpoint_number, secret_number";
    let rows = sqlx::query(select).fetch_all(pool).await.unwrap();
    rows.iter().map(|row| Sealed { key_id: row.get(0), nonce: row.get(1), ciphertext: row.get(2) }).collect()
}

#[tokio::test]
async fn killed_in_the_middle_and_run_again() {
    let (database, pool) = schema().await;
    let secrets = many(&pool).await;
    let total = i64::from(ROWS) * COPIES;
    // One row of the last batch takes longer than this test waits.
    let slow = "/* test_slow */ DO $do$ BEGIN
        CREATE FUNCTION posthaste.test_slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF NEW.secret_number = (SELECT max(secret_number) FROM posthaste.endpoint_secret) THEN PERFORM pg_sleep(9); END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER test_slow BEFORE UPDATE ON posthaste.endpoint_secret FOR EACH ROW
            EXECUTE FUNCTION posthaste.test_slow();
        END $do$";
    sqlx::raw_sql(slow).execute(&pool).await.unwrap();
    let (_folder, file) = key_file(&["k2", "k1"]);
    let mut running = start(database.url(), &file);
    wait_until("the last batch", async || sealed_with(&pool, "k2").await >= 400).await;
    running.kill().await.unwrap();
    let end = "/* test_end */ SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
               WHERE datname = current_database() AND application_name = 'posthaste/master-key-rotation'";
    wait_until("its sessions to end", async || sqlx::query_scalar::<_, i64>(end).fetch_one(&pool).await.unwrap() == 0)
        .await;
    assert_eq!((sealed_with(&pool, "k2").await, sealed_with(&pool, "k1").await), (400, total - 400));

    let drop = "/* test_fast */ DROP TRIGGER test_slow ON posthaste.endpoint_secret";
    sqlx::query(drop).execute(&pool).await.unwrap();
    let (code, told, log) = rotate(database.url(), &["k2", "k1"]).await;
    assert!(code == Some(0) && told.starts_with("re-sealed 100 secrets with key `k2`\n"), "{code:?} {told}{log}");
    let ring = KeyRing::parse(&key("k2")).unwrap();
    for (index, (sealed, secret)) in stored(&pool).await.iter().zip(&secrets).enumerate() {
        let id = if index < usize::from(ROWS) { "a" } else { "b" };
        assert_eq!(ring.open_secret(owner(id), sealed).as_ref(), Ok(secret), "row {index}");
    }
}

#[tokio::test]
async fn a_missing_key_changes_nothing_and_a_broken_row_stops_nobody() {
    let (database, pool) = schema().await;
    many(&pool).await;
    let lost = "/* test_lost_key */ UPDATE posthaste.endpoint_secret SET key_id = 'k0' WHERE secret_number IN
                (SELECT secret_number FROM posthaste.endpoint_secret ORDER BY secret_number LIMIT 2)";
    sqlx::query(lost).execute(&pool).await.unwrap();
    let before = stored(&pool).await;
    let (code, told, log) = rotate(database.url(), &["k2", "k1"]).await;
    assert_eq!((code, told.as_str()), (Some(64), ""), "{log}");
    let words = "has no key `k0`, which seals 2 secrets: put it back behind the first line. Nothing was changed";
    assert!(log.contains(words), "{log}");
    assert_eq!(stored(&pool).await, before);

    // With a key of that name, but other bytes, those two don't open; all others do.
    let (code, told, log) = rotate(database.url(), &["k2", "k1", "k0"]).await;
    assert_eq!(
        (code, told.as_str()),
        (
            Some(1),
            "re-sealed 498 secrets with key `k2`\nno stored secret needs `k1`: may be removed from the secret key file\n"
        ),
        "{log}"
    );
    assert!(log.contains("key `k0` seals 2 secrets") && log.contains("account `acme`, endpoint `a`: "), "{log}");
    assert_eq!(stored(&pool).await[..2], before[..2]);
    // The way out: two rotations later nothing of what can't be read is left.
    let plane = plane(&database, &["k2", "k1", "k0"]).await;
    for _ in 0..2 {
        plane.endpoints().rotate_secret(rotation("a", Duration::ZERO)).await.unwrap();
    }
    let (code, told, second_log) = rotate(database.url(), &["k2", "k0"]).await;
    assert_eq!(code, Some(0), "{second_log}");
    assert!(told.starts_with("re-sealed 0 ") && told.contains("no stored secret needs `k0`"), "{told}");
    for id in ["k0", "k1", "k2"] {
        assert!(!log.contains(key(id).split_once(':').unwrap().1.trim()), "a key is shown: {log}");
    }
}

#[tokio::test]
async fn rotations_of_secrets_meanwhile_lose_nothing() {
    const ENDPOINTS: usize = 24;
    const ROTATIONS: usize = 4;
    let (database, pool) = schema().await;
    let receiver = receiver().await;
    let ids: Vec<String> = (0..ENDPOINTS).map(|number| format!("e{number}")).collect();
    let mut first = plane(&database, &["k1"]).await;
    first.create_account("acme").await;
    for id in &ids {
        first.create_endpoint("acme", id, &receiver).await;
    }
    first.stop().await;
    // Both meet in the same rows for a while.
    let slow = "/* test_slower */ DO $do$ BEGIN
        CREATE FUNCTION posthaste.test_slower() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            PERFORM pg_sleep(0.01); RETURN NEW;
        END $$;
        CREATE TRIGGER test_slower BEFORE UPDATE ON posthaste.endpoint_secret FOR EACH ROW
            EXECUTE FUNCTION posthaste.test_slower();
        END $do$";
    sqlx::raw_sql(slow).execute(&pool).await.unwrap();
    let plane = plane(&database, &["k2", "k1"]).await;
    let rotations = join_all(ids.iter().map(async |id| {
        let mut known = plane.secrets("acme", id).await;
        for _ in 0..ROTATIONS {
            let request = rotation(id, Duration::from_secs(3_600));
            let answer = plane.endpoints().rotate_secret(request).await.unwrap().into_inner();
            known.insert(0, Secret::parse(&answer.secrets[0].secret).unwrap());
        }
        known
    }));
    let url = database.url();
    let commands = async {
        for _ in 0..3 {
            let (code, _, log) = rotate(url, &["k2", "k1"]).await;
            assert_eq!(code, Some(0), "{log}");
        }
    };
    let (known, ()) = tokio::join!(rotations, commands);
    assert_eq!(sealed_with(&pool, "k1").await, 0);
    for (id, known) in ids.iter().zip(&known) {
        assert_eq!(&plane.secrets("acme", id).await, known, "{id}");
        receiver.trust(&format!("/{id}"), known[..1].to_vec());
    }
    let _agent = Agent::start(&plane).await;
    deliver(&plane, &receiver, ENDPOINTS).await;
}

/// Whoever read a row before somebody else changed it, or reads one that somebody holds, writes nothing and doesn't wait.
#[tokio::test]
async fn only_what_is_still_there_is_replaced() {
    let (database, pool) = schema().await;
    many(&pool).await;
    let store = fixture::store(&database).await;
    let ring = KeyRing::parse(&keys(&["k2", "k1"])).unwrap();
    let read: Vec<_> = store
        .sealed_secrets(SecretPlace::START, 5)
        .await
        .unwrap()
        .into_iter()
        .map(|row| (row.clone(), ring.reseal(owner("a"), &row.sealed).unwrap()))
        .collect();
    let mut holder = database.connection().await;
    let mut transaction = holder.begin().await.unwrap();
    let hold = "/* test_hold */ UPDATE posthaste.endpoint_secret SET expire_time = now() WHERE secret_number = $1";
    sqlx::query(hold).bind(read[4].0.place.number).execute(&mut *transaction).await.unwrap();
    let gone = "/* test_gone */ DELETE FROM posthaste.endpoint_secret WHERE secret_number = $1";
    sqlx::query(gone).bind(read[3].0.place.number).execute(&pool).await.unwrap();
    assert_eq!(store.reseal(&read).await.unwrap(), 3);
    transaction.commit().await.unwrap();
    let first = stored(&pool).await;
    // Read before that, these are of the past.
    assert_eq!(store.reseal(&read[..3]).await.unwrap(), 0);
    assert_eq!(stored(&pool).await, first);
    // Who changed something else of the row doesn't stand in the way, and keeps it.
    assert_eq!(store.reseal(&read[4..]).await.unwrap(), 1);
    assert_eq!(stored_ends(&pool).await, 1);
}

async fn stored_ends(pool: &PgPool) -> i64 {
    let count = "/* test_ends */ SELECT count(*) FROM posthaste.endpoint_secret WHERE expire_time IS NOT NULL";
    sqlx::query_scalar(count).fetch_one(pool).await.unwrap()
}
