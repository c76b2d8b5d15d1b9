//! Tests of sources on folders made for them.

use std::fs;
use std::path::Path;

use chrono_tz::Tz;

use super::count::{Count, count};
use super::*;
use crate::read::Limits;
use domain::period::Period;

const GO_ON: &dyn Fn() -> bool = &|| false;

fn folder(root: &Path) -> Folder {
    Folder { name: "Board".to_owned(), root: root.to_owned() }
}

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn names(listing: &Listing) -> Vec<&str> {
    listing.entries.iter().map(|entry| entry.name.as_str()).collect()
}

#[test]
fn a_folder_is_listed_with_all_below_it_sorted_and_without_hidden_files() {
    let root = tempfile::tempdir().unwrap();
    for name in ["b.md", "a/2.md", "a/1.md", ".hidden", ".git/config", "a/.x/y.md"] {
        write(root.path(), name, "text");
    }
    let source = Source::open(&folder(root.path())).unwrap();
    let listing = source.list(GO_ON);
    assert_eq!(names(&listing), ["a/1.md", "a/2.md", "b.md"]);
    assert_eq!(listing.incomplete, None);
    assert_eq!(source.read(&listing.entries[0], 100).unwrap(), b"text");
    assert!(listing.entries[0].modified.is_some());
}

#[test]
fn a_listing_can_be_stopped_between_entries() {
    let root = tempfile::tempdir().unwrap();
    for name in ["a.md", "b.md", "c.md"] {
        write(root.path(), name, "text");
    }
    let asked = std::cell::Cell::new(0);
    let listing = Source::open(&folder(root.path())).unwrap().list(&|| {
        asked.set(asked.get() + 1);
        asked.get() > 2
    });
    assert!(listing.stopped);
    assert_eq!(listing.entries.len(), 2);
}

#[cfg(unix)]
#[test]
fn links_that_lead_outside_are_listed_but_never_read() {
    use std::os::unix::fs::symlink;

    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "secret.md", "secret");
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "real.md", "text");
    symlink("real.md", root.path().join("inside.md")).unwrap();
    symlink(outside.path().join("secret.md"), root.path().join("absolute.md")).unwrap();
    let up = format!("../{}/secret.md", outside.path().file_name().unwrap().to_str().unwrap());
    symlink(up, root.path().join("dots.md")).unwrap();
    symlink(outside.path(), root.path().join("folder")).unwrap();
    symlink(".", root.path().join("loop")).unwrap();
    symlink("gone.md", root.path().join("nowhere.md")).unwrap();
    let source = Source::open(&folder(root.path())).unwrap();
    let listing = source.list(GO_ON);
    let trouble =
        |name: &str| listing.entries.iter().find(|entry| entry.name == name).unwrap().trouble.clone().unwrap_or_default();
    assert_eq!(trouble("absolute.md"), "it leads outside the folder");
    assert_eq!(trouble("dots.md"), "it leads outside the folder");
    assert_eq!(trouble("folder"), "it leads outside the folder");
    assert_eq!(trouble("loop"), "it is a link to a folder, which is not followed");
    assert_eq!(trouble("nowhere.md"), "it is a link that leads nowhere");
    assert_eq!(trouble("inside.md"), "");
    for entry in &listing.entries {
        let read = source.read(entry, 100);
        assert_eq!(read.is_ok(), ["real.md", "inside.md"].contains(&entry.name.as_str()), "{}", entry.name);
        if let Ok(bytes) = read {
            assert_eq!(bytes, b"text");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_file_exchanged_for_a_link_after_the_listing_is_not_followed_outside() {
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "secret.md", "secret");
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "a.md", "text");
    let source = Source::open(&folder(root.path())).unwrap();
    let listing = source.list(GO_ON);
    fs::remove_file(root.path().join("a.md")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret.md"), root.path().join("a.md")).unwrap();
    let error = source.read(&listing.entries[0], 100).unwrap_err();
    assert_eq!(error.to_string(), "a.md leads outside the folder. Put the document itself there.");
}

#[test]
fn a_file_over_the_limit_is_not_read_even_if_it_grew_after_the_listing() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "a.md", "text");
    let source = Source::open(&folder(root.path())).unwrap();
    let listing = source.list(GO_ON);
    assert!(source.read(&listing.entries[0], 4).is_ok());
    let error = source.read(&listing.entries[0], 3).unwrap_err();
    assert_eq!(error.to_string(), "a.md is too large: 4 bytes is over the limit of 3 bytes.");
    write(root.path(), "a.md", "longer text");
    assert!(matches!(source.read(&listing.entries[0], 4), Err(SourceError::TooLarge { .. })));
}

#[test]
fn a_single_file_is_a_source_too() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "2026-05/minutes.md", "text");
    write(root.path(), "2026-05/other.md", "other");
    let source = Source::open(&folder(&root.path().join("2026-05/minutes.md"))).unwrap();
    let listing = source.list(GO_ON);
    assert_eq!(names(&listing), ["minutes.md"]);
    assert_eq!(source.read(&listing.entries[0], 100).unwrap(), b"text");
}

#[test]
fn a_missing_folder_is_named_in_the_error() {
    let root = tempfile::tempdir().unwrap();
    let missing = root.path().join("gone");
    let error = Source::open(&folder(&missing)).unwrap_err();
    assert_eq!(error.to_string(), format!("{} does not exist. Check the path.", missing.display()));
}

#[test]
fn a_path_is_allowed_only_where_it_really_lies() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    write(&root, "board/2026/a.md", "text");
    write(&root, "private/b.md", "secret");
    let folders = [folder(&root.join("board"))];
    let place = allowed(&root.join("board/../board/2026"), &folders).unwrap();
    assert_eq!(place.inside(), Path::new("2026"));
    assert_eq!(names(&Source::open_place(&place).unwrap().list(GO_ON)), ["a.md"]);
    let place = allowed(&root.join("board/2026/a.md"), &folders).unwrap();
    let source = Source::open_place(&place).unwrap();
    assert_eq!(names(&source.list(GO_ON)), ["a.md"]);
    assert_eq!(source.read(&source.list(GO_ON).entries[0], 100).unwrap(), b"text");
    assert_eq!(allowed(&root.join("board"), &folders).unwrap().inside(), Path::new(""));
    let refused = |path: &str| allowed(&root.join(path), &folders).unwrap_err().to_string();
    for path in ["private/b.md", "board/../private", "private/gone.md", "board/../private/gone.md", "boardroom", ""] {
        let path = root.join(path);
        let message = allowed(&path, &folders).unwrap_err().to_string();
        let expected = format!("{} is outside the folders that the administrator allows: Board.", path.display());
        assert_eq!(message, expected);
    }
    assert!(refused("board/gone.md").ends_with("gone.md does not exist. Check the path."));
    assert!(allowed(&root, &[]).unwrap_err().to_string().ends_with("allows: none so far."));
}

#[cfg(unix)]
#[test]
fn a_link_out_of_an_allowed_folder_is_outside() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "board/a.md", "text");
    write(root.path(), "private/b.md", "secret");
    std::os::unix::fs::symlink("../private", root.path().join("board/link")).unwrap();
    let error = allowed(&root.path().join("board/link/b.md"), &[folder(&root.path().join("board"))]).unwrap_err();
    assert!(matches!(error, SourceError::Outside { .. }), "{error}");
}

#[test]
fn counting_follows_the_same_rules_as_collecting() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "2026-06-03.md", "by name");
    write(root.path(), "2026-06/plan.csv", "by folder");
    write(root.path(), "2026-05-01.md", "---\ndate: 2026-06-09\n---\nby front matter");
    write(root.path(), "a.eml", "From: a@example.org\nDate: Sun, 31 May 2026 23:30:00 +0000\n\nby the mail's date");
    write(root.path(), "page.html", "<meta name=date content=2026-06-20><p>by its properties");
    write(root.path(), "2026-05-02.md", "another month");
    write(root.path(), "2026-06-04.png", "\u{89}no picture that Recount reads\0\0\0");
    let source = Source::open(&folder(root.path())).unwrap();
    let month = "2026-06".parse().unwrap();
    let berlin = Period::new(month, Tz::Europe__Berlin).unwrap();
    let found = count(&source, &berlin, &Limits::default(), GO_ON);
    assert_eq!(found, Count { in_month: 5, other_months: 1, unreadable: 1, ..Default::default() });
    let utc = Period::new(month, Tz::UTC).unwrap();
    assert_eq!(count(&source, &utc, &Limits::default(), GO_ON).in_month, 4);
}
