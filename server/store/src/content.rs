//! What a job makes: collected documents, the draft, the rendered messages, the saved report. Each is written in the
//! transaction that ends (or begins) a step, through [`JobTx`], so that it exists if and only if that step is done.

use super::{
    JobTx, Store, StoreError,
    db::{read, within},
    text::storable,
};
use chrono::{DateTime, Utc};
use domain::{
    coverage::{Coverage, DocumentOutcome},
    id::{JobId, ReportId},
};
use sqlx::FromRow;

/// One document of the coverage list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectedDocument {
    /// Its number in the report, from 1; only documents that were read have one.
    pub number: Option<u32>,
    pub source: String,
    pub name: String,
    pub title: Option<String>,
    pub sha256: Option<Vec<u8>>,
    /// Its date as people write it.
    pub date: Option<String>,
    pub dated_by: Option<String>,
    pub coverage: Coverage,
    pub text: Option<String>,
}

/// A rendered message.
#[derive(Debug, Clone, FromRow)]
pub struct Message {
    pub sender: String,
    pub recipient: String,
    pub message_id: String,
    pub sha256: Vec<u8>,
    pub bytes: Vec<u8>,
}

/// A saved report.
#[derive(Debug, Clone, FromRow)]
pub struct Report {
    pub id: ReportId,
    pub job_id: JobId,
    pub title: String,
    pub markdown: String,
    pub html: String,
    pub provenance: String,
    pub created_at: DateTime<Utc>,
    /// When it was taken back, by whom and why.
    pub withdrawn_at: Option<DateTime<Utc>>,
    pub withdrawn_by: Option<String>,
    pub withdrawn_why: Option<String>,
}

#[derive(FromRow)]
struct DocumentColumns {
    position: i64,
    number: Option<i64>,
    source: String,
    name: String,
    title: Option<String>,
    sha256: Option<Vec<u8>>,
    date: Option<String>,
    dated_by: Option<String>,
    state: String,
    reason: Option<String>,
    text: Option<String>,
}

impl JobTx {
    /// Forgets what an earlier, unfinished collection has left.
    pub async fn clear_documents(&mut self) -> Result<(), StoreError> {
        let id = self.row().id;
        within!(self.tx, conn => sqlx::query("delete from documents where job_id = $1").bind(id).execute(conn).await.map(drop))?;
        Ok(())
    }

    /// Stores a part of what collecting found, behind the `stored` documents before it. The list counts once its step is done.
    pub async fn insert_documents(&mut self, stored: usize, documents: &[CollectedDocument]) -> Result<(), StoreError> {
        let id = self.row().id;
        let first = i64::try_from(stored).unwrap_or(i64::MAX).saturating_add(1);
        for (position, document) in (first..).zip(documents) {
            let state = document.coverage.outcome.as_str();
            let reason = &document.coverage.reason;
            within!(self.tx, conn => {
                sqlx::query(
                    "insert into documents (job_id, position, number, source, name, title, sha256, date, dated_by, state, reason, text)
                     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
                )
                .bind(id).bind(position).bind(document.number.map(i64::from)).bind(storable(&document.source)).bind(storable(&document.name))
                .bind(document.title.as_deref().map(storable)).bind(&document.sha256).bind(&document.date).bind(&document.dated_by)
                .bind(state).bind(reason.as_deref().map(storable)).bind(document.text.as_deref().map(storable))
                .execute(conn)
                .await
                .map(drop)
            })?;
        }
        Ok(())
    }

    /// Stores the draft of the report.
    pub async fn insert_summary(&mut self, draft: &str) -> Result<(), StoreError> {
        let id = self.row().id;
        within!(self.tx, conn => {
            sqlx::query("insert into summaries (job_id, draft) values ($1, $2)").bind(id).bind(storable(draft)).execute(conn).await.map(drop)
        })?;
        Ok(())
    }

    /// Stores the report.
    pub async fn insert_report(
        &mut self,
        id: ReportId,
        title: &str,
        markdown: &str,
        html: &str,
        provenance: &serde_json::Value,
    ) -> Result<(), StoreError> {
        let (job, now) = (self.row().id, self.now);
        let provenance = provenance.to_string();
        within!(self.tx, conn => {
            sqlx::query(
                "insert into reports (id, job_id, title, markdown, html, provenance, created_at) values ($1, $2, $3, $4, $5, $6, $7)",
            )
            .bind(id).bind(job).bind(storable(title)).bind(storable(markdown)).bind(storable(html)).bind(provenance).bind(now)
            .execute(conn)
            .await
            .map(drop)
        })?;
        Ok(())
    }

    /// Stores a rendered message. It is rendered once: a message that is there already stays as it is.
    pub async fn insert_message(&mut self, number: u32, message: &Message) -> Result<(), StoreError> {
        let (id, now) = (self.row().id, self.now);
        within!(self.tx, conn => {
            sqlx::query(
                "insert into messages (job_id, number, sender, recipient, message_id, sha256, bytes, created_at)
                 values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (job_id, number) do nothing",
            )
            .bind(id).bind(i64::from(number)).bind(&message.sender).bind(&message.recipient).bind(&message.message_id)
            .bind(&message.sha256).bind(&message.bytes).bind(now)
            .execute(conn)
            .await
            .map(drop)
        })?;
        Ok(())
    }
}

impl Store {
    /// The coverage list of a job, with the documents' texts.
    pub async fn documents(&self, job: JobId) -> Result<Vec<CollectedDocument>, StoreError> {
        self.read_documents(job, true, None).await
    }

    /// The coverage list of a job, without the texts.
    pub async fn coverage(&self, job: JobId) -> Result<Vec<CollectedDocument>, StoreError> {
        self.read_documents(job, false, None).await
    }

    async fn read_documents(
        &self,
        job: JobId,
        with_text: bool,
        number: Option<u32>,
    ) -> Result<Vec<CollectedDocument>, StoreError> {
        let rows: Vec<DocumentColumns> = read!(self.db, conn => {
            sqlx::query_as(
                "select position, number, source, name, title, sha256, date, dated_by, state, reason,
                        case when $2 then text end as text
                 from documents where job_id = $1 and ($3 is null or number = $3) order by position",
            )
            .bind(job).bind(with_text).bind(number.map(i64::from))
            .fetch_all(conn)
            .await
        })?;
        rows.into_iter()
            .map(|row| {
                let wrong =
                    |column| StoreError::Inconsistent { table: "documents", column, row: format!("{job}/{}", row.position) };
                Ok(CollectedDocument {
                    number: row.number.map(|n| u32::try_from(n).map_err(|_| wrong("number"))).transpose()?,
                    coverage: Coverage {
                        outcome: DocumentOutcome::from_word(&row.state).ok_or_else(|| wrong("state"))?,
                        reason: row.reason,
                    },
                    source: row.source,
                    name: row.name,
                    title: row.title,
                    sha256: row.sha256,
                    date: row.date,
                    dated_by: row.dated_by,
                    text: row.text,
                })
            })
            .collect()
    }

    /// One numbered document of a report.
    pub async fn document(&self, job: JobId, number: u32) -> Result<Option<CollectedDocument>, StoreError> {
        Ok(self.read_documents(job, true, Some(number)).await?.pop())
    }

    /// The draft that summarizing made.
    pub async fn summary(&self, job: JobId) -> Result<Option<String>, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_scalar("select draft from summaries where job_id = $1").bind(job).fetch_optional(conn).await
        })?)
    }

    /// The rendered message of an effect.
    pub async fn message(&self, job: JobId, number: u32) -> Result<Option<Message>, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_as("select sender, recipient, message_id, sha256, bytes from messages where job_id = $1 and number = $2")
                .bind(job).bind(i64::from(number)).fetch_optional(conn).await
        })?)
    }

    /// A report by its id.
    pub async fn report(&self, id: ReportId) -> Result<Option<Report>, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_as("select id, job_id, title, markdown, html, provenance, created_at, withdrawn_at, withdrawn_by, withdrawn_why
                 from reports where id = $1",
            )
                .bind(id).fetch_optional(conn).await
        })?)
    }

    /// The report of a job, once it is saved.
    pub async fn report_of_job(&self, job: JobId) -> Result<Option<Report>, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_as("select id, job_id, title, markdown, html, provenance, created_at, withdrawn_at, withdrawn_by, withdrawn_why
                 from reports where job_id = $1",
            )
                .bind(job).fetch_optional(conn).await
        })?)
    }
}
