//! `recount user` and `recount token`: accounts from the terminal of the machine that the server runs on.

use super::{DataFolder, open_store, say::write_line};
use anyhow::{Context, bail};
use app::model::Viewer;
use chrono_tz::Tz;
use clap::{Args, Subcommand};
use domain::people::{
    EmailAddress, Role, Scope,
    password::{NewPassword, PasswordHash},
};
use std::{
    io::{BufRead, IsTerminal, Write},
    process::ExitCode,
};
use store::{NewUser, Store};

/// `recount user …`
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Add a person; the password is one line on standard input
    Add(AddUser),
}

/// `recount token …`
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make an API token and print it; it cannot be shown again
    Create(CreateToken),
}

/// The options of `recount user add`.
#[derive(Debug, Args)]
pub struct AddUser {
    #[command(flatten)]
    data: DataFolder,
    /// The address to sign in with
    #[arg(long)]
    pub email: String,
    /// What the person may do: admin or user
    #[arg(long, value_parser = role)]
    pub role: Role,
    /// The time zone in which the person's months begin and end, such as Europe/Lisbon
    #[arg(long, default_value = "UTC", value_parser = zone)]
    pub zone: Tz,
}

/// The options of `recount token create`.
#[derive(Debug, Args)]
pub struct CreateToken {
    #[command(flatten)]
    data: DataFolder,
    /// Whose token it will be
    #[arg(long)]
    pub email: String,
    /// What the list of tokens calls it
    #[arg(long, default_value = "Command line")]
    pub name: String,
    /// What it may do: reports:read to look, reports:write to start, cancel and change. Once for each; both if left out
    #[arg(long = "scope", value_name = "SCOPE", default_values = ["reports:read", "reports:write"])]
    pub scopes: Vec<Scope>,
}

impl UserCommand {
    /// Runs the command.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let Self::Add(options) = self;
        options.data.has_database_or_nothing()?;
        let store = open_store(&options.data, &options.data.settings()?).await?;
        add_user(&store, &options, password_from_stdin()?, &mut std::io::stdout()).await?;
        Ok(ExitCode::SUCCESS)
    }
}

impl TokenCommand {
    /// Runs the command.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let Self::Create(options) = self;
        options.data.has_database()?;
        let store = open_store(&options.data, &options.data.settings()?).await?;
        create_token(&store, &options, &mut std::io::stdout()).await?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Who owns the jobs of `recount report`.
const COMMAND_LINE: &str = "command-line@localhost";

/// The person behind the command line, made at its first job. Nobody can sign in as them.
pub async fn command_line_user(store: &Store, zone: &str) -> anyhow::Result<Viewer> {
    let email = EmailAddress::parse(COMMAND_LINE)?;
    if store.user_by_email(&email).await?.is_none() {
        store.create_user(&email, Role::User, &PasswordHash::unusable(), Tz::UTC).await?;
    }
    let user = store.user_by_email(&email).await?.context("the command line's own account is missing")?;
    Ok(Viewer { id: user.id.to_string(), email: user.email, is_admin: false, zone: zone.to_owned(), session: None })
}

/// Adds a person and says so on `output`.
pub async fn add_user(store: &Store, options: &AddUser, password: String, output: &mut impl Write) -> anyhow::Result<()> {
    let email = EmailAddress::parse(&options.email)?;
    let hash = NewPassword::check(password, &email)?.hash().await?;
    match store.create_user(&email, options.role, &hash, options.zone).await? {
        // It is done, whether or not anybody reads it.
        NewUser::Created(_) => write_line(output, format_args!("Added {email} as {}.", options.role.name())),
        NewUser::EmailTaken => bail!("{email} has an account already. Nothing was changed."),
    }
    Ok(())
}

/// Makes a token and prints nothing else, so that a script can take it.
pub async fn create_token(store: &Store, options: &CreateToken, output: &mut impl Write) -> anyhow::Result<()> {
    let email = EmailAddress::parse(&options.email)?;
    let Some(user) = store.user_by_email(&email).await? else {
        bail!("Nobody has the address {email}. Add the person first: recount user add --email {email} --role user")
    };
    let secret = store.create_token(user.id, &options.name, options.scopes.iter().copied().collect()).await?;
    writeln!(output, "{}", secret.expose())?;
    Ok(())
}

/// The password from standard input: asked for without showing it at a terminal, otherwise the first line.
pub fn password_from_stdin() -> anyhow::Result<String> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        rpassword::prompt_password("Password: ").context("The password could not be read from the terminal")
    } else {
        first_line(stdin.lock())
    }
}

/// The first line of `input` without its end.
fn first_line(input: impl BufRead) -> anyhow::Result<String> {
    let mut line = String::new();
    // More than any password; an endless line must not fill the memory.
    input.take(16 * 1024).read_line(&mut line).context("The password could not be read from standard input")?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        bail!("There is no password on standard input. Write it as one line.");
    }
    Ok(password.to_owned())
}

fn role(name: &str) -> Result<Role, String> {
    Role::from_name(name).ok_or_else(|| "write admin or user".to_owned())
}

fn zone(name: &str) -> Result<Tz, String> {
    name.parse().map_err(|_| "there is no such time zone; write an IANA name such as Europe/Lisbon".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::sign_in::sign_in;
    use clap::Parser;
    use domain::people::{Scopes, bearer::BearerSecret};
    use store::testing::Instance;

    #[derive(Debug, Parser)]
    enum Line {
        #[command(subcommand)]
        User(UserCommand),
        #[command(subcommand)]
        Token(TokenCommand),
    }

    fn add(arguments: &[&str]) -> Result<AddUser, clap::Error> {
        match Line::try_parse_from(["recount", "user", "add"].iter().chain(arguments))? {
            Line::User(UserCommand::Add(options)) => Ok(options),
            Line::Token(_) => unreachable!("the line says user add"),
        }
    }

    /// The options of a token of ada's.
    fn token(arguments: &[&str]) -> Result<CreateToken, clap::Error> {
        match Line::try_parse_from(["recount", "token", "create", "--email", "ada@example.org"].iter().chain(arguments))? {
            Line::Token(TokenCommand::Create(options)) => Ok(options),
            Line::User(_) => unreachable!("the line says token create"),
        }
    }

    async fn added(instance: &Instance, options: &AddUser, password: &str) -> anyhow::Result<String> {
        let mut output = Vec::new();
        add_user(&instance.store, options, password.to_owned(), &mut output).await?;
        Ok(String::from_utf8(output)?)
    }

    #[tokio::test]
    async fn an_added_person_can_sign_in() {
        let instance = Instance::new().await;
        let options = add(&["--email", "Ada@example.org", "--role", "admin", "--zone", "Europe/Lisbon"]).unwrap();
        assert_eq!(added(&instance, &options, "correct horse").await.unwrap(), "Added ada@example.org as admin.\n");
        sign_in(&instance.store, "ada@example.org", "correct horse".into(), "Test", None).await.unwrap();
        let user = instance.store.user_by_email(&EmailAddress::parse("ada@example.org").unwrap()).await.unwrap().unwrap();
        assert_eq!((user.role, user.zone), (Role::Admin, Tz::Europe__Lisbon));
    }

    #[tokio::test]
    async fn what_cannot_be_added_is_explained() {
        let instance = Instance::new().await;
        let ada = add(&["--email", "ada@example.org", "--role", "user"]).unwrap();
        let weak = added(&instance, &ada, "short").await.unwrap_err();
        assert_eq!(weak.to_string(), "The password is too short. Use at least 10 characters.");
        added(&instance, &ada, "correct horse").await.unwrap();
        let twice = added(&instance, &ada, "battery staple").await.unwrap_err();
        assert_eq!(twice.to_string(), "ada@example.org has an account already. Nothing was changed.");
        let nobody = add(&["--email", "ada", "--role", "user"]).unwrap();
        assert!(added(&instance, &nobody, "correct horse").await.unwrap_err().to_string().contains("name@example.org"));
    }

    #[test]
    fn options_are_checked() {
        let role = add(&["--email", "ada@example.org", "--role", "owner"]).unwrap_err();
        assert!(role.to_string().contains("write admin or user"));
        let zone = add(&["--email", "ada@example.org", "--role", "user", "--zone", "Mars"]).unwrap_err();
        assert!(zone.to_string().contains("IANA name"));
        assert_eq!(add(&["--email", "ada@example.org", "--role", "user"]).unwrap().zone, Tz::UTC);
    }

    #[tokio::test]
    async fn a_token_is_printed_alone_and_may_do_what_was_asked_for() {
        let instance = Instance::new().await;
        let ada = instance.person("ada@example.org", "correct horse", Role::User).await;
        let (read, write) = (["--scope", "reports:read"], ["--scope", "reports:write"]);
        for (arguments, scopes) in [
            (vec![], Scopes::ALL),
            (read.to_vec(), Scopes::READ),
            (write.to_vec(), [Scope::Write].into_iter().collect()),
            ([write, read].concat(), Scopes::ALL),
        ] {
            let mut output = Vec::new();
            create_token(&instance.store, &token(&arguments).unwrap(), &mut output).await.unwrap();
            let printed = String::from_utf8(output).unwrap();
            let token = BearerSecret::received(printed.strip_suffix('\n').unwrap());
            let grant = instance.store.token_by_secret(&token).await.unwrap().unwrap();
            assert_eq!((grant.user.id, grant.scopes), (ada, scopes), "{arguments:?}");
            assert_eq!(instance.store.tokens_of(ada).await.unwrap()[0].name, "Command line");
        }
        let unknown = token(&["--scope", "everything"]).unwrap_err();
        assert!(unknown.to_string().contains("write reports:read or reports:write"), "{unknown}");
    }

    #[tokio::test]
    async fn a_token_needs_a_person() {
        let instance = Instance::new().await;
        let options = CreateToken { email: "bob@example.org".into(), ..token(&[]).unwrap() };
        let mut output = Vec::new();
        let error = create_token(&instance.store, &options, &mut output).await.unwrap_err();
        assert!(error.to_string().starts_with("Nobody has the address bob@example.org."));
        assert!(output.is_empty());
    }

    #[test]
    fn the_password_is_the_first_line() {
        assert_eq!(first_line(" correct horse \r\nmore\n".as_bytes()).unwrap(), " correct horse ");
        assert_eq!(first_line("no line end".as_bytes()).unwrap(), "no line end");
        assert!(first_line("\n".as_bytes()).is_err());
        assert!(first_line("".as_bytes()).is_err());
    }
}
