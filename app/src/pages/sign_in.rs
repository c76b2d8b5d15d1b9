//! Signing in; where nobody exists yet, making the first admin.

use crate::{
    error::AppError,
    model::SignInView,
    pages::query,
    ui::{Field, Notice, Tone, load, problem as problem_page},
};
use leptos::prelude::*;
use leptos_meta::Title;

/// What the page has to know before it can ask.
#[server(prefix = "/api", endpoint = "pages/sign-in")]
async fn load_sign_in() -> Result<SignInView, AppError> {
    super::answer::settle(crate::ports::pages()?.sign_in().await)
}

/// The sentence for what the server had to object to.
fn sentence(problem: &str) -> Option<&'static str> {
    match problem {
        "" => None,
        "credentials" => Some("That e-mail address and password do not belong together. Check both and try again."),
        "throttled" => Some("Too many attempts. Wait a few minutes, then try again."),
        "code" => Some("That is not the code from the terminal. Copy it from where the server was started."),
        "weak" => Some("That password is too short or too easily guessed. Take at least 10 characters."),
        "email" => Some("That is not an e-mail address. Write it like anna@example.org."),
        _ => Some("That did not work. Try again."),
    }
}

/// The page.
#[component]
pub fn SignIn() -> impl IntoView {
    let (problem, email, next) = (query("problem"), query("email"), query("next"));
    let found = load(|| (), |()| load_sign_in());
    view! {
        <Transition>
            {move || Suspend::new(async move {
                match found.await {
                    Ok(SignInView { first_admin }) => {
                        view! {
                            <header class="masthead">
                                <span class="brand">"Recount"</span>
                            </header>
                            <main id="content" class="narrow" tabindex="-1">
                                <Entrance
                                    first_admin
                                    problem=problem.get_untracked()
                                    email=email.get_untracked()
                                    next=next.get_untracked()
                                />
                            </main>
                        }
                            .into_any()
                    }
                    Err(error) => problem_page(&error, None),
                }
            })}
        </Transition>
    }
}

/// The form.
#[component]
fn Entrance(first_admin: bool, problem: String, email: String, next: String) -> impl IntoView {
    let (title, action, button, password) = if first_admin {
        ("Set up Recount", "/setup", "Make the first admin", "new-password")
    } else {
        ("Sign in", "/sign-in", "Sign in", "current-password")
    };
    view! {
        <Title text=title />
        <form class="sheet flow wide" method="post" action=action>
            <div class="flow tight">
                <h1>{title}</h1>
                {first_admin
                    .then(|| {
                        view! {
                            <p class="soft">
                                "Nobody can sign in yet. The first person becomes the admin; the code that the server printed in its terminal shows that this is you."
                            </p>
                        }
                    })}
            </div>
            {sentence(&problem)
                .map(|text| {
                    view! {
                        <Notice tone=Tone::Bad>
                            <p>{text}</p>
                        </Notice>
                    }
                })} <input type="hidden" name="next" value=next />
            {first_admin
                .then(|| {
                    view! {
                        <Field id="code" label="Code from the terminal">
                            <input
                                id="code"
                                name="code"
                                required=true
                                autocomplete="off"
                                spellcheck="false"
                                aria-invalid=(problem == "code").then_some("true")
                                aria-describedby="code-hint code-error"
                            />
                        </Field>
                    }
                })} <Field id="email" label="E-mail address">
                <input
                    id="email"
                    name="email"
                    type="email"
                    required=true
                    autocomplete="username"
                    value=email
                    aria-describedby="email-hint email-error"
                />
            </Field>
            <Field id="password" label="Password" hint=if first_admin { "At least 10 characters." } else { "" }>
                <input
                    id="password"
                    name="password"
                    type="password"
                    required=true
                    autocomplete=password
                    minlength=first_admin.then_some("10")
                    aria-describedby="password-hint password-error"
                />
            </Field>
            <div class="row">
                <button class="button primary" type="submit">
                    {button}
                </button>
            </div>
        </form>
    }
}
