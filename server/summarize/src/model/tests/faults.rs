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
async fn a_busy_server_may_say_when_as_a_date_of_its_own_time() {
    let date = "date: Wed, 01 Jul 2026 08:00:00 GMT\r\nretry-after: Wed, 01 Jul 2026 08:00:00 GMT\r\n";
    let server = FakeServer::start(vec![Reaction::Status(503, date, ""), answer("- Fine [1:1]", "stop")]).await;
    let outcome = run(ModelSettings { first_backoff: LONG, ..settings(&server) }, &minutes()).await;
    assert!(outcome.result.is_ok());
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
        [CallOutcome::BrokenOff { received: Received { characters: 4, .. }, .. }, CallOutcome::Answered { .. }]
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
        assert!(matches!(
            &outcome.ledger.outcomes()[..],
            [CallOutcome::BrokenOff { received: Received { characters: 0, .. }, .. }]
        ));
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

/// More than what fits into the buffers of a few connections, and far less than a flood sends in the time of a test.
const SENT_AT_MOST: usize = 64 << 20;

async fn ends_with(server: &mut FakeServer, count: usize) {
    for _ in 0..count {
        timeout(PATIENCE, server.closed.recv()).await.expect("the connection is closed").expect("the server lives");
    }
    assert_eq!(server.requests().len(), count);
    assert!(server.flooded() < SENT_AT_MOST, "{} bytes were taken", server.flooded());
}

#[tokio::test]
async fn a_line_without_an_end_is_given_up_at_a_limit() {
    let open_ai = Provider::OpenAiCompatible;
    for (provider, beginning, again) in [
        (open_ai, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"", "x"),
        // A body that is no stream of events at all.
        (open_ai, "<html>", "<p>No model here, only a page that does not end.</p>"),
        (open_ai, "data: x\n", "data: x\n"),
        (Provider::Ollama, "{\"message\":{\"content\":\"", "x"),
    ] {
        let mut server = FakeServer::start(vec![Reaction::Flood(200, beginning, again)]).await;
        let outcome = run(ModelSettings { provider, ..settings(&server) }, &minutes()).await;
        let reason = format!("The model server at {} sent a line of more than 1 MiB without an end.", server.address);
        assert!(outcome.reason().starts_with(&reason), "{beginning}: {}", outcome.reason());
        let [CallOutcome::BrokenOff { received, .. }] = &outcome.ledger.outcomes()[..] else { panic!("one call") };
        assert!(received.characters == 0 && received.bytes > 1 << 20, "what came is said: {received:?}");
        ends_with(&mut server, 1).await;
    }
}

#[tokio::test]
async fn an_error_text_without_an_end_is_not_read_to_it() {
    let mut server = FakeServer::start(vec![Reaction::Flood(500, "{\"error\":\"", "x")]).await;
    let outcome = run(settings(&server), &minutes()).await;
    let told = "answered 500. What else it said was not read to its end. Given up after 3 attempts.";
    assert_eq!(outcome.reason(), format!("The model server at {} {told}", server.address));
    ends_with(&mut server, 3).await;
}

/// Thinking aloud is progress, and is not kept: it may go on until the maximum time is over, however fast it comes.
pub(super) const THINKING: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n";

#[tokio::test]
async fn a_flood_ends_at_the_maximum_timeout() {
    let mut server = FakeServer::start(vec![Reaction::Flood(200, "", THINKING)]).await;
    let outcome = run(ModelSettings { max_timeout: Duration::from_millis(200), ..settings(&server) }, &minutes()).await;
    assert_eq!(outcome.reason(), format!("The model server at {} did not finish within 0.2 s.", server.address));
    timeout(PATIENCE, server.closed.recv()).await.expect("the connection is closed").expect("the server lives");
}

#[tokio::test]
async fn a_flood_without_a_piece_of_an_answer_is_no_progress() {
    for again in [": keep-alive\n\n", "nothing of the kind\n", "data: {\"choices\":[{\"delta\":{\"content\":\"\"}}]}\n\n"] {
        let mut server = FakeServer::start(vec![Reaction::Flood(200, "", again)]).await;
        let outcome = run(ModelSettings { idle_timeout: Duration::from_millis(150), ..settings(&server) }, &minutes()).await;
        assert!(outcome.reason().ends_with(" for 0.15 s."), "{}", outcome.reason());
        assert!(matches!(
            &outcome.ledger.outcomes()[..],
            [CallOutcome::BrokenOff { received: Received { characters: 0, .. }, .. }]
        ));
        timeout(PATIENCE, server.closed.recv()).await.expect("the connection is closed").expect("the server lives");
    }
}
