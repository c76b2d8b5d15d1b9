//! Servers that refuse, break or fall silent.

use super::*;

#[tokio::test]
async fn what_cannot_pass_is_not_tried_again() {
    for (reaction, end) in [
        (Reaction::Status(401, "", ""), "answered 401: check the key."),
        (Reaction::Status(404, "", ""), "answered 404: check the model's name and the server's address."),
        (Reaction::Status(302, "location: /elsewhere\r\n", ""), "answered 302, a redirect: set the address it leads to."),
        (Reaction::Status(400, "", "{\"error\":{\"message\":\"Too <b>long</b>.\"}}"), "answered 400: Too long."),
    ] {
        let (outcome, server) = run_against(reaction).await;
        assert_eq!(outcome.reason(), format!("The model server at {} {end}", server.address));
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_busy_server_is_asked_again_when_it_said() {
    let server = FakeServer::start(vec![Reaction::Status(429, "retry-after: 0\r\n", ""), answer("- Fine [1:1]", "stop")]).await;
    // Were the server's word not followed, the first back-off alone would outlast the test.
    let outcome = run(ModelSettings { first_backoff: LONG, ..settings(&server) }, &minutes()).await;
    assert!(outcome.result.is_ok());
    assert_eq!(
        outcome.ledger.intents().iter().map(|intent| (intent.number, intent.attempt)).collect::<Vec<_>>(),
        [(1, 1), (1, 2)]
    );
    assert!(matches!(&outcome.ledger.outcomes()[..], [CallOutcome::Failed { .. }, CallOutcome::Answered { .. }]));
}

#[tokio::test]
async fn a_server_that_stays_broken_is_given_up() {
    let (outcome, server) = run_against(Reaction::Status(500, "", "")).await;
    assert_eq!(outcome.reason(), format!("The model server at {} answered 500. Given up after 3 attempts.", server.address));
    assert_eq!((server.requests().len(), outcome.ledger.outcomes().len()), (3, 3));
}

#[tokio::test]
async fn a_lost_connection_is_tried_again_and_recorded_as_broken_off() {
    let server =
        FakeServer::start(vec![Reaction::Stream(vec![chunk("- Ha"), Step::Reset]), answer("- Fine [1:1]", "stop")]).await;
    let outcome = run(settings(&server), &minutes()).await;
    assert_eq!(outcome.result.expect("the second attempt answers").sections[0].statements[0].text, "Fine");
    assert!(matches!(
        &outcome.ledger.outcomes()[..],
        [CallOutcome::BrokenOff { received_characters: 4, .. }, CallOutcome::Answered { .. }]
    ));
}

#[tokio::test]
async fn an_answer_without_its_end_is_not_taken_for_whole() {
    let (outcome, server) = run_against(Reaction::Stream(vec![chunk("- Half [1:1]"), Step::Finish])).await;
    assert!(outcome.reason().contains("closed the connection before the end of its answer"));
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_server_out_of_reach_is_named() {
    let unused = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
    let address = unused.local_addr().expect("it is bound").to_string();
    drop(unused);
    let server = FakeServer::start(vec![Reaction::Silence]).await;
    let outcome = run(ModelSettings { base_url: Some(format!("http://{address}/v1")), ..settings(&server) }, &minutes()).await;
    assert_eq!(outcome.reason(), format!("The model server at {address} cannot be reached. Given up after 3 attempts."));
}

#[tokio::test]
async fn silence_and_keep_alives_end_at_the_idle_timeout() {
    let short = Duration::from_millis(150);
    let keep_alives = Reaction::Stream(vec![Step::Drip(": keep-alive\n\n".to_owned())]);
    let empty_deltas =
        Reaction::Stream(vec![Step::Drip("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"}}]}\n\n".to_owned())]);
    for reaction in [Reaction::Silence, Reaction::Stream(vec![Step::Hang]), keep_alives, empty_deltas] {
        let mut server = FakeServer::start(vec![reaction]).await;
        let outcome = run(ModelSettings { idle_timeout: short, ..settings(&server) }, &minutes()).await;
        assert_eq!(outcome.reason(), format!("The model server at {} sent nothing for 0.15 s.", server.address));
        assert!(matches!(&outcome.ledger.outcomes()[..], [CallOutcome::BrokenOff { received_characters: 0, .. }]));
        timeout(PATIENCE, server.closed.recv()).await.expect("the connection is closed").expect("the server lives");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_slow_answer_ends_at_the_maximum_timeout() {
    let Step::Send(piece) = chunk("word ") else { panic!("a chunk is sent") };
    let server = FakeServer::start(vec![Reaction::Stream(vec![Step::Drip(piece)])]).await;
    let outcome = run(ModelSettings { max_timeout: Duration::from_millis(300), ..settings(&server) }, &minutes()).await;
    assert_eq!(outcome.reason(), format!("The model server at {} did not finish within 0.3 s.", server.address));
    assert!(matches!(&outcome.ledger.outcomes()[..], [CallOutcome::BrokenOff { .. }]));
}

#[tokio::test]
async fn pings_are_no_progress() {
    let ping = Step::Drip("event: ping\ndata: {\"type\": \"ping\"}\n\n".to_owned());
    let server = FakeServer::start(vec![Reaction::Stream(vec![ping])]).await;
    let settings = ModelSettings {
        provider: Provider::Anthropic,
        api_key: Some("key".to_owned()),
        idle_timeout: Duration::from_millis(150),
        max_timeout: Duration::from_secs(5),
        ..settings(&server)
    };
    let outcome = run(settings, &minutes()).await;
    assert!(outcome.reason().ends_with("sent nothing for 0.15 s."), "{}", outcome.reason());
}
