//! `/account/assistant`: how to connect an assistant over the Model Context Protocol, with a configuration to copy. The answer to
//! its form is the page that shows the new token, once, inside of that configuration; no other page and no address ever holds it.
//!
//! The server alone makes this page: it changes nothing by itself, and the pages' code need not grow for it.

use super::{
    AppState, PeopleState,
    account::{May, token_name},
    page::framed,
    people::MAX_FORM_BYTES,
    problem::Problem,
    session::{InBrowser, SignedIn},
};
use crate::service::Service;
use app::{account_masthead, model::Viewer, ports::Pages};
use axum::{
    Extension, Form, Router,
    extract::{
        DefaultBodyLimit, Query, State,
        rejection::{FormRejection, QueryRejection},
    },
    response::{Html, IntoResponse, Redirect, Response},
    routing::get,
};
use domain::{id::TokenId, text::escaped};
use leptos::nonce::Nonce;
use serde::{Deserialize, Serialize};

/// The page's address.
pub(super) const PATH: &str = "/account/assistant";

const TITLE: &str = "Connect an assistant";

/// Stands where a token belongs.
const PLACEHOLDER: &str = "rct_…";

/// Gives each text that is to be copied a button, where the browser lets a page copy.
const COPY: &str = "if (navigator.clipboard) for (const text of document.querySelectorAll('pre.secret')) { \
    const button = document.createElement('button'); \
    const say = (word) => { button.textContent = word; button.ariaLabel = `${word}: ${text.ariaLabel}`; }; \
    Object.assign(button, { type: 'button', className: 'button small' }); \
    button.onclick = () => navigator.clipboard.writeText(text.textContent) \
    .then(() => say('Copied'), () => getSelection().selectAllChildren(text)); \
    say('Copy'); text.after(button); }";

/// The routes.
pub fn routes() -> Router<AppState> {
    Router::new().route(PATH, get(show).post(make)).layer(DefaultBodyLimit::max(MAX_FORM_BYTES))
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    problem: String,
}

/// The form of the page.
#[derive(Deserialize)]
struct NewToken {
    /// Made with the page: a form that is sent again, by a reload of its answer, makes no second token.
    id: String,
    name: String,
    may: May,
}

async fn show(
    State(service): State<Service>,
    SignedIn(viewer): SignedIn,
    Extension(nonce): Extension<Nonce>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Html<String>, Problem> {
    let Query(Asked { problem }) = asked?;
    let already = if problem == "made" {
        "<div class=\"notice bad\" role=\"alert\"><p>This token was made already, and it is shown only once.</p>\
         <p>If you have not copied it, revoke it on the Account page and make another.</p></div>"
    } else {
        ""
    };
    let content = format!(
        "{already}{CLOSING}\n{form}\n\
         <section class=\"flow\" aria-labelledby=\"set-up\"><h2 id=\"set-up\">2. Set up the assistant</h2>\
         <p>The next page has your new token instead of <code>{PLACEHOLDER}</code> in this.</p>\n{ready}</section>\n{here}",
        form = form(problem == "name"),
        ready = ready_made(&service.dependencies.public_url, PLACEHOLDER)?,
        here = on_this_machine(&service, &viewer)?,
    );
    answer(&service, viewer, &nonce, &content).await
}

async fn make(
    State(service): State<Service>,
    State(people): State<PeopleState>,
    InBrowser { user, .. }: InBrowser,
    SignedIn(viewer): SignedIn,
    Extension(nonce): Extension<Nonce>,
    form: Result<Form<NewToken>, FormRejection>,
) -> Result<Response, Problem> {
    let Form(NewToken { id, name, may }) = form?;
    let id: TokenId =
        id.parse().map_err(|_| Problem::bad_request("The form could not be read. Reload the page and try again."))?;
    let again = |problem: &str| Redirect::to(&format!("{PATH}?problem={problem}")).into_response();
    let Some(name) = token_name(&name) else { return Ok(again("name")) };
    let Some(secret) = people.store.create_token_once(id, user, name, may.into()).await? else { return Ok(again("made")) };
    let content = format!(
        "<div class=\"notice good\" role=\"status\"><p>The token <b>{name}</b> is made. Copy what your assistant needs now: the token \
         is shown only once.</p></div>\n\
         <section class=\"flow\" aria-labelledby=\"set-up\"><h2 id=\"set-up\">Set up the assistant</h2>\n{ready}\
         <p>{may} If it gets into other hands, revoke it on the Account page.</p></section>\n\
         <p><a class=\"button\" href=\"/account\">Go back to the account</a></p>",
        name = escaped(name),
        ready = ready_made(&service.dependencies.public_url, secret.expose())?,
        may = match may {
            May::Look => "Whoever has the token can see what you can see.",
            May::Act => "Whoever has the token can do what you can do, except for changing your account.",
        },
    );
    Ok(answer(&service, viewer, &nonce, &content).await?.into_response())
}

/// The page around its sections.
async fn answer(service: &Service, viewer: Viewer, nonce: &Nonce, sections: &str) -> Result<Html<String>, Problem> {
    let unconfirmed = Pages::unconfirmed_effects(service, &viewer).await?;
    let content = format!(
        "<div class=\"flow wide column\">\n<header class=\"heading\"><nav class=\"crumbs\" aria-label=\"Breadcrumb\">\
         <a href=\"/account\">Account</a><span aria-current=\"page\">Assistant</span></nav><h1>{TITLE}</h1>\
         <p class=\"soft\">An assistant that speaks the Model Context Protocol (MCP) can start reports for you, follow them and cancel \
         them. It can do nothing that you may not do yourself.</p></header>\n{sections}\n</div>\n<script nonce=\"{nonce}\">{COPY}</script>"
    );
    Ok(Html(framed(TITLE, &account_masthead(viewer, unconfirmed), &content)))
}

const CLOSING: &str = "<section class=\"flow\" aria-labelledby=\"closing\"><h2 id=\"closing\">What closing the assistant does</h2>\
    <p>It stops no report that the assistant has started for you: that is made and sent all the same. Only Cancel stops it, on the \
    job's page or when you ask the assistant to cancel.</p>\
    <p class=\"soft\">The exception is a report that the assistant waits for in a single call (<code>generate_report</code>): it belongs \
    to the call, and is cancelled when the call is broken off.</p></section>";

/// The form, with what is wrong with the name.
fn form(name_is_wrong: bool) -> String {
    let (invalid, mistake) = if name_is_wrong {
        (" aria-invalid=\"true\"", "<p>Give the token a name of at most 100 characters.</p>")
    } else {
        ("", "")
    };
    format!(
        "<section class=\"flow\" aria-labelledby=\"make\"><h2 id=\"make\">1. Make a token</h2>\
         <form class=\"flow act\" method=\"post\" action=\"{PATH}\"><input type=\"hidden\" name=\"id\" value=\"{id}\">\
         <div class=\"field\"><label for=\"name\">Name of the token</label>\
         <input id=\"name\" name=\"name\" value=\"Assistant\" required maxlength=\"100\" autocomplete=\"off\" \
         aria-describedby=\"name-hint name-error\"{invalid}>\
         <p class=\"hint\" id=\"name-hint\">The Account page lists it under this name. You can revoke it there.</p>\
         <div class=\"mistakes\" id=\"name-error\">{mistake}</div></div>\
         <fieldset class=\"field\"><legend>What may the assistant do?</legend>\
         <label class=\"consent\"><input type=\"radio\" name=\"may\" value=\"act\" checked>It may start and cancel reports.</label>\
         <label class=\"consent\"><input type=\"radio\" name=\"may\" value=\"look\">It may only look.</label></fieldset>\
         <button class=\"button primary\" type=\"submit\">Make the token</button></form></section>",
        id = TokenId::new(),
    )
}

/// What clients of the protocol read at their start.
#[derive(Serialize)]
struct Configuration<T> {
    #[serde(rename = "mcpServers")]
    servers: Servers<T>,
}

#[derive(Serialize)]
struct Servers<T> {
    recount: T,
}

#[derive(Serialize)]
struct OverHttp<'a> {
    #[serde(rename = "type")]
    transport: &'static str,
    url: &'a str,
    headers: Headers,
}

#[derive(Serialize)]
struct Headers {
    #[serde(rename = "Authorization")]
    authorization: String,
}

#[derive(Serialize)]
struct Stdio<'a> {
    command: &'static str,
    args: [&'a str; 5],
}

/// The configuration for assistants anywhere, with this token.
fn ready_made(public_url: &str, token: &str) -> Result<String, Problem> {
    let url = format!("{public_url}/mcp");
    let headers = Headers { authorization: format!("Bearer {token}") };
    let json = configuration(OverHttp { transport: "http", url: &url, headers })?;
    let command = format!("claude mcp add --transport http recount {url} --header \"Authorization: Bearer {token}\"");
    Ok(format!(
        "<div class=\"flow tight\"><p>Most assistants take it as JSON, in a file or in their settings:</p>{}</div>\n\
         <div class=\"flow tight\"><p>Some take it on the command line, such as Claude Code:</p>{}</div>\n",
        to_copy("Configuration as JSON", &json),
        to_copy("Configuration on the command line", &command),
    ))
}

/// The configuration for assistants that start Recount themselves. Only administrators are told where its data is.
fn on_this_machine(service: &Service, viewer: &Viewer) -> Result<String, Problem> {
    let (folder, whose) = if viewer.is_admin {
        (std::path::absolute(&service.settings.folder).map_err(Problem::internal)?.display().to_string(), "")
    } else {
        ("DATA-FOLDER".to_owned(), " Whoever runs Recount knows the data folder.")
    };
    let json = configuration(Stdio { command: "recount", args: ["mcp", "--user", &viewer.email, "--data", &folder] })?;
    Ok(format!(
        "<details class=\"fold\"><summary>On the machine that Recount runs on</summary>\
         <p>There an assistant can start Recount itself, without a token and without the network. It then does all that you may do, and \
         needs the right to read and write the data folder, so that this is for whoever runs Recount.{whose}</p>\n{}</details>",
        to_copy("Configuration on the machine itself", &json),
    ))
}

fn configuration<T: Serialize>(recount: T) -> Result<String, Problem> {
    serde_json::to_string_pretty(&Configuration { servers: Servers { recount } }).map_err(Problem::internal)
}

/// Text that one click selects whole.
fn to_copy(label: &str, text: &str) -> String {
    format!("<pre class=\"secret\" role=\"group\" tabindex=\"0\" aria-label=\"{label}\">{}</pre>", escaped(text))
}
