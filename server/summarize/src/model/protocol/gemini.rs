//! Google's Gemini API.

use super::{Answer, Heard, Question, Request, number, text};
use serde_json::{Value, json};

pub(super) fn request(question: Question<'_>) -> Request {
    let mut config = json!({"maxOutputTokens": question.settings.max_output_tokens});
    if let Some(temperature) = question.settings.temperature {
        config["temperature"] = temperature.into();
    }
    let body = json!({
        "systemInstruction": {"parts": [{"text": question.system}]},
        "contents": [{"role": "user", "parts": [{"text": question.user}]}],
        "generationConfig": config,
    });
    let path = format!("models/{}:streamGenerateContent?alt=sse", question.settings.model);
    Request { path, headers: question.key.map(|key| ("x-goog-api-key", key.to_owned())).into_iter().collect(), body }
}

pub(super) fn hear(answer: &mut Answer, event: &Value) -> Heard {
    let tokens_in = number(event, "/usageMetadata/promptTokenCount");
    let thought = number(event, "/usageMetadata/thoughtsTokenCount").unwrap_or_default();
    // What was thought is counted apart.
    let tokens_out = number(event, "/usageMetadata/candidatesTokenCount").map(|said| said + thought);
    answer.counted(tokens_in, tokens_out);
    let parts = event.pointer("/candidates/0/content/parts").and_then(Value::as_array);
    let (mut piece, mut thinking) = (String::new(), String::new());
    for part in parts.into_iter().flatten() {
        let is_thought = part.get("thought") == Some(&Value::Bool(true));
        if is_thought { &mut thinking } else { &mut piece }.push_str(text(part, "/text"));
    }
    let heard = answer.add(&piece, &thinking);
    let blocked = event.pointer("/promptFeedback/blockReason").and_then(Value::as_str);
    answer.refused |= blocked.is_some();
    let finished = event.pointer("/candidates/0/finishReason").and_then(Value::as_str);
    answer.ended_by(finished.or(blocked));
    if finished.or(blocked).is_some() { Heard::End } else { heard }
}
