//! A fresh, empty database for one test.

use std::thread;

use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection};

use crate::shared_server;

/// A database of the shared server; dropped with this value.
#[derive(Debug)]
pub struct Database {
    name: String,
    url: String,
    admin_url: String,
}

/// Makes an empty database on the server that all tests share (durability off: the control plane needs
/// `--accept-loss`).
///
/// # Panics
/// When no Postgres can be had; the message says what to install.
pub async fn database() -> Database {
    let admin_url = tokio::task::spawn_blocking(shared_server::url).await.expect("not cancelled");
    let admin_url = admin_url.unwrap_or_else(|error| panic!("{error:#}"));
    let name = format!("test_{}", uuid::Uuid::now_v7().simple());
    let mut admin = PgConnection::connect(&admin_url).await.expect("connects to the shared server");
    // The older strategy copies files; writing each page to the log is slower where no crash is to be survived.
    let create = format!("/* create_test_database */ CREATE DATABASE {name} TEMPLATE template0");
    sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut admin).await.expect("creates the database");
    let url = admin_url.replacen(posthaste::postgres::DATABASE, &name, 1);
    Database { name, url, admin_url }
}

impl Database {
    /// For `--database-url`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A pool of at most 10 connections, for a look at the tables or for the store under test.
    ///
    /// # Panics
    /// When the server doesn't answer.
    pub async fn pool(&self) -> PgPool {
        PgPoolOptions::new().max_connections(10).connect(&self.url).await.expect("connects to the test's database")
    }

    /// One connection of its own, such as for a transaction that blocks others.
    ///
    /// # Panics
    /// When the server doesn't answer.
    pub async fn connection(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.expect("connects to the test's database")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let drop = format!("/* drop_test_database */ DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let admin_url = self.admin_url.clone();
        // A runtime of its own: this may run on a test's runtime, which can't be blocked.
        let work = thread::spawn(move || {
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
            runtime.block_on(async {
                if let Ok(mut admin) = PgConnection::connect(&admin_url).await {
                    let _ = sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut admin).await;
                }
            });
        });
        let _ = work.join();
    }
}
