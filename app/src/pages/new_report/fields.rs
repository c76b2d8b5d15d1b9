//! The fields of the form. Controls keep what was typed; what the server says about it stands beside them and may change.

use super::form::{People, Told};
use crate::{
    model::{NewReportView, SourceChoice, UploadLine},
    ui::{Field, Notice, Tone, escaped},
};
use leptos::{html, prelude::*};

/// The attribute of a control with mistakes.
fn invalid(errors: Memo<Vec<String>>) -> impl Fn() -> Option<&'static str> + Copy + Send + Sync + 'static {
    move || errors.with(|all| !all.is_empty()).then_some("true")
}

/// Everything that has to be put right, with links to the places, and everything worth knowing.
///
/// Each control has the name of its field as its id.
#[component]
pub fn Summary(told: Told) -> impl IntoView {
    let errors = told.part(|view| view.errors.clone());
    let warnings = told.part(|view| view.warnings.clone());
    let passed = told.part(|view| view.checked && view.errors.is_empty());
    view! {
        {move || {
            let found = errors.get();
            (!found.is_empty())
                .then(|| {
                    view! {
                        <Notice tone=Tone::Bad>
                            <p>"This has to be put right first. Nothing has been started."</p>
                            <ul>
                                {found
                                    .into_iter()
                                    .map(|error| {
                                        view! {
                                            <li>
                                                <a href=format!("#{}", error.field) rel="external">
                                                    {error.text}
                                                </a>
                                            </li>
                                        }
                                    })
                                    .collect_view()}
                            </ul>
                        </Notice>
                    }
                })
        }}
        <div role="status">
            {move || {
                let mut found = warnings.get();
                if passed.get() {
                    found.insert(0, "Checked. Nothing has been started yet.".to_owned());
                }
                (!found.is_empty())
                    .then(|| {
                        view! {
                            <Notice tone=Tone::Note>
                                {found.into_iter().map(|text| view! { <p>{text}</p> }).collect_view()}
                            </Notice>
                        }
                    })
            }}
        </div>
    }
}

/// The report's name.
#[component]
pub fn TitleField(told: Told, value: String) -> impl IntoView {
    let errors = told.errors("title");
    view! {
        <Field id="title" label="Title" hint="Optional. The month is added to it." errors=errors>
            <input
                id="title"
                name="title"
                value=value
                placeholder="Team month"
                aria-describedby="title-hint title-error"
                aria-invalid=invalid(errors)
            />
        </Field>
    }
}

/// The month and the zone in which it begins and ends.
#[component]
pub fn Month(
    told: Told,
    value: String,
    zone: String,
    month_ref: NodeRef<html::Input>,
    zone_ref: NodeRef<html::Input>,
    moved: impl Fn() + Copy + Send + 'static,
) -> impl IntoView {
    let (month_errors, zone_errors) = (told.errors("month"), told.errors("zone"));
    let interval = told.part(|view| view.interval.clone());
    let counts = told.part(|view| view.count_text.clone());
    view! {
        <div class="flow tight">
            <div class="pair">
                <Field id="month" label="Month" errors=month_errors>
                    <input
                        id="month"
                        name="month"
                        type="month"
                        value=value
                        required=true
                        pattern="[0-9]{4}-[0-9]{2}"
                        placeholder="YYYY-MM"
                        node_ref=month_ref
                        on:change=move |_| moved()
                        aria-describedby="month-hint month-error counts"
                        aria-invalid=invalid(month_errors)
                    />
                </Field>
                <Field id="zone" label="Time zone" errors=zone_errors>
                    <input
                        id="zone"
                        name="zone"
                        value=zone
                        required=true
                        spellcheck="false"
                        placeholder="Europe/Berlin"
                        node_ref=zone_ref
                        on:change=move |_| moved()
                        aria-describedby="zone-hint zone-error counts"
                        aria-invalid=invalid(zone_errors)
                    />
                </Field>
            </div>
            <p class="soft" id="counts" role="status">
                {move || interval.get()}
                {move || interval.with(|text| !text.is_empty()).then_some(". ")} {move || counts.get()}
            </p>
        </div>
    }
}

/// The folders that the server knows.
#[component]
pub fn Sources(told: Told, sources: Vec<SourceChoice>, moved: impl Fn() + Copy + Send + 'static) -> impl IntoView {
    let errors = told.errors("sources");
    let choice = move |source: SourceChoice| {
        let id = source.id.clone();
        let count = Memo::new(move |_| {
            told.view.with(|view| {
                view.sources.iter().find(|known| known.id == id).map_or_else(String::new, |known| known.count_text.clone())
            })
        });
        view! {
            <label class="choice">
                <input type="checkbox" name="source" value=source.id checked=source.checked on:change=move |_| moved() />
                <span>{source.name}</span>
                <span class=if source.unreadable { "doubtful" } else { "soft" }>{move || count.get()}</span>
            </label>
        }
    };
    view! {
        <fieldset class="field" id="sources" tabindex="-1" aria-describedby="sources-error">
            <legend>"Documents"</legend>
            {if sources.is_empty() {
                view! { <p class="hint">"No folder is configured on the server. Upload files instead."</p> }.into_any()
            } else {
                sources.into_iter().map(choice).collect_view().into_any()
            }}
            <div class="mistakes" id="sources-error">
                {move || errors.get().into_iter().map(|text| view! { <p>{text}</p> }).collect_view()}
            </div>
        </fieldset>
    }
}

/// Files from the person's own device: the drop area and what was uploaded before.
#[component]
pub fn Uploads(told: Told, uploads: Vec<UploadLine>, limit: String, chosen: impl Fn() + Copy + Send + 'static) -> impl IntoView {
    let errors = told.errors("files");
    view! {
        <div class="flow tight">
            <Field id="files" label="Your own files" hint=limit errors=errors>
                <input
                    class="drop"
                    id="files"
                    name="files"
                    type="file"
                    multiple=true
                    on:change=move |_| chosen()
                    aria-describedby="files-hint files-error"
                    aria-invalid=invalid(errors)
                />
            </Field>
            {(!uploads.is_empty())
                .then(|| {
                    view! {
                        <ul class="lines" aria-label="Uploaded files">
                            {uploads.into_iter().map(|upload| view! { <Upload told upload /> }).collect_view()}
                        </ul>
                    }
                })}
        </div>
    }
}

/// One uploaded file.
#[component]
fn Upload(told: Told, upload: UploadLine) -> impl IntoView {
    let UploadLine { id, name, size, by_hand, .. } = upload;
    let known = {
        let id = id.clone();
        move |view: &NewReportView| view.uploads.iter().find(|line| line.id == id).cloned()
    };
    let dated = Memo::new(move |_| {
        told.view.with(&known).map_or_else(String::new, |line| match (line.dated.is_empty(), line.in_month) {
            _ if !line.trouble.is_empty() => format!("Cannot be read: {}", line.trouble),
            (true, true) => "Nothing dates it; counted to this month".into(),
            (true, false) => "Nothing dates it; not counted to this month".into(),
            (false, true) => line.dated,
            (false, false) => format!("{}; not in this month", line.dated),
        })
    });
    let field = format!("by_hand_{id}");
    let remove = format!("Remove {name}");
    view! {
        <li class="line upload">
            <div>
                <b>{name}</b>
                <p class="soft">{size} ". " {move || dated.get()}</p>
            </div>
            <div class="field compact">
                <label for=field.clone()>"Count it to another month"</label>
                <input
                    id=field.clone()
                    name=field.clone()
                    type="month"
                    value=by_hand
                    pattern="[0-9]{4}-[0-9]{2}"
                    placeholder="YYYY-MM"
                />
            </div>
            <button class="button small quiet" type="submit" name="remove" value=id aria-label=remove>
                "Remove"
            </button>
        </li>
    }
}

/// Who gets the link, and who that is according to the server.
#[component]
pub fn Recipients(
    told: Told,
    value: String,
    field: NodeRef<html::Textarea>,
    typed: impl Fn(String) + Copy + Send + 'static,
) -> impl IntoView {
    let errors = told.errors("recipients");
    let people = told.people;
    // What was wrong with other words than those that stand there now is not said of them.
    let problems = Memo::new(move |_| match people.get() {
        People::Checked(check) => {
            let mut all = check.problems;
            all.extend(errors.get().into_iter().filter(|text| !all.contains(text)).collect::<Vec<_>>());
            all
        }
        People::Asked | People::Unknown => Vec::new(),
    });
    let shown = Memo::new(move |_| match people.get() {
        People::Checked(check) => check.addresses.join(", "),
        People::Asked | People::Unknown => String::new(),
    });
    // Before a script follows what is typed, only what the server was asked to check is worth saying, and that it was then.
    let says = Memo::new(move |_| {
        let awake = told.awake.get();
        let checked = if awake { "" } else { "Checked: " };
        match people.get() {
            _ if !awake && !told.view.with(|view| view.checked) => None,
            People::Asked => Some("Looking who that is…".to_owned()),
            People::Unknown => Some("Who that is could not be looked up. It is checked again before anything starts.".to_owned()),
            People::Checked(check) => Some(match check.addresses.len() {
                0 => "Nobody yet".to_owned(),
                1 => format!("{checked}1 person, one message: "),
                many => format!("{checked}{many} people, one message each: "),
            }),
        }
    });
    view! {
        <div class="flow tight">
            <Field id="recipients" label="Send the link to" hint="E-mail addresses, separated by commas or new lines." errors=problems>
                <textarea
                    id="recipients"
                    name="recipients"
                    rows="2"
                    spellcheck="false"
                    autocapitalize="off"
                    placeholder="team@example.org, board@example.org"
                    node_ref=field
                    on:input=move |event| typed(event_target_value(&event))
                    aria-describedby="recipients-hint recipients-error people"
                    aria-invalid=invalid(problems)
                    inner_html=escaped(&value)
                ></textarea>
            </Field>
            <p class="people" id="people" role="status">
                {move || {
                    says.get()
                        .map(|text| {
                            view! {
                                {text}
                                <b>{shown.get()}</b>
                            }
                        })
                }}
            </p>
        </div>
    }
}

/// What happens between the saved report and its e-mail.
#[component]
pub fn Hold(told: Told, value: String) -> impl IntoView {
    let errors = told.errors("hold");
    let choices =
        [("30", "Wait 30 seconds"), ("300", "Wait 5 minutes"), ("approval", "Wait for my approval"), ("none", "Do not wait")];
    let known = value.is_empty() || choices.iter().any(|(choice, _)| *choice == value);
    let options = choices.map(|(choice, words)| view! { <option value=choice selected=choice == value>{words}</option> });
    let other = (!known).then(|| {
        let words = format!("Wait {value} seconds");
        view! { <option value=value selected=true>{words}</option> }
    });
    view! {
        <Field id="hold" label="Before the e-mail goes out" hint="A cancel in this time is always clean: nothing is sent." errors=errors>
            <select id="hold" name="hold" aria-describedby="hold-hint hold-error" aria-invalid=invalid(errors)>
                {options}
                {other}
            </select>
        </Field>
    }
}

/// What the report should pay attention to.
#[component]
pub fn Instructions(told: Told, value: String) -> impl IntoView {
    let errors = told.errors("instructions");
    view! {
        <Field id="instructions" label="What to look for" hint="Optional. For example: decisions about money." errors=errors>
            <textarea
                id="instructions"
                name="instructions"
                rows="3"
                aria-describedby="instructions-hint instructions-error"
                aria-invalid=invalid(errors)
                inner_html=escaped(&value)
            ></textarea>
        </Field>
    }
}
