//! Acts after a job's end, by API and by form: who may, what has to be said, and what is not understood.

use domain::{id::JobId, people::Role};
use http::header::{CONTENT_TYPE, ORIGIN};
use serde_json::{Value, json};

use crate::support::{
    ended::{accepted, refused, unanswered},
    site::{KEY, Site},
};

/// An act with its path below `/jobs/{id}` (or of an effect), and what has to be sent with it.
#[derive(Clone, Copy)]
struct Act {
    name: &'static str,
    method: &'static str,
    path: fn(JobId) -> String,
    json: fn() -> Value,
    form: &'static str,
    /// For administrators only.
    admin: bool,
    /// The status of the API where it is done.
    done: u16,
}

/// What needs the job of [`ended`].
const ACTS: [Act; 5] = [
    Act {
        name: "settle",
        method: "PUT",
        path: |id| format!("/effects/{id}/3/decision"),
        json: || json!({"accepted": true, "seen": "bert told me"}),
        form: "outcome=accepted&seen=bert+told+me",
        admin: true,
        done: 200,
    },
    Act {
        name: "withdraw",
        method: "PUT",
        path: |id| format!("/jobs/{id}/withdrawal"),
        json: || json!({"why": "wrong month"}),
        form: "why=wrong+month",
        admin: false,
        done: 200,
    },
    Act {
        name: "correct",
        method: "POST",
        path: |id| format!("/jobs/{id}/corrections"),
        json: || json!({"text": "The sum is wrong."}),
        form: "key=6f9619ff-8b86-4011-b42d-00c04fc964ff&text=The+sum+is+wrong.",
        admin: false,
        done: 201,
    },
    Act {
        name: "send again",
        method: "POST",
        path: |id| format!("/jobs/{id}/emails/3/second-copies"),
        json: || json!({"why": "bert has nothing", "may_duplicate": true}),
        form: "key=6f9619ff-8b86-4011-b42d-00c04fc964ff&why=bert+has+nothing&sure=on",
        admin: false,
        done: 201,
    },
    Act {
        name: "delete",
        method: "PUT",
        path: |id| format!("/jobs/{id}/deletion"),
        json: || json!({"why": "not needed"}),
        form: "why=not+needed",
        admin: false,
        done: 204,
    },
];

impl Act {
    fn api(&self, id: JobId) -> String {
        format!("/api/v1{}", (self.path)(id))
    }

    fn page(&self, id: JobId) -> String {
        let path = (self.path)(id);
        if path.starts_with("/effects") { format!("/admin{path}") } else { path }
    }
}

/// A site with a job of ada's that has ended: anna's e-mail was accepted; bert's is unconfirmed, or refused before a deletion.
async fn ended(act: &str) -> (Site, JobId) {
    let site = Site::new().await;
    let berts = if act == "delete" { refused() } else { unanswered() };
    let id = site.instance.ended(&[("anna@example.org", accepted()), ("bert@example.org", berts)]).await;
    (site, id)
}

#[tokio::test]
async fn each_act_is_for_those_whom_it_concerns() {
    for act in ACTS {
        for who in ["owner", "admin", "other", "nobody"] {
            for by_form in [false, true] {
                let (site, id) = ended(act.name).await;
                let version = site.instance.record(id).await.row.version;
                let person = match who {
                    "owner" => Some(site.instance.owner),
                    "admin" => Some(site.instance.person("admin@example.org", Role::Admin).await),
                    "other" => Some(site.instance.person("anna@example.org", Role::User).await),
                    _ => None,
                };
                let caller = match person {
                    Some(person) if by_form => site.browser(person).await,
                    Some(person) => site.program(person).await,
                    None => site.stranger(),
                };
                let answer = if by_form {
                    caller.fill_in(&act.page(id), act.form).await
                } else {
                    caller.send(act.method, &act.api(id), &(act.json)().to_string()).await
                };
                let expected = match (who, act.admin) {
                    ("admin", _) | ("owner", false) => {
                        if by_form {
                            303
                        } else {
                            act.done
                        }
                    }
                    ("owner" | "other", true) => 403,
                    ("other", false) => 404,
                    _ => {
                        if by_form {
                            303
                        } else {
                            401
                        }
                    }
                };
                let context = format!("{} by {who}, form: {by_form}: {answer:?}", act.name);
                assert_eq!(answer.status.as_u16(), expected, "{context}");
                let done = who == "admin" || (who == "owner" && !act.admin);
                let now = site.instance.store.job(id).await.unwrap();
                assert_eq!(now.is_none_or(|record| record.row.version > version), done, "{context}");
                if !done && expected >= 400 {
                    answer.problem(expected);
                }
                if by_form && done {
                    assert!(!answer.location().contains("said=") || act.name == "delete", "{context}");
                }
                if who == "nobody" && by_form {
                    assert!(answer.location().starts_with("/sign-in"), "{context}");
                }
            }
        }
    }
}

#[tokio::test]
async fn what_is_said_has_a_beginning_and_an_end() {
    for act in ACTS {
        let (site, id) = ended(act.name).await;
        let admin = site.instance.person("admin@example.org", Role::Admin).await;
        let (program, browser) = (site.program(admin).await, site.browser(admin).await);
        let field = match act.name {
            "settle" => "seen",
            "correct" => "text",
            _ => "why",
        };
        let longest = if act.name == "correct" { 4000 } else { 1000 };
        let with = |text: &str| {
            let mut body = (act.json)();
            body[field] = json!(text);
            body.to_string()
        };
        for (text, name, sentence) in [
            (String::new(), "reason_missing", "the text is missing"),
            (" \r\n\t".into(), "reason_missing", "the text is missing"),
            ("ä".repeat(longest + 1), "reason_too_long", "the text is too long"),
        ] {
            let problem = program.send(act.method, &act.api(id), &with(&text)).await.problem(400);
            assert!(problem["detail"].as_str().unwrap().contains(sentence), "{}: {problem}", act.name);
            let (start, _) = act.form.split_once(&format!("{field}=")).unwrap();
            let rest = if act.name == "send again" { "&sure=on" } else { "" };
            let encoded: String = form_urlencoded(&text);
            let answer = browser.fill_in(&act.page(id), &format!("{start}{field}={encoded}{rest}")).await;
            assert!(answer.location().ends_with(&format!("?said={name}")), "{}: {answer:?}", act.name);
        }
        // Nothing of the field at all.
        let mut body = (act.json)();
        body.as_object_mut().unwrap().remove(field);
        program.send(act.method, &act.api(id), &body.to_string()).await.problem(400);
        // As long as it may be, in characters.
        let answer = program.send(act.method, &act.api(id), &with(&"ä".repeat(longest))).await;
        assert_eq!(answer.status.as_u16(), act.done, "{}: {answer:?}", act.name);
    }
}

fn form_urlencoded(text: &str) -> String {
    let digits: Vec<String> = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
    digits.concat()
}

#[tokio::test]
async fn a_body_that_is_not_understood_changes_nothing() {
    for act in ACTS {
        let (site, id) = ended(act.name).await;
        let admin = site.instance.person("admin@example.org", Role::Admin).await;
        let (program, browser) = (site.program(admin).await, site.browser(admin).await);
        let version = site.instance.record(id).await.row.version;
        let mut unknown = (act.json)();
        unknown["because"] = json!("x");
        for body in [unknown.to_string(), "{}".into(), "[]".into(), "why=x".into(), String::new()] {
            program.send(act.method, &act.api(id), &body).await.problem(400);
        }
        let untyped = program.request(act.method, &act.api(id)).header("idempotency-key", KEY);
        site.send(untyped.body((act.json)().to_string().into()).unwrap()).await.problem(400);
        if act.method == "POST" {
            let keyless = program.request("POST", &act.api(id)).header(CONTENT_TYPE, "application/json");
            site.send(keyless.body((act.json)().to_string().into()).unwrap()).await.problem(400);
            browser.fill_in(&act.page(id), "key=nonsense&why=x&text=x").await.problem(400);
        }
        for wrong in [JobId::new().to_string(), "x".into()] {
            let path = act.api(id).replace(&id.to_string(), &wrong);
            program.send(act.method, &path, &(act.json)().to_string()).await.problem(404);
            let path = act.page(id).replace(&id.to_string(), &wrong);
            browser.fill_in(&path, act.form).await.problem(404);
        }
        if act.api(id).contains("/3/") {
            for wrong in ["/9/", "/x/", "/-1/"] {
                let path = act.api(id).replace("/3/", wrong);
                program.send(act.method, &path, &(act.json)().to_string()).await.problem(404);
            }
        }
        assert_eq!(site.instance.record(id).await.row.version, version, "{}", act.name);
    }
}

#[tokio::test]
async fn another_sites_page_cannot_send_them() {
    for act in ACTS {
        let (site, id) = ended(act.name).await;
        let admin = site.instance.person("admin@example.org", Role::Admin).await;
        let browser = site.browser(admin).await;
        let version = site.instance.record(id).await.row.version;
        let foreign = |method: &str, path: String, kind: &str| {
            let request =
                browser.request(method, &path).header(ORIGIN, "https://evil.example").header("sec-fetch-site", "cross-site");
            request.header("idempotency-key", KEY).header(CONTENT_TYPE, kind)
        };
        let form = foreign("POST", act.page(id), "application/x-www-form-urlencoded").body(act.form.into()).unwrap();
        site.send(form).await.problem(403);
        let api = foreign(act.method, act.api(id), "application/json").body((act.json)().to_string().into()).unwrap();
        site.send(api).await.problem(403);
        assert_eq!(site.instance.record(id).await.row.version, version, "{}", act.name);
        assert_ne!(browser.get(&act.page(id)).await.status, 200, "a link does nothing");
    }
}
