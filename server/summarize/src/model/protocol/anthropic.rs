//! Anthropic's Messages API.

use super::{Answer, Heard, Question, Request, number, text};
use serde_json::{Value, json};

const VERSION: &str = "2023-06-01";

pub(super) fn request(question: Question<'_>) -> Request {
    let mut body = json!({
        "model": question.settings.model,
        "stream": true,
        "system": question.system,
        "messages": [{"role": "user", "content": question.user}],
        "max_tokens": question.settings.max_output_tokens,
    });
    if let Some(temperature) = question.settings.temperature {
        body["temperature"] = temperature.into();
    }
    let mut headers = vec![("anthropic-version", VERSION.to_owned())];
    headers.extend(question.key.map(|key| ("x-api-key", key.to_owned())));
    Request { path: "messages".to_owned(), headers, body }
}

pub(super) fn hear(answer: &mut Answer, event: &Value) -> Heard {
    match text(event, "/type") {
        "message_start" => {
            // What was read from or written to the cache is counted apart.
            let counts = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
            let counted: Vec<u64> = counts.iter().filter_map(|name| number(event, &format!("/message/usage/{name}"))).collect();
            let tokens_in = (!counted.is_empty()).then(|| counted.iter().sum());
            answer.counted(tokens_in, number(event, "/message/usage/output_tokens"));
            Heard::Nothing
        }
        "message_delta" => {
            answer.counted(None, number(event, "/usage/output_tokens"));
            answer.ended_by(event.pointer("/delta/stop_reason").and_then(Value::as_str));
            Heard::Nothing
        }
        "content_block_start" => answer.add(text(event, "/content_block/text"), text(event, "/content_block/thinking")),
        "content_block_delta" => answer.add(text(event, "/delta/text"), text(event, "/delta/thinking")),
        "message_stop" => Heard::End,
        _ => Heard::Nothing,
    }
}
