//! What a mail server has accepted may still bounce, so no text of Recount says "delivered".

use std::{fs, path::Path};

/// The lines of code below a folder that say it, apart from comments, the name of a header, and the words of delivery reports
/// (RFC 3464), which others say.
fn said_in(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("an entry").path();
        if path.ends_with("mail/src/probe") {
            continue;
        }
        if path.is_dir() {
            said_in(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).expect("a source file");
            let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
            let says_it = |line: &&str| line.to_lowercase().replace("delivered-to", "").contains("delivered");
            found.extend(code.filter(says_it).map(|line| format!("{}: {}", path.display(), line.trim())));
        }
    }
}

#[test]
fn no_text_says_delivered() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let crates = ["../app", "../app/contract", ".", "domain", "store", "documents", "summarize", "mail"];
    for folder in crates {
        said_in(&root.join(folder).join("src"), &mut found);
    }
    assert!(found.is_empty(), "{found:#?}");
}
