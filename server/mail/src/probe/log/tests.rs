//! Files as they are found: huge, binary, growing, rotated, missing.

use std::{fs, io::Write as _};

use tempfile::TempDir;

use super::*;
use crate::probe::tests::wanted;

const LINE: &str = "2026-11-29 18:00:00 1vPk3F-0004ab-Cd <= r@e.org H=(c) [127.0.0.1] P=esmtp S=812 id=1@e.org";

async fn look(path: &Path) -> Finding {
    let settings = LogSettings { path: path.to_path_buf(), format: LogFormat::Exim };
    LogFile::new(&settings).expect("settings").look(&wanted("<1@e.org>")).await
}

fn accepted(path: &Path) -> Finding {
    Finding::Accepted { evidence: format!("exim log {}: {LINE}", path.display()) }
}

#[tokio::test]
async fn the_line_is_found_in_the_log_and_in_the_rotated_one() {
    let folder = TempDir::new().expect("folder");
    let path = folder.path().join("mainlog");
    fs::write(&path, format!("noise\n{LINE}\nnoise\n")).expect("log");
    assert_eq!(look(&path).await, accepted(&path));
    fs::rename(&path, folder.path().join("mainlog.1")).expect("rotate");
    // In the moment of the rotation there may be no new one yet
    assert_eq!(look(&path).await, accepted(&path));
    fs::write(&path, "noise\n").expect("log");
    assert_eq!(look(&path).await, accepted(&path));
}

#[tokio::test]
async fn postfix_may_rotate_between_its_two_lines() {
    let folder = TempDir::new().expect("folder");
    let path = folder.path().join("mail.log");
    fs::write(folder.path().join("mail.log.1"), "n postfix/cleanup[1]: A1: message-id=<1@e.org>\n").expect("log");
    fs::write(&path, "n postfix/qmgr[2]: A1: from=<r@e.org>, size=1\n").expect("log");
    let settings = LogSettings { path, format: LogFormat::Postfix };
    let finding = LogFile::new(&settings).expect("settings").look(&wanted("<1@e.org>")).await;
    assert!(matches!(finding, Finding::Accepted { .. }), "{finding:?}");
}

#[tokio::test]
async fn a_line_that_is_still_being_written_waits_for_the_next_look() {
    let folder = TempDir::new().expect("folder");
    let path = folder.path().join("mainlog");
    fs::write(&path, LINE).expect("log");
    assert!(matches!(look(&path).await, Finding::Nothing { .. }));
    fs::OpenOptions::new().append(true).open(&path).expect("log").write_all(b"\n").expect("write");
    assert_eq!(look(&path).await, accepted(&path));
}

#[test]
fn only_the_end_of_a_long_log_is_read_and_only_whole_lines_of_it() {
    let folder = TempDir::new().expect("folder");
    let path = folder.path().join("mainlog");
    let noise = "x".repeat(100);
    fs::write(&path, format!("{noise}\n{LINE}\n{noise}\n")).expect("log");
    let from_the_line = (LINE.len() + 1 + noise.len() + 1) as u64;
    let read = |limit| read(&path, limit, &mut Exim::new("<1@e.org>")).expect("readable");
    assert_eq!(read(from_the_line), Outcome::Proof(LINE.to_owned()));
    // One byte less, and the line is not whole any more.
    assert!(matches!(read(from_the_line - 1), Outcome::Nothing(_)));
    assert!(matches!(read(0), Outcome::Nothing(_)));
}

#[tokio::test]
async fn binary_noise_and_endless_lines_do_no_harm() {
    let folder = TempDir::new().expect("folder");
    let path = folder.path().join("mainlog");
    let mut bytes: Vec<u8> = (0..=255).cycle().take(3_000_000).collect();
    bytes.extend_from_slice(&vec![b'x'; 3_000_000]);
    // The end of a line that is too long is not a line.
    bytes.extend_from_slice(LINE.as_bytes());
    bytes.push(b'\n');
    fs::write(&path, &bytes).expect("log");
    assert!(matches!(look(&path).await, Finding::Nothing { .. }));
    bytes.extend_from_slice(LINE.as_bytes());
    bytes.push(b'\n');
    fs::write(&path, &bytes).expect("log");
    assert_eq!(look(&path).await, accepted(&path));
}

#[tokio::test]
async fn what_cannot_be_read_says_so() {
    let folder = TempDir::new().expect("folder");
    for path in [folder.path().join("missing"), folder.path().to_path_buf()] {
        let Finding::Failed { reason } = look(&path).await else { panic!("there is no log") };
        assert!(reason.contains(&path.display().to_string()), "{reason}");
    }
    let relative = LogSettings { path: "mainlog".into(), format: LogFormat::Exim };
    assert!(LogFile::new(&relative).is_err());
}
