//! An executor that notes how long each statement takes, by the name that the statement begins with.

use std::time::Instant;

use futures::{
    StreamExt, TryStreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use prometheus::HistogramVec;
use sqlx::{
    Describe, Either, Execute, Executor, Postgres, SqlStr,
    postgres::{PgArguments, PgQueryResult, PgRow, PgStatement, PgTypeInfo},
};

/// Runs statements on a pool or a connection and measures them.
#[derive(Debug)]
pub(super) struct Measured<'m, X> {
    executor: X,
    durations: &'m HistogramVec,
}

impl<'m, X> Measured<'m, X> {
    pub(super) fn new(executor: X, durations: &'m HistogramVec) -> Self {
        Self { executor, durations }
    }
}

/// A statement that is on its way; measured when it is done with, however that comes.
struct Running {
    durations: HistogramVec,
    sql: SqlStr,
    start: Instant,
}

impl Drop for Running {
    fn drop(&mut self) {
        let name = name(self.sql.as_str()).unwrap_or("unnamed");
        self.durations.with_label_values(&[name]).observe(self.start.elapsed().as_secs_f64());
    }
}

/// A query taken apart, so that its text can be looked at.
struct Parts {
    sql: SqlStr,
    arguments: Option<PgArguments>,
    persistent: bool,
}

impl<'q> Execute<'q, Postgres> for Parts {
    fn sql(self) -> SqlStr {
        self.sql
    }

    fn statement(&self) -> Option<&PgStatement> {
        None
    }

    fn take_arguments(&mut self) -> Result<Option<PgArguments>, sqlx::error::BoxDynError> {
        Ok(self.arguments.take())
    }

    fn persistent(&self) -> bool {
        self.persistent
    }
}

impl<'c, X> Executor<'c> for Measured<'_, X>
where
    X: Executor<'c, Database = Postgres>,
{
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, mut query: E) -> BoxStream<'e, Result<Either<PgQueryResult, PgRow>, sqlx::Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let (arguments, persistent) = match query.take_arguments() {
            Ok(arguments) => (arguments, query.persistent()),
            Err(error) => return stream::once(async { Err(sqlx::Error::Encode(error)) }).boxed(),
        };
        let sql = query.sql();
        let running = Running { durations: self.durations.clone(), sql: sql.clone(), start: Instant::now() };
        let rows = self.executor.fetch_many(Parts { sql, arguments, persistent });
        rows.inspect(move |_| {
            // Goes with the stream.
            let _ = &running;
        })
        .boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<PgRow>, sqlx::Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let mut rows = self.fetch_many(query);
        Box::pin(async move {
            let mut first = None;
            // To the end of the answer: with a row left unread the connection could not be used again.
            while let Some(step) = rows.try_next().await? {
                if let Either::Right(row) = step {
                    first.get_or_insert(row);
                }
            }
            Ok(first)
        })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, Result<PgStatement, sqlx::Error>>
    where
        'c: 'e,
    {
        self.executor.prepare_with(sql, parameters)
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<Describe<Postgres>, sqlx::Error>>
    where
        'c: 'e,
    {
        self.executor.describe(sql)
    }
}

/// The name in `-- name` or `/* name */` at the start of a statement.
fn name(sql: &str) -> Option<&str> {
    let text = sql.trim_start();
    let name = match text.strip_prefix("--") {
        Some(rest) => rest.lines().next()?,
        None => text.strip_prefix("/*")?.split_once("*/")?.0,
    };
    let name = name.trim();
    (!name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'))
        .then_some(name)
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn a_statement_is_known_by_its_first_comment() {
        assert_eq!(name(&format!("/* {} */ rest", "ping")), Some("ping"));
        assert_eq!(name(include_str!("queries/claim.sql")), Some("claim"));
        assert_eq!(name("no comment"), None);
        assert_eq!(name("-- Some words.\nrest"), None);
    }
}
