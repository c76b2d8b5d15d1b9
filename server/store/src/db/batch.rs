//! Writes that belong together.
//!
//! A change of a job writes to several tables, and each statement would cost a way to the database and back, which is most of
//! what it costs. PostgreSQL therefore takes them as one statement, whose parts are the common text of both databases (data-modifying
//! statements in WITH). All parts see what was there before: none may depend on what another one writes, nor touch the same row.
//! References between rows are checked at the end. SQLite has no way to go, and runs one part after the other.

use super::{CHANNEL, Db, Lock, Tx, read, within};
use crate::{StoreError, error::one_row, notifications::JobChanged};
use chrono::{DateTime, Utc};
use domain::id::{JobId, RequestKey, UserId};
use sqlx::AssertSqlSafe;
use std::{borrow::Cow, fmt::Write as _};
use uuid::Uuid;

/// How many parameters one statement takes at most: PostgreSQL's protocol counts them with 16 bits, SQLite up to 32,766.
const PARAMETERS: usize = 32_000;

/// How many parts one statement has at most: PostgreSQL goes into them one inside the other.
const PARTS: usize = 50;

/// A parameter of a write.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Id(Option<Uuid>),
    Number(Option<i64>),
    Text(Option<String>),
    Time(Option<DateTime<Utc>>),
    /// The address of this person, which the database looks up.
    EmailOf(UserId),
}

impl Value {
    /// The text that stands for it where it is the parameter with this number.
    fn parameter(&self, number: usize) -> String {
        match self {
            Self::EmailOf(_) => format!("(select email from users where id = ${number})"),
            _ => format!("${number}"),
        }
    }
}

/// One statement, with parameters `$1`, `$2` and so on.
#[derive(Debug)]
struct Part {
    text: String,
    values: Vec<Value>,
    /// What to call it in an error if it changes another number of rows than one; `None` if any number is fine.
    one_row: Option<&'static str>,
}

/// Writes that wait to be made.
#[derive(Debug, Default)]
pub struct Batch(Vec<Part>);

impl Batch {
    /// Adds an update that must change exactly one row; an error calls it `what`.
    pub fn update_one<const N: usize>(&mut self, what: &'static str, text: &str, values: [Value; N]) {
        self.0.push(Part { text: text.to_owned(), values: values.into(), one_row: Some(what) });
    }

    /// Adds an update of as many rows as there are.
    pub fn update<const N: usize>(&mut self, text: &str, values: [Value; N]) {
        self.0.push(Part { text: text.to_owned(), values: values.into(), one_row: None });
    }

    /// Adds rows; `into` is the beginning of the statement, with the table and its columns.
    pub fn insert<const N: usize>(&mut self, into: &str, rows: impl IntoIterator<Item = [Value; N]>) {
        let rows: Vec<[Value; N]> = rows.into_iter().collect();
        for rows in rows.chunks(PARAMETERS / N) {
            let mut text = format!("insert into {into} values ");
            for (row, values) in rows.iter().enumerate() {
                let parameters: Vec<String> =
                    (1..).zip(values).map(|(column, value)| value.parameter(row * N + column)).collect();
                let comma = if row == 0 { "" } else { ", " };
                // Writing to a text never fails.
                let _ = write!(text, "{comma}({})", parameters.join(", "));
            }
            self.0.push(Part { text, values: rows.as_flattened().to_vec(), one_row: None });
        }
    }
}

/// What is sent to PostgreSQL in one exchange.
#[derive(Debug, Default)]
struct Statement {
    parts: Vec<String>,
    one_row: Vec<Option<&'static str>>,
    /// Functions that are called besides.
    calls: Vec<String>,
    values: Vec<Value>,
}

impl Statement {
    /// As few as it takes.
    fn of(Batch(parts): Batch) -> Vec<Self> {
        let mut statements: Vec<Self> = Vec::new();
        for part in parts {
            if let Some(last) = statements.last_mut().filter(|last| last.has_room_for(&part)) {
                last.add(part);
            } else {
                let mut first = Self::default();
                first.add(part);
                statements.push(first);
            }
        }
        statements
    }

    fn has_room_for(&self, part: &Part) -> bool {
        self.parts.len() < PARTS && self.values.len() + part.values.len() <= PARAMETERS
    }

    fn add(&mut self, part: Part) {
        self.parts.push(shifted(&part.text, self.values.len()));
        self.values.extend(part.values);
        self.one_row.push(part.one_row);
    }

    fn call(&mut self, call: &str, value: impl Into<Value>) {
        self.calls.push(shifted(call, self.values.len()));
        self.values.push(value.into());
    }

    /// The text, which gives a row for each part: its place and how many rows it has changed.
    fn text(&self) -> String {
        let parts = self.parts.iter().enumerate().map(|(place, part)| format!("part{place} as ({part} returning 1)"));
        let counts = (0..self.parts.len()).map(|place| format!("select {place}::bigint, count(*) from part{place}"));
        // Nothing that a volatile function gives is left out, even where nobody reads it.
        let calls = self.calls.iter().map(|call| format!("select -1::bigint, count(*) from (select {call}) as called"));
        let (parts, rows): (Vec<String>, Vec<String>) = (parts.collect(), counts.chain(calls).collect());
        format!("with {} {}", parts.join(", "), rows.join(" union all "))
    }

    /// The text and its parameters, which may be long.
    fn take(&mut self) -> (String, Vec<Value>) {
        (self.text(), std::mem::take(&mut self.values))
    }

    /// Fails unless each part has changed as many rows as it must.
    fn check(&self, counts: &[(i64, i64)]) -> Result<(), StoreError> {
        for (place, rows) in counts {
            let what = usize::try_from(*place).ok().and_then(|place| self.one_row.get(place).copied().flatten());
            what.map_or(Ok(()), |what| one_row(what, rows.unsigned_abs()))?;
        }
        Ok(())
    }
}

/// The text with its parameters counted from after `offset`.
fn shifted(text: &str, offset: usize) -> String {
    let mut pieces = text.split('$');
    let mut shifted = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let digits = piece.find(|c: char| !c.is_ascii_digit()).unwrap_or(piece.len());
        let number: usize = piece[..digits].parse().unwrap_or_default();
        let _ = write!(shifted, "${}{}", number + offset, &piece[digits..]);
    }
    shifted
}

/// Binds values to a query, for either database.
macro_rules! bound {
    ($query:expr, $values:expr) => {{
        let mut query = $query;
        for value in $values {
            query = match value {
                Value::Id(id) => query.bind(id),
                Value::Number(number) => query.bind(number),
                Value::Text(text) => query.bind(text),
                Value::Time(time) => query.bind(time),
                Value::EmailOf(person) => query.bind(person),
            };
        }
        query
    }};
}

impl Tx {
    /// Makes the writes.
    pub async fn write(&mut self, batch: Batch) -> Result<(), StoreError> {
        if let Self::Sqlite(..) = self {
            for Part { text, values, one_row: what } in batch.0 {
                let rows = within!(*self, conn => {
                    bound!(sqlx::query(AssertSqlSafe(text)), values).execute(conn).await.map(|done| done.rows_affected())
                })?;
                what.map_or(Ok(()), |what| one_row(what, rows))?;
            }
            return Ok(());
        }
        self.write_together(Statement::of(batch)).await
    }

    async fn write_together(&mut self, statements: Vec<Statement>) -> Result<(), StoreError> {
        for mut statement in statements {
            let (text, values) = statement.take();
            let counts: Vec<(i64, i64)> = within!(*self, conn => {
                bound!(sqlx::query_as(AssertSqlSafe(text)), values).fetch_all(conn).await
            })?;
            statement.check(&counts)?;
        }
        Ok(())
    }
}

impl Db {
    /// Makes writes that are a transaction of their own, which holds `lock`, and tells the other processes of the change that
    /// they make, where the database can. They must only add rows, since all is committed before anything is looked at.
    pub async fn write(&self, batch: Batch, lock: Lock<'_>, origin: Uuid, change: JobChanged) -> Result<(), StoreError> {
        if let Self::Sqlite { .. } = self {
            let mut tx = self.begin().await?;
            tx.write(batch).await?;
            return Ok(tx.commit().await?);
        }
        let mut statements = Statement::of(batch);
        if let [whole] = statements.as_mut_slice() {
            whole.call("pg_advisory_xact_lock($1)", lock.number());
            whole.call(&format!("pg_notify('{CHANNEL}', $1)"), change.to_message(origin));
            let (text, values) = whole.take();
            return Ok(read!(*self, conn => bound!(sqlx::query(AssertSqlSafe(text)), values).execute(conn).await.map(drop))?);
        }
        let mut tx = self.begin_with_lock(lock).await?;
        tx.write_together(statements).await?;
        Ok(tx.commit_and_tell(origin, &[change]).await?)
    }
}

macro_rules! values {
    ($($variant:ident: $($type:ty => |$value:ident| $inner:expr),+;)+) => {
        $($(
            impl From<$type> for Value {
                fn from($value: $type) -> Self {
                    Self::$variant(Some($inner))
                }
            }

            impl From<Option<$type>> for Value {
                fn from(value: Option<$type>) -> Self {
                    Self::$variant(value.map(|$value| $inner))
                }
            }
        )+)+
    };
}

values! {
    Id: JobId => |id| id.0, UserId => |id| id.0, RequestKey => |key| key.0, Uuid => |id| id;
    Number: i64 => |number| number, u32 => |number| number.into();
    Text: String => |text| text, &str => |text| text.to_owned(), Cow<'_, str> => |text| text.into_owned();
    Time: DateTime<Utc> => |time| time;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_counted_on() {
        assert_eq!(
            shifted("update a set b = $2 where c = $1 and d in ($10,$11)", 30),
            "update a set b = $32 where c = $31 and d in ($40,$41)"
        );
        assert_eq!(shifted("delete from a", 3), "delete from a");
    }

    #[test]
    fn rows_are_inserted_together_as_far_as_there_are_parameters() {
        let mut batch = Batch::default();
        batch.insert("a (b, c)", (0..3_i64).map(|row| [row.into(), "x".into()]));
        batch.insert("a (b)", (0..32_001_i64).map(|row| [row.into()]));
        let texts: Vec<&str> = batch.0.iter().map(|part| part.text.as_str()).collect();
        assert_eq!(texts[0], "insert into a (b, c) values ($1, $2), ($3, $4), ($5, $6)");
        assert_eq!(texts[2], "insert into a (b) values ($1)");
        assert_eq!(batch.0[1].values.len(), 32_000);
    }

    #[test]
    fn parts_become_one_statement() {
        let mut batch = Batch::default();
        batch.update_one("update of a", "update a set b = $2 where c = $1", ["x".into(), 1_i64.into()]);
        batch.insert("d (e)", [[Value::Time(None)]]);
        let mut statement = Statement::default();
        batch.0.into_iter().for_each(|part| statement.add(part));
        assert_eq!(
            statement.text(),
            "with part0 as (update a set b = $2 where c = $1 returning 1), part1 as (insert into d (e) values ($3) returning 1) \
             select 0::bigint, count(*) from part0 union all select 1::bigint, count(*) from part1"
        );
        assert_eq!((statement.values.len(), statement.one_row), (3, vec![Some("update of a"), None]));
    }
}
