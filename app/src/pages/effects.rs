//! The effect history: everything that the outside could see, with its proof.

use crate::{
    error::AppError,
    live::{AsOf, News},
    model::{EffectQuery, EffectRow, EffectsView, FieldError},
    ui::{Field, Framed, Here, Notice, Row, Rows, StateMark, Time, Tone, load, page},
};
use contract::{EffectKind, Outcome};
use leptos::prelude::*;
use leptos_meta::Title;
use leptos_router::hooks::use_query_map;

/// The effects that pass the filters.
#[server(prefix = "/api", endpoint = "pages/effects")]
async fn load_effects(#[server(default)] query: EffectQuery) -> Result<Framed<EffectsView>, AppError> {
    super::answer::ask_framed(async move |pages, viewer| pages.effects(&viewer, query).await).await
}

/// The word for an outcome in the filter.
fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NotStarted => "Not begun",
        Outcome::InFlight => "In flight",
        Outcome::InDoubt => "In doubt",
        Outcome::Done => "Done",
        Outcome::NotDone => "Not done",
        Outcome::Unconfirmed => "Unconfirmed",
    }
}

/// The word for a kind in the filter.
fn kind_word(kind: EffectKind) -> &'static str {
    match kind {
        EffectKind::ModelCall => "Model calls",
        EffectKind::Report => "Saved reports",
        EffectKind::Withdrawal => "Withdrawal",
        EffectKind::Deletion => "Deletion",
        EffectKind::Email => "E-mails",
    }
}

/// The page.
#[component]
pub fn Effects() -> impl IntoView {
    let values = use_query_map();
    let query = Memo::new(move |_| values.with(|all| EffectQuery::read(|name| all.get(name).unwrap_or_default())));
    let data = load(move || query.get(), load_effects);
    page(Here::Effects, data, |effects| view! { <History effects /> })
}

/// The filters, the open effects and the others, which follow the record.
#[component]
fn History(effects: EffectsView) -> impl IntoView {
    let (query, mistakes) = (effects.query.clone(), effects.mistakes.clone());
    let shown = RwSignal::new(effects);
    let asked = StoredValue::new(query.clone());
    expect_context::<News>().follow(move || async move {
        let read = load_effects(asked.try_get_value().unwrap_or_default()).await?;
        let _ = shown.try_set(read.content);
        Ok(())
    });
    let as_of = Signal::derive(move || shown.with(|view| view.as_of.clone()));
    let open = Signal::derive(move || shown.with(|view| view.open.iter().map(row).collect()));
    let others = Signal::derive(move || shown.with(|view| view.rows.iter().map(row).collect()));
    let parts = Memo::new(move |_| shown.with(|view| (view.open.len(), view.rows.is_empty(), view.older_path.clone())));
    let readable = mistakes.is_empty();
    let rest = if query.outcome == Outcome::NotStarted.name() { "Not begun" } else { "Settled" };
    let lists = move || {
        let (count, no_others, older_path) = parts.get();
        // Where the open ones fill the page, the others come after it.
        let only_open = count > 0 && older_path.is_some() && no_others;
        let open_title = if only_open { format!("Open (the newest {count})") } else { format!("Open ({count})") };
        view! {
            {(count > 0)
                .then(|| {
                    view! {
                        <section class="flow" aria-labelledby="open">
                            <h2 id="open">{open_title}</h2>
                            <Ledger rows=open />
                        </section>
                    }
                })}
            {(readable && !only_open)
                .then(|| {
                    view! {
                        <section class="flow" aria-labelledby="others">
                            <h2 id="others">{rest}</h2>
                            {if no_others {
                                view! { <p class="empty">"Nothing to show."</p> }.into_any()
                            } else {
                                view! { <Ledger rows=others /> }.into_any()
                            }}
                        </section>
                    }
                })}
            {older_path
                .map(|path| {
                    view! {
                        <p>
                            <a class="button" href=path>
                                "Older effects"
                            </a>
                        </p>
                    }
                })}
        }
        .into_any()
    };
    let exports = readable.then(|| (query.export_path("csv"), query.export_path("json")));
    view! {
        <Title text="Effects" />
        <div class="flow wide">
            <div class="heading">
                <h1>"Effects"</h1>
                <p class="soft">
                    "Everything that the outside could see, with its proof. Open ones first. " <AsOf at=as_of />
                </p>
            </div>
            <Filters query mistakes />
            {lists}
            {exports
                .map(|(csv, json)| {
                    view! {
                        <p class="row links">
                            <span class="soft">"All that pass the filters, as a file:"</span>
                            <a href=csv download="" rel="external">
                                "Export as CSV"
                            </a>
                            <a href=json download="" rel="external">
                                "Export as JSON"
                            </a>
                        </p>
                    }
                })}
        </div>
    }
}

/// The form of the filters, and what is wrong with them. Each control has the name of its field as its id.
#[component]
fn Filters(query: EffectQuery, mistakes: Vec<FieldError>) -> impl IntoView {
    let filtered = query.is_filtered();
    let EffectQuery { outcome, kind, job, person, recipient, month, from, to, message_id, before: _ } = query;
    // A filter that is in use or wrong must be seen.
    let unfold = [&job, &person, &recipient, &from, &to, &message_id].iter().any(|value| !value.is_empty());
    let wrong = StoredValue::new(mistakes.clone());
    let errors = move |field: &str| -> Vec<String> {
        wrong.with_value(|all| all.iter().filter(|wrong| wrong.field == field).map(|wrong| wrong.text.clone()).collect())
    };
    let input = move |id: &'static str, label: &'static str, hint: &'static str, kind: &'static str, value: String| {
        let found = errors(id);
        let invalid = (!found.is_empty()).then_some("true");
        view! {
            <Field id label hint errors=found>
                <input
                    id=id
                    name=id
                    type=kind
                    value=value
                    spellcheck="false"
                    autocomplete="off"
                    aria-describedby=format!("{id}-hint {id}-error")
                    aria-invalid=invalid
                />
            </Field>
        }
    };
    let outcomes = Outcome::ALL
        .iter()
        .map(|one| view! { <option value=one.name() selected=one.name() == outcome>{outcome_word(*one)}</option> })
        .collect_view();
    let kinds = EffectKind::ALL
        .iter()
        .map(|one| view! { <option value=one.name() selected=one.name() == kind>{kind_word(*one)}</option> })
        .collect_view();
    view! {
        <form class="flow filter" method="get" action="/admin/effects" role="search" aria-label="Filter">
            {(!mistakes.is_empty())
                .then(|| {
                    view! {
                        <Notice tone=Tone::Bad>
                            <p>"This has to be put right first. Nothing is listed."</p>
                            <ul>{mistakes.into_iter().map(|wrong| view! { <li>{wrong.text}</li> }).collect_view()}</ul>
                        </Notice>
                    }
                })}
            <div class="filters">
                <Field id="outcome" label="Outcome" errors=errors("outcome")>
                    <select id="outcome" name="outcome" aria-describedby="outcome-hint outcome-error">
                        <option value="" selected=outcome.is_empty()>
                            "Any outcome"
                        </option>
                        {outcomes}
                    </select>
                </Field>
                <Field id="kind" label="Kind" errors=errors("kind")>
                    <select id="kind" name="kind" aria-describedby="kind-hint kind-error">
                        <option value="" selected=kind.is_empty()>
                            "Any kind"
                        </option>
                        {kinds}
                    </select>
                </Field>
                {input("month", "Month of the report", "", "month", month)}
            </div>
            <details class="fold" open=unfold>
                <summary>"More filters"</summary>
                <div class="filters">
                    {input("person", "Whose job", "Their e-mail address.", "text", person)}
                    {input("recipient", "Recipient", "The address of an e-mail.", "text", recipient)}
                    {input("from", "Changed from", "The first day, in your time zone.", "date", from)}
                    {input("to", "Changed before", "The first day that is left out.", "date", to)}
                    {input("message_id", "Message-ID", "The whole of it.", "text", message_id)}
                    {input("job", "Job", "Its id, from the job's page.", "text", job)}
                </div>
            </details>
            <div class="row">
                <button class="button" type="submit">
                    "Show"
                </button>
                {filtered
                    .then(|| {
                        view! {
                            <a class="button quiet" href="/admin/effects">
                                "Show all"
                            </a>
                        }
                    })}
            </div>
        </form>
    }
}

/// A table of effects.
#[component]
fn Ledger(rows: Signal<Vec<Row>>) -> impl IntoView {
    view! {
        <table class="ledger effects">
            <thead>
                <tr>
                    <th scope="col">"When"</th>
                    <th scope="col">"What"</th>
                    <th scope="col">"Outcome"</th>
                    <th scope="col">"Evidence"</th>
                    <th scope="col">"Job"</th>
                </tr>
            </thead>
            <tbody>
                <Rows rows />
            </tbody>
        </table>
    }
}

/// One effect, known by its latest change and by what may still come of it.
fn row(effect: &EffectRow) -> Row {
    let EffectRow { job, number, at, outcome_text, job_path, .. } = effect;
    let key = format!("{job} {number} {} {outcome_text} {}", at.iso, job_path.is_some());
    let effect = effect.clone();
    Row::new(key, move || cells(effect.clone()))
}

fn cells(row: EffectRow) -> AnyView {
    let job = match row.job_path {
        Some(path) => view! { <a href=path>{row.job_title}</a> }.into_any(),
        None => row.job_title.into_any(),
    };
    view! {
        <tr>
            <td class="when">
                <Time at=row.at />
            </td>
            <td class="what">
                <a href=row.path>{row.what}</a>
            </td>
            <td>
                <span class="state">
                    <StateMark mark=row.mark />
                    <span>{row.outcome_text}</span>
                </span>
            </td>
            <td class="proof">
                {row.evidence.map(|text| view! { <p>{text}</p> })}
                {row
                    .message_id
                    .map(|id| {
                        view! {
                            <p>
                                <code title="Message-ID">{id}</code>
                            </p>
                        }
                    })}
            </td>
            <td>
                {job} <span class="soft owner">{row.owner}</span>
            </td>
        </tr>
    }
    .into_any()
}
