//! TLS in both forms, with certificates made on the spot: a CA, and a leaf apart from it.

use std::io::Write as _;

use mail::{
    channel::{Channel, Delivery, DeliveryPhase, Retry, Stop},
    smtp::{Security, SettingsError, Smtp, SmtpSettings},
};
use secrecy::SecretString;
use tempfile::NamedTempFile;

use crate::support::{
    mail::{Record, message},
    smtp_server::{Act::Say, EHLO_STARTTLS, Encryption, Script, Server},
    tls::{certificate, settings},
};

fn tls_settings(port: u16, security: Security, ca: Option<&NamedTempFile>) -> SmtpSettings {
    SmtpSettings { username: Some("u".into()), password: Some(SecretString::from("p")), ..settings(port, security, ca) }
}

fn starttls_script() -> Script {
    Script { ehlo: Say(EHLO_STARTTLS), ..Script::default() }
}

async fn deliver(server: &Server, settings: &SmtpSettings) -> Delivery {
    let smtp = Smtp::new(settings).expect("settings");
    let (record, stop, message) = (Record::allowing(), Stop::default(), message());
    let delivery = smtp.deliver(&message, &record, &stop).await;
    server.finished().await;
    delivery
}

fn needs_person(delivery: &Delivery, phase: DeliveryPhase) -> bool {
    matches!(delivery, Delivery::NotAccepted { phase: at, retry: Retry::NeedsPerson, .. } if *at == phase)
}

#[tokio::test]
async fn implicit_tls_and_starttls_both_deliver() {
    for security in [Security::Tls, Security::StartTls] {
        let (acceptor, ca) = certificate("localhost");
        let (script, encryption) = match security {
            Security::StartTls => (starttls_script(), Encryption::StartTls(acceptor)),
            _ => (Script::default(), Encryption::Implicit(acceptor)),
        };
        let server = Server::start_encrypted(script, encryption);
        let delivery = deliver(&server, &tls_settings(server.port, security, Some(&ca))).await;
        assert!(matches!(delivery, Delivery::Accepted { .. }), "{delivery:?}");
        assert_eq!(server.commits(), 1);
        let lines = server.lines();
        let auth = lines.iter().position(|line| line.starts_with("AUTH "));
        let starttls = lines.iter().position(|line| line == "STARTTLS");
        assert!(auth > starttls, "the password never goes before TLS: {lines:?}");
        assert_eq!(starttls.is_some(), security == Security::StartTls);
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_or_for_another_name_needs_a_person() {
    for security in [Security::Tls, Security::StartTls] {
        for name in ["localhost", "other.example.org"] {
            let (acceptor, ca) = certificate(name);
            let (script, encryption, phase) = match security {
                Security::StartTls => (starttls_script(), Encryption::StartTls(acceptor), DeliveryPhase::StartTls),
                _ => (Script::default(), Encryption::Implicit(acceptor), DeliveryPhase::Connect),
            };
            let server = Server::start_encrypted(script, encryption);
            // The right name without the CA, or the CA with the wrong name
            let trusted = (name != "localhost").then_some(&ca);
            let delivery = deliver(&server, &tls_settings(server.port, security, trusted)).await;
            assert!(needs_person(&delivery, phase), "{delivery:?}");
            assert_eq!(server.commits(), 0);
            assert!(!server.lines().iter().any(|line| line.starts_with("AUTH ")));
        }
    }
}

#[tokio::test]
async fn a_server_without_starttls_gets_neither_password_nor_message() {
    let server = Server::start(Script::default());
    let delivery = deliver(&server, &tls_settings(server.port, Security::StartTls, None)).await;
    assert!(needs_person(&delivery, DeliveryPhase::StartTls), "{delivery:?}");
    assert!(server.lines().iter().all(|line| line.starts_with("EHLO ") || line == "QUIT"));
}

#[tokio::test]
async fn tls_to_a_port_that_speaks_plain_smtp_needs_a_person() {
    let server = Server::start(Script::default());
    let delivery = deliver(&server, &tls_settings(server.port, Security::Tls, None)).await;
    assert!(needs_person(&delivery, DeliveryPhase::Connect), "{delivery:?}");
    assert_eq!(server.commits(), 0);
}

/// Someone on the path sends, behind the server's own 220, the replies to everything that follows.
/// Without the one-byte reads of the clear-text part each of them would be believed.
#[tokio::test]
async fn replies_smuggled_in_before_tls_are_not_believed() {
    let forged: [&'static [u8]; 2] = [
        b"220 go\r\n250 mx\r\n",
        b"220 go\r\n250-mx\r\n250 AUTH PLAIN\r\n235 ok\r\n250 mx\r\n250 ok\r\n250 ok\r\n354 go\r\n250 queued\r\n",
    ];
    for bytes in forged {
        let (acceptor, ca) = certificate("localhost");
        let script = Script { starttls: Say(bytes), ..starttls_script() };
        let server = Server::start_encrypted(script, Encryption::StartTls(acceptor));
        let settings = tls_settings(server.port, Security::StartTls, Some(&ca));
        let delivery = deliver(&server, &settings).await;
        assert!(needs_person(&delivery, DeliveryPhase::StartTls), "{delivery:?}");
        assert_eq!(server.commits(), 0);
    }
}

#[test]
fn a_ca_file_that_is_none_is_named() {
    let mut file = NamedTempFile::new().expect("file");
    file.write_all(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").expect("write");
    let settings = tls_settings(465, Security::Tls, Some(&file));
    assert!(matches!(Smtp::new(&settings), Err(SettingsError::Tls(_))));
    let path = file.path().to_path_buf();
    drop(file);
    let Err(error) = Smtp::new(&settings) else {
        panic!("the file is gone");
    };
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
}
