//! The effect history: its filters on page, API and exports, one effect, and that nothing in it is ever lost or rewritten.

use chrono::TimeDelta;
use contract::{NotDone, Outcome, StepKind, Verdict};
use domain::{id::JobId, people::Role};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, LOCATION};
use serde_json::{Value, json};

use crate::support::{
    instance::Instance,
    site::{Answer, Caller, Site},
    worker::Running,
};

/// Made at 08:00, one minute apart: a job of ada's whose e-mail to anna is unconfirmed and whose e-mail to bert was refused
/// with words like a formula, and a job of bea's that is mailed to anna without a hitch.
struct Office {
    site: Site,
    /// ada's
    doubtful: JobId,
    /// bea's
    smooth: JobId,
}

impl Office {
    async fn new() -> Self {
        let site = Site::new().await;
        let instance = &site.instance;
        instance.two_documents();
        let claim = instance.job_at(StepKind::Email, &["Anna@example.org", "bert@example.org"]).await;
        let settle = |number, verdict| move |job: &mut contract::Job| job.settle(claim.epoch, number, verdict);
        instance.change(claim.id, |job| job.begin_effect(claim.epoch, 2)).await.unwrap();
        instance.change(claim.id, |job| job.doubt(claim.epoch, 2)).await.unwrap();
        instance.clock.advance(TimeDelta::minutes(1));
        instance.change(claim.id, settle(2, Verdict::Unconfirmed("no answer within 10 min".into()))).await.unwrap();
        for (seconds, verdict) in [
            (1, Verdict::NotDone(NotDone::Unreached, "451 4.7.1 try later".into())),
            (2, Verdict::NotDone(NotDone::Refused, "=550 5.1.1 no such user".into())),
        ] {
            instance.change(claim.id, |job| job.begin_effect(claim.epoch, 3)).await.unwrap();
            instance.clock.advance(TimeDelta::seconds(seconds));
            instance.change(claim.id, settle(3, verdict)).await.unwrap();
        }
        instance.complete(&claim, StepKind::Email).await.unwrap();

        instance.clock.advance(TimeDelta::minutes(1));
        let bea = instance.person("bea@example.org", Role::User).await;
        let mut spec = instance.spec(&["anna@example.org"]);
        spec.month = "2026-05".parse().unwrap();
        instance.document("2026-05-02-may.md", "# May\n\nThe council met and approved 7,000 dollars.\n");
        let (smooth, _) = instance.store.create_job(bea, domain::id::RequestKey::new(), &spec).await.unwrap();
        let worker = Running::start(instance.dependencies());
        instance.wait_for_end(smooth).await;
        worker.stop().await;
        Self { doubtful: claim.id, smooth, site }
    }

    async fn admin(&self) -> Caller<'_> {
        let admin = self.site.instance.person("admin@example.org", Role::Admin).await;
        self.site.program(admin).await
    }

    /// What an effect is called in [`listed`].
    fn name(&self, job: &Value) -> &'static str {
        if *job == json!(self.doubtful.to_string()) { "doubtful" } else { "smooth" }
    }

    /// The effects of a list, such as "smooth/2".
    fn listed(&self, rows: &Value) -> Vec<String> {
        rows.as_array().unwrap().iter().map(|row| format!("{}/{}", self.name(&row["job"]), row["number"])).collect()
    }

    /// The effects that the API and the JSON export show for a query; both must be the same.
    async fn found(&self, admin: &Caller<'_>, query: &str) -> Vec<String> {
        let told = admin.get(&format!("/api/v1/effects?{query}")).await.json();
        let mut found = [self.listed(&told["open"]), self.listed(&told["rows"])].concat();
        let mut exported = self.listed(&admin.get(&format!("/admin/effects.json?{query}")).await.json());
        let in_order = found.clone();
        found.sort();
        exported.sort();
        assert_eq!(exported, found, "{query}");
        in_order
    }
}

#[tokio::test]
async fn open_effects_come_first_and_the_others_by_their_latest_change() {
    let office = Office::new().await;
    let admin = office.admin().await;
    let told = admin.get("/api/v1/effects").await.json();
    assert_eq!(office.listed(&told["open"]), ["doubtful/2"]);
    assert_eq!(office.listed(&told["rows"]), ["smooth/2", "smooth/1", "doubtful/3", "doubtful/1"]);
    let open = &told["open"][0];
    assert_eq!((&open["outcome"], &open["kind"]), (&json!("unconfirmed"), &json!("email")));
    assert_eq!(open["path"], format!("/admin/effects/{}/2", office.doubtful));
    assert_eq!(open["job_path"], format!("/jobs/{}", office.doubtful));
    assert_eq!(open["owner"], "ada@example.org");
    assert_eq!(open["evidence"], "no answer within 10 min");
}

#[tokio::test]
async fn each_filter_finds_what_it_names_and_nothing_else() {
    let office = Office::new().await;
    let admin = office.admin().await;
    let record = office.site.instance.record(office.doubtful).await;
    let id = &record.message_ids[&3];
    let bare = id.trim_matches(['<', '>']);
    for (query, expected) in [
        ("outcome=unconfirmed".to_owned(), &["doubtful/2"][..]),
        ("outcome=done&kind=report".into(), &["smooth/1", "doubtful/1"]),
        (format!("job={}", office.smooth), &["smooth/2", "smooth/1"]),
        ("person=BEA@example.org".into(), &["smooth/2", "smooth/1"]),
        ("person=nobody@example.org".into(), &[]),
        ("recipient=anna@example.org".into(), &["doubtful/2", "smooth/2"]),
        ("recipient=ANNA%40example.org&person=ada%40example.org".into(), &["doubtful/2"]),
        ("month=2026-05".into(), &["smooth/2", "smooth/1"]),
        ("month=2026-06&kind=email".into(), &["doubtful/2", "doubtful/3"]),
        (format!("message_id={bare}"), &["doubtful/3"]),
        (format!("message_id=%3C{bare}%3E"), &["doubtful/3"]),
        ("message_id=other@example.org".into(), &[]),
        ("outcome=not_started".into(), &[]),
    ] {
        assert_eq!(office.found(&admin, &query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn days_are_half_open_in_the_readers_zone() {
    let office = Office::new().await;
    let admin = office.admin().await;
    // It is the first of July; the day begins at 22:00 UTC of the day before for the reader in Berlin.
    assert_eq!(office.found(&admin, "from=2026-07-01&to=2026-07-02").await.len(), 5);
    assert_eq!(office.found(&admin, "from=2026-07-02").await, [""; 0]);
    assert_eq!(office.found(&admin, "to=2026-07-01").await, [""; 0]);
    let instance = &office.site.instance;
    let late = instance.job(&["anna@example.org"]).await;
    let midnight: chrono::DateTime<chrono::Utc> = "2026-07-01T22:00:00Z".parse().unwrap();
    instance.clock.advance(midnight - instance.store.clock().now());
    let claim = instance.claim("worker-9").await.unwrap();
    assert_eq!(claim.id, late);
    instance.complete(&claim, StepKind::Collect).await.unwrap();
    let number = instance.change(late, |job| job.begin_model_call(claim.epoch)).await.unwrap();
    assert_eq!(office.found(&admin, "from=2026-07-02").await, [format!("smooth/{number}")], "at midnight it is the second");
    assert_eq!(office.found(&admin, "to=2026-07-02&kind=model_call").await, [""; 0]);
}

#[tokio::test]
async fn an_intent_that_was_never_begun_is_listed_only_where_it_is_asked_for() {
    let office = Office::new().await;
    let admin = office.admin().await;
    let waiting = office.site.instance.job(&["carl@example.org"]).await;
    assert_eq!(office.found(&admin, &format!("job={waiting}")).await, [""; 0]);
    assert_eq!(office.found(&admin, &format!("job={waiting}&outcome=not_started")).await.len(), 2);
    let told = admin.get(&format!("/api/v1/effects/{waiting}/2")).await.json();
    assert_eq!((&told["outcome"], &told["attempts"]), (&json!("not_started"), &json!([])));
}

#[tokio::test]
async fn a_filter_that_cannot_be_read_is_a_sentence() {
    let office = Office::new().await;
    let browser = office.site.browser(office.site.instance.person("admin@example.org", Role::Admin).await).await;
    let path = "month=June&from=yesterday&message_id=%3Cx%26y%3E";
    let page = browser.get(&format!("/admin/effects?{path}")).await;
    assert_eq!(page.status, 200);
    for sentence in ["Write the month as YYYY-MM", "is not a day. Write it as YYYY-MM-DD", "That is not a whole Message-ID"] {
        assert!(page.text.contains(sentence), "{sentence} is missing");
    }
    assert!(!page.text.contains("E-mail to") && !page.text.contains("Export as"), "{}", page.text);
    assert!(page.text.contains("value=\"&lt;x&amp;y&gt;\"") || page.text.contains("value=\"<x&amp;y>\""), "{}", page.text);
    let problem = browser.get(&format!("/api/v1/effects?{path}")).await.problem(400);
    let fields: Vec<_> = problem["errors"].as_array().unwrap().iter().map(|error| error["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["month", "from", "message_id"]);
    for place in ["/admin/effects.csv", "/admin/effects.json"] {
        let page = browser.get(&format!("{place}?{path}")).await;
        page.page(400, "That could not be read");
        assert!(page.text.contains("Write the month as YYYY-MM"), "{page:?}");
    }
    browser.get("/api/v1/effects?before=nonsense").await.problem(400);
    browser.get("/api/v1/effects?kind=email&kind=report").await.problem(400);
    assert_eq!(browser.get("/admin/effects?before=nonsense").await.status, 200);
}

#[tokio::test]
async fn the_page_works_without_a_script() {
    let office = Office::new().await;
    let browser = office.site.browser(office.site.instance.person("admin@example.org", Role::Admin).await).await;
    let page = browser.get("/admin/effects?recipient=anna%40example.org&kind=email").await.text;
    assert!(page.contains("value=\"anna@example.org\"") && page.contains("Open (1)"), "{page}");
    assert!(page.contains("/admin/effects.csv?kind=email&amp;recipient=anna%40example.org"), "{page}");
    assert!(page.contains(&format!("/admin/effects/{}/2", office.doubtful)), "{page}");
    assert!(!page.contains("bert@example.org"), "{page}");
    assert!(page.contains("1 unconfirmed"), "the navigation counts it");

    let one = browser.get(&format!("/admin/effects/{}/3", office.doubtful)).await;
    assert_eq!(one.status, 200);
    for text in ["E-mail to bert@example.org", "Attempt 1", "451 4.7.1 try later", "Attempt 2", "=550 5.1.1 no such user"] {
        assert!(one.text.contains(text), "{text} is missing in {}", one.text);
    }
    let job = browser.get(&format!("/jobs/{}", office.doubtful)).await.text;
    assert!(job.contains(&format!("href=\"/admin/effects/{}/3\"", office.doubtful)), "{job}");
    let ada = office.site.browser(office.site.instance.owner).await;
    assert!(
        !ada.get(&format!("/jobs/{}", office.doubtful)).await.text.contains("/admin/effects"),
        "only administrators get links"
    );
}

#[tokio::test]
async fn one_effect_is_told_with_every_attempt_and_entry() {
    let office = Office::new().await;
    let admin = office.admin().await;
    let told = admin.get(&format!("/api/v1/effects/{}/3", office.doubtful)).await.json();
    assert_eq!((&told["what"], &told["outcome_text"]), (&json!("E-mail to bert@example.org"), &json!("refused")));
    let replies: Vec<_> = told["attempts"].as_array().unwrap().iter().map(|attempt| &attempt["reply"]).collect();
    assert_eq!(replies, [&json!("451 4.7.1 try later"), &json!("=550 5.1.1 no such user")]);
    assert_eq!(told["attempts"][0]["began"]["iso"], "2026-07-01T08:01:00.000Z");
    assert_eq!(told["attempts"][0]["ended"]["iso"], "2026-07-01T08:01:01.000Z");
    assert_eq!(told["attempts"][0]["in_doubt"], json!(null));
    let history: Vec<_> = told["history"].as_array().unwrap().iter().map(|line| line["text"].as_str().unwrap()).collect();
    let prefixed = ["in flight", "not sent", "in flight", "not sent"].map(|word| format!("E-mail to bert@example.org: {word}"));
    assert_eq!(history, prefixed);

    let doubted = admin.get(&format!("/api/v1/effects/{}/2", office.doubtful)).await.json();
    assert_eq!(doubted["attempts"][0]["in_doubt"]["iso"], "2026-07-01T08:00:00.000Z");
    let sent = admin.get(&format!("/api/v1/effects/{}/2", office.smooth)).await.json();
    let facts = sent["facts"].as_array().unwrap();
    assert!(
        facts.iter().any(|fact| fact["term"] == "Message" && fact["text"].as_str().unwrap().contains("SHA-256")),
        "{facts:?}"
    );
    for wrong in [format!("{}/9", office.doubtful), format!("{}/x", office.doubtful), format!("{}/1", JobId::new()), "x/1".into()]
    {
        admin.get(&format!("/api/v1/effects/{wrong}")).await.problem(404);
    }
}

#[tokio::test]
async fn only_administrators_see_it() {
    let office = Office::new().await;
    let (ada, program) =
        (office.site.browser(office.site.instance.owner).await, office.site.program(office.site.instance.owner).await);
    let one = format!("/admin/effects/{}/2", office.doubtful);
    for path in ["/admin/effects", &one] {
        assert_eq!(ada.get(path).await.status, 403, "{path}");
    }
    for path in ["/admin/effects.csv", "/admin/effects.json"] {
        ada.get(path).await.page(403, "Not for you to do");
        assert!(
            office.site.stranger().get(path).await.headers[LOCATION].to_str().unwrap().starts_with("/sign-in?next="),
            "{path}"
        );
    }
    // Nor are the effects of their own job told apart from those of others.
    for path in ["/api/v1/effects".into(), "/admin/effects.csv?month=x".into(), format!("/api/v1/effects/{}/2", office.doubtful)]
    {
        program.get(&path).await.problem(403);
    }
    office.site.stranger().get(&format!("/api/v1/effects/{}/2", office.doubtful)).await.problem(401);
}

fn header<'a>(answer: &'a Answer, name: &http::HeaderName) -> &'a str {
    answer.headers[name].to_str().unwrap()
}

#[tokio::test]
async fn a_csv_file_holds_no_formula() {
    let office = Office::new().await;
    let admin = office.admin().await;
    let file = admin.get("/admin/effects.csv?kind=email").await;
    assert_eq!(file.status, 200);
    assert!(header(&file, &CONTENT_TYPE).starts_with("text/csv; charset=utf-8"), "{file:?}");
    assert_eq!(header(&file, &CONTENT_DISPOSITION), "attachment; filename=\"effects-2026-07-01.csv\"");
    let mut reader = csv::Reader::from_reader(file.text.as_bytes());
    let evidence = reader.headers().unwrap().iter().position(|name| name == "evidence").unwrap();
    let cells: Vec<_> = reader.records().map(|row| row.unwrap()[evidence].to_owned()).collect();
    assert_eq!(cells.len(), 3);
    assert_eq!(cells[1], "'=550 5.1.1 no such user");
    let exact = admin.get("/admin/effects.json?kind=email").await;
    assert_eq!(header(&exact, &CONTENT_DISPOSITION), "attachment; filename=\"effects-2026-07-01.json\"");
    assert_eq!(exact.json()[1]["evidence"], "=550 5.1.1 no such user");
}

/// Adds effects of jobs that are deleted, which look the same to the list as any.
async fn add_old_effects(instance: &Instance, open: i64, settled: i64) {
    let mut raw = instance.raw().await;
    let some_id = raw.either("randomblob(16)", "gen_random_uuid()");
    let early = "2026-06-01T08:00:00+00:00";
    let late = "2026-06-01T08:00:00.500+00:00";
    let instant = raw.either("", "::timestamptz");
    raw.run(&format!(
        "with recursive n (i) as (select 1 union all select i + 1 from n where i < {open} + {settled})
         insert into effects (job_id, number, kind, outcome, attempts, epoch, evidence, target, created_at, changed_at,
                              job_kind, job_title, job_month, owner_email)
         select {some_id}, 1, 'model_call', case when i <= {open} then 'unconfirmed' else 'done' end, 1, 1, 'answered', 'm' || i,
                '{early}', (case when i % 2 = 1 then '{early}' else '{late}' end){instant},
                'report', 'Minutes', '2026-05', 'ada@example.org' from n"
    ))
    .await;
}

#[tokio::test]
async fn pages_go_on_where_the_last_one_ended_and_keep_the_filters() {
    let site = Site::new().await;
    add_old_effects(&site.instance, 120, 230).await;
    let admin = site.instance.person("admin@example.org", Role::Admin).await;
    let admin = site.program(admin).await;
    let (mut open, mut settled, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    let mut path = "/admin/effects?kind=model_call&to=2026-06-02".to_owned();
    loop {
        let told = admin.get(&path.replace("/admin/", "/api/v1/")).await.json();
        let targets = |rows: &Value| -> Vec<_> {
            rows.as_array().unwrap().iter().map(|row| row["what"].as_str().unwrap().to_owned()).collect()
        };
        let (first, second) = (targets(&told["open"]), targets(&told["rows"]));
        lengths.push((first.len(), second.len()));
        open.extend(first);
        settled.extend(second);
        let Some(older) = told["older_path"].as_str() else { break };
        assert!(lengths.len() < 10, "the list goes on for ever: {older}");
        assert!(older.starts_with("/admin/effects?kind=model_call&to=2026-06-02&before="), "{older}");
        older.clone_into(&mut path);
    }
    assert_eq!(lengths, [(50, 0), (50, 0), (20, 50), (0, 50), (0, 50), (0, 50), (0, 30)]);
    for (mut all, expected) in [(open, 120), (settled, 230)] {
        all.sort();
        all.dedup();
        assert_eq!(all.len(), expected, "each effect is listed exactly once");
    }
}

#[tokio::test]
async fn an_export_of_any_length_is_whole() {
    for length in [0, 499, 500, 501, 1300] {
        let site = Site::new().await;
        if length > 0 {
            add_old_effects(&site.instance, 1, length - 1).await;
        }
        let admin = site.instance.person("admin@example.org", Role::Admin).await;
        let admin = site.program(admin).await;
        let expected = usize::try_from(length).unwrap();
        let exported = admin.get("/admin/effects.json").await.json();
        let mut targets: Vec<_> = exported.as_array().unwrap().iter().map(|row| row["target"].as_str().unwrap()).collect();
        targets.sort_unstable();
        targets.dedup();
        assert_eq!(targets.len(), expected);
        let file = admin.get("/admin/effects.csv").await.text;
        assert_eq!(csv::Reader::from_reader(file.as_bytes()).records().map(Result::unwrap).count(), expected);
        assert_eq!(file.matches("message_id").count(), 1, "one line of names");
    }
}

#[tokio::test]
async fn nothing_that_happened_can_be_deleted_or_rewritten() {
    let office = Office::new().await;
    let instance = &office.site.instance;
    let mut raw = instance.raw().await;
    for (statement, why) in [
        ("delete from effects where job_id = $1", "effects are never deleted"),
        ("delete from effects where job_id = $1 and outcome = 'unconfirmed'", "effects are never deleted"),
        ("update effects set evidence = 'x' where job_id = $1 and outcome = 'done'", "an effect that is done never changes"),
        (
            "update effects set target = 'x' where job_id = $1 and outcome = 'unconfirmed'",
            "the intent of an effect never changes",
        ),
        (
            "update effects set message_id = null where job_id = $1 and outcome = 'not_done'",
            "the intent of an effect never changes",
        ),
        ("delete from attempts where job_id = $1", "attempts are never deleted"),
        ("update attempts set evidence = 'x' where job_id = $1 and outcome = 'done'", "an attempt that is settled never changes"),
        (
            "update attempts set outcome = 'done' where job_id = $1 and outcome = 'not_done'",
            "an attempt that is settled never changes",
        ),
        ("delete from history where job_id = $1 and effect = 2", "entries about effects are never deleted"),
        ("update history set entry = 'x' where job_id = $1", "the history never changes"),
    ] {
        assert_eq!(raw.refusal(statement, office.doubtful).await, why, "{statement}");
    }
    // An unconfirmed one may still be settled.
    let change = |job: &mut contract::Job| job.reconcile(2, Verdict::Done("seen in the archive".into()));
    instance.change(office.doubtful, change).await.unwrap();
    assert_eq!(instance.record(office.doubtful).await.job.effect(2).unwrap().outcome, Outcome::Done);
}

#[tokio::test]
async fn the_effects_of_a_deleted_job_stay() {
    let office = Office::new().await;
    let admin = office.admin().await;
    let mut raw = office.site.instance.raw().await;
    for statement in ["delete from reports where job_id = $1", "delete from jobs where id = $1"] {
        raw.tamper(statement, office.doubtful).await.unwrap();
    }
    let query = format!("job={}", office.doubtful);
    assert_eq!(office.found(&admin, &query).await, ["doubtful/2", "doubtful/3", "doubtful/1"]);
    let told = admin.get(&format!("/api/v1/effects/{}/3", office.doubtful)).await.json();
    assert_eq!(
        (&told["job_title"], &told["job_path"], &told["owner"]),
        (&json!("Minutes, June 2026"), &json!(null), &json!("ada@example.org"))
    );
    assert_eq!((told["attempts"].as_array().unwrap().len(), told["history"].as_array().unwrap().len()), (2, 4));
    let left = raw.number_of("select count(*) from history where job_id = $1 and effect is null", office.doubtful).await;
    assert_eq!(left, 0, "what was only about the job goes with it");
}
