//! Who sees a Message-ID. By it an e-mail that nobody knows about is found in a mailbox or a log, so whoever profits from a proof
//! must not know it: until the e-mail is accepted it is for administrators only, on every face.

use contract::{NotDone, StepKind, Verdict};
use domain::{id::JobId, people::Role};

use crate::support::{
    ended::ordered,
    site::{Caller, Site},
};

const RECIPIENTS: &[&str] = &["anna@example.org", "bert@example.org", "carl@example.org"];

/// A job of ada's with an e-mail that was accepted, one that is unconfirmed and one that was given up, with their Message-IDs
/// without angle brackets. The mail server has repeated each in what it said.
async fn ended(site: &Site) -> (JobId, [String; 3]) {
    let instance = &site.instance;
    let claim = instance.job_at(StepKind::Email, RECIPIENTS).await;
    instance.render(claim.id).await;
    let record = instance.record(claim.id).await;
    let ids = [2, 3, 4].map(|number| record.message_ids[&number].trim_matches(['<', '>']).to_owned());
    for (number, id) in (2..).zip(&ids) {
        let said = format!("250 2.6.0 <{id}> [InternalId=7] Queued mail for delivery");
        let verdict = match number {
            2 => Verdict::Done(said),
            3 => Verdict::Unconfirmed(format!("two replies: {said} and 550")),
            _ => Verdict::NotDone(NotDone::GaveUp, format!("451 4.7.1 not now: <{id}>")),
        };
        instance.hand_over(claim.id, claim.epoch, number).await;
        instance.change(claim.id, |job| job.settle(claim.epoch, number, verdict)).await.unwrap();
        let mut change = instance.store.change_job(claim.id).await.unwrap().unwrap();
        change.note_on(number, format!("The worker's answer came late: 250 <{id}>"));
        change.commit().await.unwrap();
    }
    instance.complete(&claim, StepKind::Email).await.unwrap();
    (claim.id, ids)
}

/// Which of the ids somebody finds on any face.
async fn seen(who: &Caller<'_>, paths: &[String], ids: &[String; 3]) -> [bool; 3] {
    let mut text = String::new();
    for path in paths {
        text += &who.get(path).await.text;
    }
    ids.each_ref().map(|id| text.contains(id.as_str()))
}

#[tokio::test]
async fn the_message_id_of_an_e_mail_that_is_not_accepted_is_for_administrators_only() {
    let site = Site::new().await;
    let (id, ids) = ended(&site).await;
    let admin = site.instance.person("admin@example.org", Role::Admin).await;
    let mut paths = vec![format!("/api/v1/jobs/{id}"), format!("/jobs/{id}"), "/api/v1/jobs".into(), "/jobs".into(), "/".into()];
    paths.extend(["effects.json", "effects.csv", "effects"].map(|list| format!("/admin/{list}")));
    paths.extend((1..=4).map(|number| format!("/admin/effects/{id}/{number}")));
    paths.extend(["/api/v1/effects".into(), format!("/api/v1/effects/{id}/3")]);
    for owner in [site.program(site.instance.owner).await, site.browser(site.instance.owner).await] {
        assert_eq!(seen(&owner, &paths, &ids).await, [true, false, false]);
    }
    for admin in [site.program(admin).await, site.browser(admin).await] {
        assert_eq!(seen(&admin, &paths, &ids).await, [true; 3]);
    }
    let told = site.program(site.instance.owner).await.get(&format!("/api/v1/jobs/{id}")).await.json();
    let evidence: Vec<_> = told["effects"].as_array().unwrap().iter().map(|effect| effect["evidence"].to_string()).collect();
    assert!(evidence[2].contains("250 2.6.0 <(Message-ID)> [InternalId=7]"), "{evidence:?}");
}

#[tokio::test]
async fn a_mailing_shows_no_more_than_its_job() {
    let site = Site::new().await;
    let (id, ids) = ended(&site).await;
    let copy = ordered(site.instance.second_copy(id, 3).await);
    let paths = [format!("/api/v1/jobs/{copy}"), format!("/jobs/{copy}"), format!("/jobs/{id}"), format!("/api/v1/jobs/{id}")];
    let owner = site.program(site.instance.owner).await;
    assert_eq!(seen(&owner, &paths, &ids).await, [true, false, false], "it waits");
    site.instance.mail(copy, Verdict::Unconfirmed("no answer".into())).await;
    assert_eq!(seen(&owner, &paths, &ids).await, [true, false, false], "it is unconfirmed as well");
}
