//! Writes that belong together.
//!
//! A change of a job writes to several tables, and each statement would cost a way to the database and back, which is most of
//! what it costs. PostgreSQL therefore takes them as one statement, whose parts are the common text of both databases (data-modifying
//! statements in WITH). All parts see what was there before: none may depend on what another one writes, nor touch the same row.
//! References between rows are checked at the end. SQLite has no way to go, and runs one part after the other.

use super::{Tx, within};
use crate::{
    id::{JobId, RequestKey, UserId},
    store::{StoreError, error::one_row},
};
use chrono::{DateTime, Utc};
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
            for row in 0..rows.len() {
                let parameters: Vec<String> = (1..=N).map(|column| format!("${}", row * N + column)).collect();
                let comma = if row == 0 { "" } else { ", " };
                // Writing to a text never fails.
                let _ = write!(text, "{comma}({})", parameters.join(", "));
            }
            self.0.push(Part { text, values: rows.as_flattened().to_vec(), one_row: None });
        }
    }
}

/// What is sent to the database in one exchange.
#[derive(Debug, Default)]
struct Statement {
    parts: Vec<String>,
    values: Vec<Value>,
    one_row: Vec<Option<&'static str>>,
}

impl Statement {
    fn has_room_for(&self, part: &Part) -> bool {
        self.parts.len() < PARTS && self.values.len() + part.values.len() <= PARAMETERS
    }

    fn add(&mut self, part: Part) {
        self.parts.push(shifted(&part.text, self.values.len()));
        self.values.extend(part.values);
        self.one_row.push(part.one_row);
    }

    /// The text, which gives a row for each part: its place and how many rows it has changed.
    fn text(&self) -> String {
        let (mut parts, mut counts) = (String::new(), String::new());
        for (place, part) in self.parts.iter().enumerate() {
            let (comma, union) = if place == 0 { ("with ", "") } else { (", ", " union all ") };
            // Writing to a text never fails.
            let _ = write!(parts, "{comma}part{place} as ({part} returning 1)");
            let _ = write!(counts, "{union}select {place}::bigint, count(*) from part{place}");
        }
        format!("{parts} {counts}")
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
            };
        }
        query
    }};
}

impl Tx {
    /// Makes the writes.
    pub async fn write(&mut self, Batch(parts): Batch) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(_) => {
                for part in parts {
                    self.write_alone(part).await?;
                }
            }
            Self::Postgres(_) => {
                let mut statement = Statement::default();
                for part in parts {
                    if !statement.has_room_for(&part) {
                        self.write_together(std::mem::take(&mut statement)).await?;
                    }
                    statement.add(part);
                }
                self.write_together(statement).await?;
            }
        }
        Ok(())
    }

    async fn write_alone(&mut self, part: Part) -> Result<(), StoreError> {
        let rows = within!(*self, conn => {
            let query = bound!(sqlx::query(AssertSqlSafe(part.text)), part.values);
            query.execute(conn).await.map(|done| done.rows_affected())
        })?;
        part.one_row.map_or(Ok(()), |what| one_row(what, rows))
    }

    async fn write_together(&mut self, statement: Statement) -> Result<(), StoreError> {
        if statement.parts.is_empty() {
            return Ok(());
        }
        let text = statement.text();
        let counts: Vec<(i64, i64)> = within!(*self, conn => {
            bound!(sqlx::query_as(AssertSqlSafe(text)), statement.values).fetch_all(conn).await
        })?;
        for (place, rows) in counts {
            let what = usize::try_from(place).ok().and_then(|place| statement.one_row.get(place).copied().flatten());
            if let Some(what) = what {
                one_row(what, rows.unsigned_abs())?;
            }
        }
        Ok(())
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
    Id: JobId => |id| id.0, UserId => |id| id.0, RequestKey => |key| key.0;
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
