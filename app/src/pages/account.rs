//! The viewer's own account: time zone, API tokens, devices.

use crate::{
    error::AppError,
    model::{AccountView, SessionLine, TokenLine},
    pages::query,
    ui::{Field, Framed, Here, Notice, Time, Tone, load, page},
};
use leptos::prelude::*;
use leptos_meta::Title;

/// The account.
#[server(prefix = "/api", endpoint = "pages/account")]
async fn load_account() -> Result<Framed<AccountView>, AppError> {
    super::answer::ask_framed(async move |pages, viewer| pages.account(&viewer).await).await
}

/// The field that a problem belongs to, and the sentence about it.
fn sentence(problem: &str) -> Option<(&'static str, &'static str)> {
    match problem {
        "" => None,
        "zone" => Some(("zone", "That is not a time zone. Write a name like Europe/Berlin or UTC.")),
        "name" => Some(("name", "Give the token a name of at most 100 characters.")),
        _ => Some(("", "That did not work. Try again.")),
    }
}

/// The page.
#[component]
pub fn Account() -> impl IntoView {
    let problem = query("problem");
    let data = load(|| (), |()| load_account());
    page(Here::Account, data, move |account| view! { <Settings account problem=problem.get_untracked() /> })
}

/// The sections.
#[component]
fn Settings(account: AccountView, problem: String) -> impl IntoView {
    let AccountView { email, role, zone, sessions, tokens } = account;
    let objection = sentence(&problem);
    let mistake = move |field: &str| {
        objection.iter().filter(|(place, _)| *place == field).map(|(_, text)| (*text).to_owned()).collect::<Vec<_>>()
    };
    let wrong = move |field: &str| objection.is_some_and(|(place, _)| place == field).then_some("true");
    view! {
        <Title text="Account" />
        <div class="flow wide column">
            <header class="heading">
                <h1>"Account"</h1>
                <p class="soft">{email} ", " {role}</p>
            </header>
            {mistake("")
                .into_iter()
                .map(|text| {
                    view! {
                        <Notice tone=Tone::Bad>
                            <p>{text}</p>
                        </Notice>
                    }
                })
                .collect_view()}
            <section class="flow" aria-labelledby="time-zone">
                <h2 id="time-zone">"Time zone"</h2>
                <form class="inline" method="post" action="/account/zone">
                    <Field id="zone" label="Your time zone" hint="Months begin and times are shown in this zone." errors=mistake("zone")>
                        <input
                            id="zone"
                            name="zone"
                            value=zone
                            required=true
                            spellcheck="false"
                            autocomplete="off"
                            aria-describedby="zone-hint zone-error"
                            aria-invalid=wrong("zone")
                        />
                    </Field>
                    <button class="button" type="submit">
                        "Save"
                    </button>
                </form>
            </section>
            <Tokens tokens mistake=mistake("name") />
            <Devices sessions />
            <section class="flow" aria-labelledby="leave">
                <h2 id="leave">"Sign out"</h2>
                <form method="post" action="/sign-out">
                    <button class="button" type="submit">
                        "Sign out on this device"
                    </button>
                </form>
            </section>
        </div>
    }
}

/// The API tokens.
#[component]
fn Tokens(tokens: Vec<TokenLine>, mistake: Vec<String>) -> impl IntoView {
    let invalid = (!mistake.is_empty()).then_some("true");
    let line = |token: TokenLine| {
        let label = format!("Revoke {}", token.name);
        view! {
            <li class="line">
                <div>
                    <b>{token.name}</b>
                    <p class="soft">
                        {token.limit.map(|limit| format!("{limit}, "))} "made " <Time at=token.created />
                        {match token.used {
                            Some(at) => view! { ", last used " <Time at /> }.into_any(),
                            None => ", never used".into_any(),
                        }}
                    </p>
                </div>
                <form method="post" action=format!("/account/tokens/{}/revocation", token.id)>
                    <button class="button small stop" type="submit" aria-label=label>
                        "Revoke"
                    </button>
                </form>
            </li>
        }
    };
    view! {
        <section class="flow" aria-labelledby="tokens">
            <h2 id="tokens">"API tokens"</h2>
            <p class="soft">
                "A token lets a program act as you: a script, or an assistant. "
                <a href="/account/assistant" rel="external">
                    "Connect an assistant"
                </a>
            </p>
            {if tokens.is_empty() {
                view! { <p class="empty">"No token has been made."</p> }.into_any()
            } else {
                view! { <ul class="lines">{tokens.into_iter().map(line).collect_view()}</ul> }.into_any()
            }}
            <form class="flow act" method="post" action="/account/tokens">
                <Field id="name" label="Name of a new token" hint="What it is for, such as \u{201c}laptop\u{201d}." errors=mistake>
                    <input
                        id="name"
                        name="name"
                        required=true
                        maxlength="100"
                        autocomplete="off"
                        aria-describedby="name-hint name-error"
                        aria-invalid=invalid
                    />
                </Field>
                <label class="consent">
                    <input type="checkbox" name="may" value="look" />
                    "It may only look: nothing is started, cancelled or changed with it."
                </label>
                <button class="button" type="submit">
                    "Make a token"
                </button>
            </form>
        </section>
    }
}

/// The devices that are signed in.
#[component]
fn Devices(sessions: Vec<SessionLine>) -> impl IntoView {
    let line = |session: SessionLine| {
        let label = format!("Sign out {}", session.device);
        view! {
            <li class="line">
                <div>
                    <b>{session.device}</b>
                    <p class="soft">
                        {session.is_this.then_some("this device, ")} "last seen " <Time at=session.seen />
                    </p>
                </div>
                {(!session.is_this)
                    .then(|| {
                        view! {
                            <form method="post" action=format!("/account/sessions/{}/revocation", session.id)>
                                <button class="button small stop" type="submit" aria-label=label>
                                    "Sign out"
                                </button>
                            </form>
                        }
                    })}
            </li>
        }
    };
    view! {
        <section class="flow" aria-labelledby="devices">
            <h2 id="devices">"Devices"</h2>
            <ul class="lines">{sessions.into_iter().map(line).collect_view()}</ul>
        </section>
    }
}
