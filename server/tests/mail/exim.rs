//! The same promises against a real mail server: exim 4, where it is installed.
//!
//! It queues what it takes (`queue_only`), so nothing leaves the test.

use std::time::Duration;

use mail::{
    channel::{Channel, Delivery, DeliveryPhase, Outgoing, Retry, Stop},
    smtp::{Smtp, SmtpSettings},
};
use uuid::Uuid;

use crate::support::{
    exim::Exim,
    mail::{Record, message_with_id, settings},
};

const CONFIGURATION: &str = r"
log_selector = +msg_id +smtp_connection
queue_only = true
acl_smtp_rcpt = acl_rcpt
acl_smtp_data = acl_data
begin acl
acl_rcpt:
  deny  local_parts = nobody
        message = 5.1.1 no such user
  defer local_parts = later
        message = 4.2.1 not now
  accept
acl_data:
  defer  condition = ${if match{$recipients}{softdot}}
         message = 4.3.0 try later
  deny   condition = ${if match{$recipients}{harddot}}
         message = 5.7.1 not this
  accept condition = ${if match{$recipients}{slowdot}}
         delay = 10s
  accept condition = ${if match{$recipients}{thinkdot}}
         delay = 1s
  accept
begin routers
all:
  driver = accept
  transport = nowhere
begin transports
nowhere:
  driver = appendfile
  file = /dev/null
";

async fn deliver(exim: &Exim, to: &str, change: impl FnOnce(&mut SmtpSettings)) -> (Outgoing, Delivery) {
    let mut settings = settings(exim.port);
    change(&mut settings);
    let smtp = Smtp::new(&settings).expect("settings");
    let message = message_with_id(&format!("<{}@example.org>", Uuid::new_v4().simple()), "hi");
    let message = Outgoing { to: format!("{to}@exim.test").parse().expect("address"), ..message };
    let delivery = smtp.deliver(&message, &Record::allowing(), &Stop::default()).await;
    (message, delivery)
}

#[tokio::test]
async fn a_real_server_and_recount_tell_the_same_story() {
    let Some(exim) = Exim::start(CONFIGURATION).await else {
        return;
    };

    for (to, phase, code, retry) in [
        ("nobody", DeliveryPhase::RcptTo, "550 ", Retry::NeedsPerson),
        ("later", DeliveryPhase::RcptTo, "451 ", Retry::Later),
        ("softdot", DeliveryPhase::FinalDot, "451 ", Retry::Later),
        ("harddot", DeliveryPhase::FinalDot, "550 ", Retry::NeedsPerson),
    ] {
        let (message, delivery) = deliver(&exim, to, |_| {}).await;
        let Delivery::NotAccepted { phase: at, evidence, retry: who } = delivery else {
            panic!("{to}: {delivery:?}");
        };
        assert_eq!((at, who), (phase, retry), "{to}: {evidence}");
        assert!(evidence.starts_with(code), "{to}: {evidence}");
        assert_eq!(exim.accepted(&message), 0, "{}", exim.log());
    }

    // A client that does not wait as long as the server thinks
    let (_, delivery) = deliver(&exim, "slowdot", |s| {
        s.timeouts.final_dot = Duration::from_millis(200);
    })
    .await;
    assert!(matches!(delivery, Delivery::Unconfirmed { .. }), "{delivery:?}");

    let (message, delivery) = deliver(&exim, "anna", |_| {}).await;
    let Delivery::Accepted { evidence, .. } = delivery else {
        panic!("{delivery:?}\n{}", exim.log());
    };
    assert!(evidence.starts_with("250 OK id="), "{evidence}");
    assert_eq!(exim.accepted(&message), 1, "{}", exim.log());

    let (message, delivery) = deliver(&exim, "thinkdot", |_| {}).await;
    assert!(matches!(delivery, Delivery::Accepted { .. }), "{delivery:?}");
    assert_eq!(exim.accepted(&message), 1, "{}", exim.log());
}
