//! The form itself and what a script adds to it.

use super::{
    check_recipients,
    fields::{Hold, Instructions, Month, Recipients, Sources, Summary, TitleField, Uploads},
    recount,
};
use crate::model::{DocumentChoice, FieldError, NewReportView, RecipientCheck};
use leptos::{ev::SubmitEvent, html, prelude::*, task::spawn_local};
use std::time::Duration;
use wasm_bindgen::JsCast;

/// How long the form lets no second click through. The server makes one job of both in any case.
const CLICK_GUARD: Duration = Duration::from_secs(3);
/// The pause in typing after which the recipients are checked.
const TYPING_PAUSE: Duration = Duration::from_millis(400);

/// What is known of the people that the typed recipients are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum People {
    /// Of what was typed when this page was made, or later.
    Checked(RecipientCheck),
    /// The server is being asked about what is typed now.
    Asked,
    /// It could not be asked.
    Unknown,
}

/// What the server said last about the form. What a person typed stays in the controls.
#[derive(Clone, Copy)]
pub struct Told {
    pub view: RwSignal<NewReportView>,
    pub people: RwSignal<People>,
    /// A script follows what is typed. Until then nothing on the page may claim to know what the controls hold.
    pub awake: RwSignal<bool>,
    /// Counts the questions, so that a late answer to an earlier one is not taken for the current one.
    asked: StoredValue<(u32, u32)>,
}

impl Told {
    fn new(view: NewReportView) -> Self {
        Self {
            people: RwSignal::new(People::Checked(view.check.clone())),
            awake: RwSignal::new(false),
            view: RwSignal::new(view),
            asked: StoredValue::new((0, 0)),
        }
    }

    /// One part of what the server said.
    pub fn part<T: Clone + PartialEq + Send + Sync + 'static>(self, of: fn(&NewReportView) -> T) -> Memo<T> {
        Memo::new(move |_| self.view.with(of))
    }

    /// The sentences about a field.
    pub fn errors(self, field: &'static str) -> Memo<Vec<String>> {
        Memo::new(move |_| {
            self.view
                .with(|view| view.errors.iter().filter(|error| error.field == field).map(|error| error.text.clone()).collect())
        })
    }

    /// Asks for the counts of another choice of documents.
    fn recount(self, choice: DocumentChoice) {
        let Some(turn) = self.asked.try_update_value(|(turn, _)| {
            *turn += 1;
            *turn
        }) else {
            return;
        };
        let key = self.view.with_untracked(|view| view.request_key.clone());
        spawn_local(async move {
            let answer = recount(key, choice).await;
            if let Ok(view) = answer
                && self.asked.try_with_value(|(latest, _)| *latest) == Some(turn)
            {
                let _ = self.view.try_set(view);
            }
        });
    }

    /// The recipients are being typed: what was known of them is of something else now. Answers that are under way come too late.
    fn retyped(self) -> Option<u32> {
        let _ = self.people.try_set(People::Asked);
        let is_of_them = |error: &FieldError| error.field == "recipients";
        if self.view.try_with_untracked(|view| view.errors.iter().any(is_of_them)) == Some(true) {
            let _ = self.view.try_update(|view| view.errors.retain(|error| !is_of_them(error)));
        }
        self.asked.try_update_value(|(_, turn)| {
            *turn += 1;
            *turn
        })
    }

    /// Asks who the typed recipients are.
    fn check(self, typed: String) {
        let Some(turn) = self.retyped() else { return };
        spawn_local(async move {
            let answer = check_recipients(typed).await;
            if self.asked.try_with_value(|(_, latest)| *latest) == Some(turn) {
                let _ = self.people.try_set(answer.map_or(People::Unknown, People::Checked));
            }
        });
    }
}

/// The ids of the folders that are chosen in the form.
fn chosen_sources(form: &web_sys::HtmlFormElement) -> Vec<String> {
    let Ok(boxes) = form.query_selector_all("input[name=source]:checked") else { return Vec::new() };
    (0..boxes.length())
        .filter_map(|index| boxes.item(index)?.dyn_into::<web_sys::HtmlInputElement>().ok())
        .map(|chosen| chosen.value())
        .collect()
}

/// Whether the form was just sent, and what keeps it from being sent again by a second click.
fn sent_once() -> (RwSignal<bool>, impl Fn(SubmitEvent) + Copy) {
    let sent = RwSignal::new(false);
    let submit = move |event: SubmitEvent| {
        if sent.get_untracked() {
            event.prevent_default();
            return;
        }
        sent.set(true);
        set_timeout(
            move || {
                let _ = sent.try_set(false);
            },
            CLICK_GUARD,
        );
    };
    (sent, submit)
}

/// The form.
#[component]
pub fn Request(view: NewReportView) -> impl IntoView {
    let initial = view.clone();
    let told = Told::new(view);
    let form = NodeRef::<html::Form>::new();
    let check = NodeRef::<html::Button>::new();
    let (month, zone) = (NodeRef::<html::Input>::new(), NodeRef::<html::Input>::new());
    let recipients = NodeRef::<html::Textarea>::new();

    let moved = move || {
        if let (Some(form), Some(month), Some(zone)) = (form.get_untracked(), month.get_untracked(), zone.get_untracked()) {
            told.recount(DocumentChoice { month: month.value(), zone: zone.value(), sources: chosen_sources(&form) });
        }
    };
    let pending = StoredValue::new(None);
    let typed = move |text: String| {
        let _ = told.retyped();
        let timer = set_timeout_with_handle(move || told.check(text), TYPING_PAUSE).ok();
        if let Some(earlier) = pending.try_update_value(|kept| std::mem::replace(kept, timer)).flatten() {
            earlier.clear();
        }
    };
    // Files are stored and dated as soon as they are chosen; a browser that cannot do it leaves it to the buttons.
    let chosen = move || {
        if let (Some(form), Some(check)) = (form.get_untracked(), check.get_untracked())
            && let Some(check) = check.dyn_ref::<web_sys::HtmlElement>()
        {
            let _ = form.request_submit_with_submitter(Some(check));
        }
    };
    // What was typed before the page woke up has told nobody yet.
    let filled = initial.clone();
    Effect::new(move |_| {
        // An empty control is no news: where browsers have one for months, it does not show what is none.
        let moved_before = |input: NodeRef<html::Input>, known: &str| {
            input.get().is_some_and(|input| !input.value().is_empty() && input.value() != known)
        };
        let ticked_before = || {
            let known = filled.sources.iter().filter(|source| source.checked).map(|source| &source.id);
            form.get().is_some_and(|form| !chosen_sources(&form).iter().eq(known))
        };
        if moved_before(month, &filled.month) || moved_before(zone, &filled.zone) || ticked_before() {
            moved();
        }
        if let Some(text) = recipients.get().map(|field| field.value()).filter(|text| *text != filled.recipients) {
            told.check(text);
        }
        told.awake.set(true);
    });
    let (sent, submit) = sent_once();
    let busy = move || sent.get().then_some("true");
    let month_title = told.part(|view| view.month_title.clone());
    let generate = move || match month_title.get() {
        month if month.is_empty() || !told.awake.get() => "Generate report".to_owned(),
        month => format!("Generate {month} report"),
    };
    let made_with = format!("Written by: {}. {}", initial.summarizer, initial.channel);

    view! {
        <form
            class="sheet flow wide"
            method="post"
            action="/jobs"
            enctype="multipart/form-data"
            autocomplete="off"
            novalidate=true
            node_ref=form
            on:submit=submit
            aria-labelledby="new-report"
        >
            // The first submit button is the one that Enter presses, and no key should send e-mails by accident.
            <button class="unseen" type="submit" name="action" value="check" tabindex="-1" aria-hidden="true">
                "Check"
            </button>
            <input type="hidden" name="request_key" value=initial.request_key.clone() />
            <input type="hidden" name="from" value=initial.from.clone() />
            <h1 id="new-report">"New report"</h1>
            <Summary told />
            <TitleField told value=initial.title.clone() />
            <Month told value=initial.month.clone() zone=initial.zone.clone() month_ref=month zone_ref=zone moved />
            <Sources told sources=initial.sources.clone() moved />
            <Uploads told uploads=initial.uploads.clone() limit=initial.upload_limit.clone() chosen />
            <Recipients told value=initial.recipients.clone() field=recipients typed />
            <Hold told value=initial.hold.clone() />
            <Instructions told value=initial.instructions.clone() />
            <div class="flow tight">
                <div class="row">
                    <button class="button primary" type="submit" name="action" value="generate" aria-disabled=busy>
                        {generate}
                    </button>
                    <button class="button quiet" type="submit" name="action" value="check" node_ref=check>
                        "Check"
                    </button>
                </div>
                <p class="soft">"You can cancel at any time, on any device. " {made_with}</p>
            </div>
        </form>
    }
    .into_any()
}
