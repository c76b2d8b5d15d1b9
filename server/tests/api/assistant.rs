//! The page that connects an assistant: what it shows to whom, and that a token is seen once and in one place.

use domain::{
    id::TokenId,
    people::{Role, Scopes},
};
use serde_json::{Value, json};

use crate::support::site::Site;

const PATH: &str = "/account/assistant";

/// The JSON that the page shows under this label.
fn configuration(page: &str, label: &str) -> Value {
    let (_, from) = page.split_once(&format!("aria-label=\"{label}\">")).expect("the page shows it");
    let (text, _) = from.split_once("</pre>").expect("it ends");
    serde_json::from_str(&text.replace("&quot;", "\"")).expect("JSON")
}

/// The form's own key.
fn key(page: &str) -> TokenId {
    let (_, from) = page.split_once("name=\"id\" value=\"").expect("a key");
    from.split('"').next().unwrap_or_default().parse().expect("an id")
}

#[tokio::test]
async fn a_new_token_is_shown_once_inside_the_configuration() {
    let site = Site::new().await;
    let ada = site.instance.owner;
    let browser = site.browser(ada).await;
    for (may, scopes) in [("look", Scopes::READ), ("act", Scopes::ALL)] {
        let page = browser.get(PATH).await;
        page.page(200, "Connect an assistant");
        let form = format!("id={}&name=My+%3Cdesk%3E&may={may}", key(&page.text));
        let made = browser.fill_in(PATH, &form).await;
        made.page(200, "Connect an assistant");
        assert_eq!(made.headers["cache-control"], "no-store");
        assert!(made.text.contains("The token <b>My &lt;desk&gt;</b> is made."), "{}", made.text);

        let shown = configuration(&made.text, "Configuration as JSON");
        let bearer = shown["mcpServers"]["recount"]["headers"]["Authorization"].as_str().expect("a header").to_owned();
        let expected = json!({"type": "http", "url": "http://recount.test/mcp", "headers": {"Authorization": bearer}});
        assert_eq!(shown, json!({"mcpServers": {"recount": expected}}));
        let command = format!(
            "claude mcp add --transport http recount http://recount.test/mcp --header &quot;Authorization: {bearer}&quot;</pre>"
        );
        assert!(made.text.contains(&command), "{}", made.text);

        let secret = domain::people::bearer::BearerSecret::received(bearer.strip_prefix("Bearer ").expect("a token"));
        let grant = site.instance.store.token_by_secret(&secret).await.unwrap().expect("it is valid");
        assert_eq!((grant.user.id, grant.scopes), (ada, scopes));

        // A reload of the answer sends the form again.
        let again = browser.fill_in(PATH, &form).await;
        let after = browser.get(again.location()).await;
        assert!(after.text.contains("This token was made already"), "{}", after.text);
        for page in [again.text, after.text, browser.get("/account").await.text] {
            assert!(!page.contains(secret.expose()), "{page}");
        }
    }
    assert_eq!(site.instance.store.tokens_of(ada).await.unwrap().len(), 2);
}

#[tokio::test]
async fn what_the_form_cannot_take_makes_no_token() {
    let site = Site::new().await;
    let browser = site.browser(site.instance.owner).await;
    let id = TokenId::new();
    let nameless = browser.fill_in(PATH, &format!("id={id}&name=+&may=act")).await;
    let page = browser.get(nameless.location()).await.text;
    assert!(page.contains("Give the token a name of at most 100 characters."), "{page}");
    for form in ["id=7&name=x&may=act", "name=x&may=act"] {
        assert_eq!(browser.fill_in(PATH, form).await.status, 400, "{form}");
    }
    assert_eq!(browser.fill_in(PATH, &format!("id={id}&name=x&may=rule")).await.status, 400);
    assert!(site.instance.store.tokens_of(site.instance.owner).await.unwrap().is_empty());
}

#[tokio::test]
async fn only_people_who_are_signed_in_see_it_and_only_administrators_the_folder() {
    let site = Site::new().await;
    let page = site.browser(site.instance.owner).await.get(PATH).await.text;
    let shown = configuration(&page, "Configuration on the machine itself");
    let args = json!(["mcp", "--user", "ada@example.org", "--data", "DATA-FOLDER"]);
    assert_eq!(shown, json!({"mcpServers": {"recount": {"command": "recount", "args": args}}}));
    let folder = site.instance.folder().to_str().expect("UTF-8");
    assert!(!page.contains(folder), "{page}");

    let admin = site.instance.person("admin@example.org", Role::Admin).await;
    let page = site.browser(admin).await.get(PATH).await.text;
    let shown = configuration(&page, "Configuration on the machine itself");
    assert_eq!(shown["mcpServers"]["recount"]["args"], json!(["mcp", "--user", "admin@example.org", "--data", folder]));

    assert_eq!(site.stranger().get(PATH).await.location(), "/sign-in?next=%2Faccount%2Fassistant");
    // A token makes no further tokens.
    let program = site.program(admin).await;
    let refused = program.fill_in(PATH, &format!("id={}&name=x&may=act", TokenId::new())).await;
    refused.problem(403);
}
