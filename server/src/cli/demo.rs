//! The demo: sample documents of the last two months, an admin and a user. The months are chosen at the start, so that the form
//! opens on a month that has documents, whenever the demo is tried.

use super::say::say;
use anyhow::{Context, bail};
use contract::Month;
use documents::source::setting::{Reads, SourceSetting};
use domain::{
    clock::{Clock, SystemClock},
    people::{
        EmailAddress, Role,
        password::{self, NewPassword},
    },
    period::month_of,
};
use rust_embed::RustEmbed;
use std::{fs, path::Path};
use store::Store;

#[derive(RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/demo"]
struct Samples;

/// The people of the demo with their passwords.
const PEOPLE: [(&str, Role, &str); 2] =
    [("admin@example.org", Role::Admin, "demo-admin-password"), ("user@example.org", Role::User, "demo-user-password")];

/// Where they are: the month that the form opens on is the last one there.
const ZONE: chrono_tz::Tz = chrono_tz::Europe::Berlin;

/// Writes the sample documents into the data folder and returns the folders that hold them.
pub fn documents(data: &Path) -> anyhow::Result<Vec<SourceSetting>> {
    let today = SystemClock.now().with_timezone(&ZONE).date_naive();
    let last = month_of(today).and_then(Month::previous).context("the clock shows a year that Recount cannot handle")?;
    let earlier = last.previous().context("the clock shows a year that Recount cannot handle")?;
    let folder = data.join("demo-documents");
    for (part, subfolder) in [("minutes", "Team minutes"), ("business", "Business papers")] {
        fs::create_dir_all(folder.join(part)).with_context(|| format!("the folder for {subfolder} cannot be made"))?;
    }
    for name in Samples::iter() {
        let Some(sample) = Samples::get(&name) else { continue };
        let text = String::from_utf8_lossy(&sample.data).into_owned();
        let part =
            if name.contains("meeting") || name.contains("walk") || name.contains("review") { "minutes" } else { "business" };
        let day = name.get(..2).unwrap_or("01");
        // The month before has only some of them: two months that look alike would be no test of choosing one.
        let months = if part == "minutes" { vec![last, earlier] } else { vec![last] };
        for month in months {
            let filled = text
                .replace("{{month}}", &month.to_string())
                .replace("{{mail_date}}", &format!("{day} {} {} 09:30:00 +0000", &month.name()[..3], month.year()));
            fs::write(folder.join(part).join(format!("{month}-{name}")), filled)?;
        }
    }
    let folder = folder.canonicalize()?;
    Ok(vec![
        SourceSetting { name: "Team minutes".into(), reads: Reads::Folder(folder.join("minutes")) },
        SourceSetting { name: "Business papers".into(), reads: Reads::Folder(folder.join("business")) },
    ])
}

/// Refuses to serve a demo's data folder as a real one: everybody knows its passwords.
pub async fn refuse_people(store: &Store) -> anyhow::Result<()> {
    for (email, _, password) in PEOPLE {
        let known = store.credentials(&EmailAddress::parse(email)?).await?;
        if let Some((_, hash)) = known
            && password::verify(password.to_owned(), Some(hash)).await?
        {
            bail!(
                "This data folder is a demo's: {email} signs in with a password that everybody knows. Use another folder, or --demo."
            );
        }
    }
    Ok(())
}

/// Makes the people of the demo, unless they are there. A folder that is in use already is not turned into a demo.
pub async fn people(store: &Store) -> anyhow::Result<()> {
    let (first, ..) = PEOPLE[0];
    if store.users_exist().await? && store.user_by_email(&EmailAddress::parse(first)?).await?.is_none() {
        bail!(
            "This data folder has people of its own, and --demo would add accounts whose passwords everybody knows. Use another folder."
        );
    }
    for (email, role, password) in PEOPLE {
        let email = EmailAddress::parse(email)?;
        if store.user_by_email(&email).await?.is_none() {
            let hash = NewPassword::check(password.to_owned(), &email)?.hash().await?;
            store.create_user(&email, role, &hash, ZONE).await?;
        }
    }
    Ok(())
}

/// Prints how to sign in.
pub fn print_sign_in() {
    for (email, role, password) in PEOPLE {
        say!("Sign in as {}: {email} with the password {password}", role.name());
    }
}
