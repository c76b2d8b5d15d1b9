//! `recount serve`: started, stopped and killed while a job is under way.

use crate::support::{
    instance::PATIENCE,
    model_server::{ModelServer, Reaction::Flood, THINKING},
    program::Home,
    smtp_server::{
        Act::{Hang, Hold},
        Script, Server,
    },
};

const ONE: &[&str] = &["anna@example.org"];

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_says_where_it_is_and_how_to_sign_in() {
    let home = Home::new();
    let served = home.serve(&["--demo"]).await;
    assert!(served.url.starts_with("http://127.0.0.1:"), "{}", served.url);
    assert_eq!(served.line(), "Sign in as admin: admin@example.org with the password demo-admin-password");
    assert_eq!(served.line(), "Sign in as user: user@example.org with the password demo-user-password");

    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let form = "email=user%40example.org&password=demo-user-password";
    let request = client.post(format!("{}/sign-in", served.url)).header("content-type", "application/x-www-form-urlencoded");
    let answer = request.body(form).send().await.unwrap();
    assert_eq!(answer.status(), 303);
    let cookie = answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let page = client.get(&served.url).header("cookie", cookie).send().await.unwrap().text().await.unwrap();
    assert!(page.contains("Team minutes") && page.contains("Business papers"), "{page}");
    assert!(!page.contains("The job would fail"), "the form opens on a month with documents");
    served.terminate().await;

    // A second start finds what is there.
    home.serve(&["--demo"]).await.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_can_sign_in_a_code_makes_the_first_admin() {
    let home = Home::new();
    let served = home.serve(&[]).await;
    let line = served.line();
    let (before, code) = line.rsplit_once(' ').unwrap();
    assert!(before.starts_with("Nobody can sign in yet. Open ") && before.ends_with("with the code"), "{line}");
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let set_up = async |code: &str| {
        let request = client.post(format!("{}/setup", served.url)).header("content-type", "application/x-www-form-urlencoded");
        let form = format!("code={code}&email=ada%40example.org&password=correct+horse+battery");
        request.body(form).send().await.unwrap().status().as_u16()
    };
    assert_eq!(set_up("0000-0000").await, 400);
    assert_eq!(set_up(code).await, 303);
    assert_eq!(set_up(code).await, 400);
    home.run(&["token", "create", "--email", "ada@example.org"]).await.succeeded();
    served.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_cancels_a_job_of_the_server() {
    let smtp = Server::start(Script { rcpt: Hang, ..Script::default() });
    let home = Home::with_smtp(smtp.port);
    let token = home.token("ada@example.org").await;
    let served = home.serve(&[]).await;
    let id = served.order(&token, "june", ONE).await;
    assert_eq!(served.order(&token, "june", ONE).await, id);
    smtp.reached().await;
    let cancelled = home.run(&["cancel", &id]).await;
    assert!(cancelled.succeeded().starts_with("Cancel accepted. "), "{cancelled:?}");
    let job = served.end_of(&token, &id).await;
    assert_eq!(job["headline"], "Cancelled. Report saved; email not sent");
    assert_eq!(job["cancel"]["by"], "the command line");
    // The mail server still hangs: this returns because the connection was closed.
    smtp.closed().await;
    assert_eq!(smtp.commits(), 0);

    let again = home.run(&["cancel", &id]).await;
    assert_eq!(again.succeeded(), "Cancel had been asked for before. Cancelled. Report saved; email not sent\n");
    served.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_survives_a_restart_of_the_server() {
    let smtp = Server::start_each(vec![Script { rcpt: Hang, ..Script::default() }, Script::default()]);
    let home = Home::with_smtp(smtp.port);
    let token = home.token("ada@example.org").await;
    let served = home.serve(&[]).await;
    let id = served.order(&token, "june", ONE).await;
    smtp.reached().await;
    served.terminate().await;
    assert_eq!(smtp.commits(), 0);

    let served = home.serve(&[]).await;
    let job = served.end_of(&token, &id).await;
    assert_eq!(job["headline"], "Report saved; email accepted by the mail service");
    served.terminate().await;
    assert_eq!(smtp.commits(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_cut_before_the_final_dot_costs_no_message() {
    let smtp = Server::start_each(vec![Script { data: Hang, ..Script::default() }, Script::default()]);
    let home = Home::with_smtp(smtp.port);
    let token = home.token("ada@example.org").await;
    let served = home.serve(&[]).await;
    let id = served.order(&token, "june", ONE).await;
    smtp.reached().await;
    served.kill().await;

    let served = home.serve(&[]).await;
    let job = served.end_of(&token, &id).await;
    assert_eq!(job["headline"], "Report saved; email accepted by the mail service");
    served.terminate().await;
    assert_eq!(smtp.commits(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_cut_after_the_final_dot_leaves_the_message_unconfirmed_and_is_not_sent_again() {
    let smtp = Server::start_each(vec![Script { dot: Hold(b"250 ok\r\n"), ..Script::default() }, Script::default()]);
    let home = Home::with_smtp(smtp.port);
    let token = home.token("ada@example.org").await;
    let served = home.serve(&[]).await;
    let id = served.order(&token, "june", ONE).await;
    smtp.reached().await;
    served.kill().await;

    let served = home.serve(&[]).await;
    let job = served.end_of(&token, &id).await;
    assert_eq!(job["headline"], "Report saved; email outcome unconfirmed");
    let told = job["effects"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&told["outcome"], &told["attempts"]), (&"unconfirmed".into(), &1.into()), "{told}");
    served.terminate().await;
    smtp.finished().await;
    let named = smtp.lines().iter().filter(|line| line.starts_with("RCPT")).count();
    assert_eq!((smtp.commits(), named), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_ends_open_event_streams() {
    let smtp = Server::start_each(vec![Script { rcpt: Hang, ..Script::default() }, Script::default()]);
    let home = Home::with_smtp(smtp.port);
    let token = home.token("ada@example.org").await;
    let served = home.serve(&[]).await;
    let id = served.order(&token, "june", ONE).await;
    smtp.reached().await;
    let request = reqwest::Client::new().get(format!("{}/api/v1/jobs/{id}/events", served.url)).bearer_auth(&token);
    let response = request.send().await.unwrap();
    let stream = tokio::spawn(async move { response.text().await });
    served.terminate().await;
    let events = tokio::time::timeout(PATIENCE, stream).await.expect("it ends").unwrap().expect("it ends well");
    assert!(events.starts_with("event: job\n"), "{events}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_programs_on_one_database_send_each_message_once() {
    const ACCEPTED: &str = "Report saved; email accepted by the mail service";
    let smtp = Server::start_each(vec![Script { dot: Hold(b"250 ok\r\n"), ..Script::default() }, Script::default()]);
    let home = Home::with_smtp(smtp.port);
    let token = home.token("ada@example.org").await;
    let first = home.serve(&[]).await;
    let slow = first.order(&token, "slow", ONE).await;
    smtp.reached().await;
    // The second one starts, looks for the jobs of dead workers, and has to leave this one alone.
    let second = home.serve(&[]).await;
    let mut jobs = Vec::new();
    for n in 0..6 {
        let key = format!("report {n}");
        let (id, same) = tokio::join!(first.order(&token, &key, ONE), second.order(&token, &key, ONE));
        assert_eq!(id, same, "an order that comes to both is one job");
        jobs.push(id);
    }
    for id in &jobs {
        assert_eq!(second.end_of(&token, id).await["headline"], ACCEPTED);
    }
    assert_eq!(second.job(&token, &slow).await["headline"], "E-mailing the link (0 of 1)");
    smtp.release();
    let job = second.end_of(&token, &slow).await;
    assert_eq!(job["headline"], ACCEPTED);
    first.terminate().await;
    second.terminate().await;
    smtp.finished().await;
    let named = smtp.lines().iter().filter(|line| line.starts_with("RCPT")).count();
    assert_eq!((smtp.commits(), named), (7, 7));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_ends_beside_a_model_that_floods_and_so_does_a_cancel() {
    let mut model = ModelServer::start(vec![Flood(200, THINKING)]).await;
    let home = Home::new();
    home.settings(&format!(
        "[[sources]]\nname = \"Minutes\"\npath = \"{}\"\n[worker]\nlease_seconds = 3\ngrace_seconds = 1\n\
         [model]\nprovider = \"open-ai-compatible\"\nmodel = \"test-model\"\nbase_url = \"{}\"\n",
        home.documents().display(),
        model.base_url(),
    ));
    let token = home.token("ada@example.org").await;
    let served = home.serve(&[]).await;
    let id = served.order(&token, "june", ONE).await;
    model.holding().await;
    served.terminate().await;
    model.left().await;

    // The next start takes the job up again, and the flood too; also after a power cut.
    let served = home.serve(&[]).await;
    model.holding().await;
    served.kill().await;
    model.left().await;
    let served = home.serve(&[]).await;
    model.holding().await;
    served.cancel(&token, &id).await;
    let job = served.end_of(&token, &id).await;
    assert_eq!(job["headline"], "Cancelled. Nothing was saved or sent");
    served.terminate().await;
}
