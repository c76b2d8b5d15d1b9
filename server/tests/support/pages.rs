//! What a server has for people and programs, asked over HTTP.

use reqwest::redirect::Policy;
use serde_json::Value;
use std::time::{Duration, Instant};

use super::instance::PATIENCE;

/// A server, by its address.
pub struct Pages {
    pub url: String,
    client: reqwest::Client,
}

impl Pages {
    pub fn at(url: String) -> Self {
        Self { url, client: client(Policy::default()) }
    }

    /// Orders a report for June 2026.
    pub async fn order(&self, token: &str, key: &str, recipients: &[&str]) -> String {
        self.order_held(token, key, recipients, "none").await
    }

    /// Orders a report for June 2026 whose e-mail waits.
    pub async fn order_held(&self, token: &str, key: &str, recipients: &[&str], hold: &str) -> String {
        let body = serde_json::json!({"month": "2026-06", "sources": ["Minutes"], "recipients": recipients, "hold": hold});
        let (status, job) = self.ask(self.client.post(format!("{}/api/v1/jobs", self.url)), token, key, body.to_string()).await;
        assert!(status == 201 || status == 200, "{status} {job}");
        job["id"].as_str().expect("an id").to_owned()
    }

    /// The job as the API tells it.
    pub async fn job(&self, token: &str, id: &str) -> Value {
        let request = self.client.get(format!("{}/api/v1/jobs/{id}", self.url));
        let (status, job) = self.ask(request, token, "", String::new()).await;
        assert_eq!(status, 200, "{job}");
        job
    }

    /// Waits until the job passes a test.
    pub async fn settled(&self, token: &str, id: &str, test: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let job = self.job(token, id).await;
            if test(&job) {
                return job;
            }
            assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain: {job}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Presses Cancel, and waits for the answer.
    pub async fn cancel(&self, token: &str, id: &str) -> Value {
        let request = self.client.put(format!("{}/api/v1/jobs/{id}/cancellation", self.url));
        let (status, answer) = self.ask(request, token, "", String::new()).await;
        assert_eq!(status, 200, "a Cancel is always answered: {answer}");
        answer
    }

    /// Lets a held e-mail go.
    pub async fn approve(&self, token: &str, id: &str) -> Value {
        let (_, job) =
            self.ask(self.client.put(format!("{}/api/v1/jobs/{id}/approval", self.url)), token, "", String::new()).await;
        job
    }

    /// Lets a job of a restored copy go on.
    pub async fn go_on(&self, token: &str, id: &str) -> Value {
        let request = self.client.put(format!("{}/api/v1/jobs/{id}/resumption", self.url));
        let (_, job) = self.ask(request, token, "", r#"{"why": "Nobody has got it."}"#.to_owned()).await;
        job
    }

    /// Signs ada in with a browser of its own.
    pub async fn browser(&self) -> Browser {
        let client = client(Policy::none());
        let form = "email=ada%40example.org&password=correct+horse+battery";
        let request = client.post(format!("{}/sign-in", self.url)).header("content-type", "application/x-www-form-urlencoded");
        let answer = request.body(form).timeout(PATIENCE).send().await.expect("the server answers");
        let cookie = answer.headers()["set-cookie"].to_str().expect("a cookie");
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        Browser { client, url: self.url.clone(), cookie }
    }

    /// The newest job that the token's owner can see.
    pub async fn newest_job(&self, token: &str) -> Option<String> {
        let request = self.client.get(format!("{}/api/v1/jobs", self.url));
        let (_, jobs) = self.ask(request, token, "", String::new()).await;
        jobs["jobs"][0]["id"].as_str().map(str::to_owned)
    }

    /// What the API says of all jobs of the token's owner.
    pub async fn jobs(&self, token: &str) -> Value {
        let request = self.client.get(format!("{}/api/v1/jobs", self.url));
        let (status, jobs) = self.ask(request, token, "", String::new()).await;
        assert_eq!(status, 200, "{jobs}");
        jobs["jobs"].clone()
    }

    /// Asks for a page or for something of the API; it must be there.
    pub async fn get(&self, token: &str, path: &str) {
        let request = self.client.get(format!("{}{path}", self.url)).bearer_auth(token).timeout(PATIENCE);
        assert_eq!(request.send().await.expect("the server answers").status(), 200, "{path}");
    }

    /// The sentence on the job's page.
    pub async fn headline_on_page(&self, token: &str, id: &str) -> String {
        let request = self.client.get(format!("{}/jobs/{id}", self.url)).bearer_auth(token).header("accept", "text/html");
        let page = request.timeout(PATIENCE).send().await.expect("the server answers").text().await.expect("a page");
        headline_of(&page).unwrap_or_else(|| panic!("no headline in {page}"))
    }

    async fn ask(&self, request: reqwest::RequestBuilder, token: &str, key: &str, body: String) -> (u16, Value) {
        let request = request.bearer_auth(token).header("content-type", "application/json").header("idempotency-key", key);
        let response = request.body(body).timeout(PATIENCE).send().await.expect("the server answers");
        let status = response.status().as_u16();
        let text = response.text().await.expect("an answer");
        (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}")))
    }

    /// The stream of a job's events.
    pub async fn events(&self, token: &str, id: &str) -> reqwest::Response {
        let request = self.client.get(format!("{}/api/v1/jobs/{id}/events", self.url)).bearer_auth(token);
        request.send().await.expect("the server answers")
    }

    /// Waits for the end of a job, by its stream of events.
    pub async fn end_of(&self, token: &str, id: &str) -> Value {
        let events = tokio::time::timeout(PATIENCE, async { self.events(token, id).await.text().await });
        events.await.expect("the job ends").expect("the stream ends well");
        let job = self.job(token, id).await;
        assert!(["finished", "cancelled", "failed"].contains(&job["phase"].as_str().expect("a phase")), "{job}");
        job
    }
}

/// A browser without scripts.
pub struct Browser {
    client: reqwest::Client,
    url: String,
    pub cookie: String,
}

impl Browser {
    /// A page, as text.
    pub async fn page(&self, path: &str) -> String {
        let request = self.client.get(format!("{}{path}", self.url)).header("cookie", &self.cookie).header("accept", "text/html");
        request.timeout(PATIENCE).send().await.expect("the server answers").text().await.expect("a page")
    }

    /// The sentence on the job's page.
    pub async fn headline(&self, id: &str) -> String {
        let page = self.page(&format!("/jobs/{id}")).await;
        headline_of(&page).unwrap_or_else(|| panic!("no headline in {page}"))
    }

    /// Presses the page's Cancel.
    pub async fn cancel(&self, id: &str) {
        let request = self.client.post(format!("{}/api/jobs/cancel", self.url)).header("cookie", &self.cookie);
        let request = request.header("content-type", "application/x-www-form-urlencoded").header("accept", "text/html");
        let answer = request.body(format!("id={id}")).timeout(PATIENCE).send().await.expect("the server answers");
        assert!(answer.status().is_redirection(), "{answer:?}");
    }
}

/// A client that trusts no certificate: it speaks plain HTTP only, and reading a machine's certificates takes long.
fn client(redirects: Policy) -> reqwest::Client {
    reqwest::Client::builder().redirect(redirects).tls_certs_only([]).build().expect("a client")
}

/// The text of the element `headline`, without the marks that hydration puts around it.
fn headline_of(page: &str) -> Option<String> {
    let (_, from) = page.split_once("id=\"headline\"")?;
    let (_, from) = from.split_once('>')?;
    let (mut inside, _) = from.split_once("</h2>")?;
    let mut text = String::new();
    while let Some((before, rest)) = inside.split_once("<!") {
        text.push_str(before);
        inside = rest.split_once('>')?.1;
    }
    text.push_str(inside);
    Some(text.trim().to_owned())
}
