//! What may still be done about a job that has ended. A cancel undoes nothing and neither does any of this: each is something
//! new, with an outcome of its own.
//!
//! Plain forms, folded. Each part watches only whether it is offered, so a record that arrives meanwhile leaves what somebody
//! is writing alone.

use super::live::Live;
use crate::{
    model::{JobView, MAX_CORRECTION, MAX_REASON},
    pages::send_again::SendAgain,
    ui::{Act, FoldedAct},
};
use contract::EffectKind;
use leptos::prelude::*;

/// The numbers of the job's messages; they never change.
fn messages(job: &JobView) -> Vec<u32> {
    job.effects.iter().filter(|effect| effect.kind == EffectKind::Email).map(|effect| effect.number).collect()
}

/// The section, where anything is offered.
#[component]
pub fn Afterwards(live: Live) -> impl IntoView {
    let any = live.part(|job| !job.afterwards.is_empty());
    let numbers = live.part(messages);
    let may_withdraw = live.part(|job| job.afterwards.may_withdraw);
    let may_correct = live.part(|job| job.afterwards.correction.is_some());
    let may_delete = live.part(|job| job.afterwards.may_delete);
    let second_copies = move || numbers.get().into_iter().map(|number| second_copy(live, number)).collect_view();
    view! {
        {move || {
            any.get()
                .then(|| {
                    view! {
                        <section class="afterwards" aria-labelledby="afterwards">
                            <h2 id="afterwards">"Afterwards"</h2>
                            <p class="soft">"What has happened stays. Each of these is something new, with an outcome of its own."</p>
                            {second_copies}
                            {move || may_correct.get().then(|| correct(live))}
                            {move || may_withdraw.get().then(|| withdraw(live))}
                            {move || may_delete.get().then(|| delete(live))}
                        </section>
                    }
                })
        }}
    }
}

/// A message that may be sent a second time.
fn second_copy(live: Live, number: u32) -> impl IntoView {
    let job = live.id();
    let offer = live.second_copy(number);
    move || offer.get().map(|offer| view! { <SendAgain action=offer.action(&job) offer /> })
}

/// A correction, to everybody who may have got the link.
fn correct(live: Live) -> impl IntoView {
    let key = live.part(|job| job.afterwards.correction.clone().map(|offer| offer.request_key).unwrap_or_default());
    let says = live.part(|job| {
        let to = job.afterwards.correction.as_ref().map(|offer| offer.recipients.join(", ")).unwrap_or_default();
        format!("It goes to everybody who may have got the link, as an answer to that message: {to}.")
    });
    let act = Act {
        title: "Send a correction".into(),
        action: live.path("/corrections"),
        id: "correction".into(),
        name: "text",
        label: "What is wrong, and what is right?",
        hint: "This is what they will read.",
        longest: MAX_CORRECTION,
        buttons: vec![("", "Send correction")],
        ..Act::default()
    };
    view! { <FoldedAct act says key /> }
}

/// The report taken back.
fn withdraw(live: Live) -> impl IntoView {
    let says = "Its link will then say that the report was withdrawn, when, by whom and why. E-mails that went out stay where they are; send a correction to tell people.";
    let act = Act {
        title: "Withdraw the report".into(),
        action: live.path("/withdrawal"),
        id: "withdrawal".into(),
        name: "why",
        label: "Why is it withdrawn?",
        hint: "Everybody who opens the link will read this.",
        longest: MAX_REASON,
        buttons: vec![("", "Withdraw the report")],
        stop: true,
        ..Act::default()
    };
    view! { <FoldedAct act says /> }
}

/// The job deleted, with what it has made.
fn delete(live: Live) -> impl IntoView {
    let says = "What goes: this record, the report, the texts of its documents, the stored messages, and the mailings about it. What stays: its effects in the history, with title, owner and proof; and what people have in their mailboxes.";
    let act = Act {
        title: "Delete the job".into(),
        action: live.path("/deletion"),
        id: "deletion".into(),
        name: "why",
        label: "Why is it deleted?",
        longest: MAX_REASON,
        buttons: vec![("", "Delete the job")],
        stop: true,
        ..Act::default()
    };
    view! { <FoldedAct act says /> }
}
