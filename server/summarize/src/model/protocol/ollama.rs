//! Ollama's own `/api/chat`: one JSON object a line.

use super::{Answer, Heard, Question, Request, number, text};
use serde_json::{Value, json};

pub(super) fn request(question: Question<'_>) -> Request {
    let mut options = json!({"num_predict": question.settings.max_output_tokens});
    if let Some(temperature) = question.settings.temperature {
        options["temperature"] = temperature.into();
    }
    let body = json!({
        "model": question.settings.model,
        "stream": true,
        "options": options,
        "messages": question.messages(),
    });
    Request { path: "api/chat".to_owned(), headers: Vec::new(), body }
}

pub(super) fn hear(answer: &mut Answer, event: &Value) -> Heard {
    let thinking = [text(event, "/message/thinking"), text(event, "/message/reasoning_content")].concat();
    let heard = answer.add(text(event, "/message/content"), &thinking);
    if event.get("done") != Some(&Value::Bool(true)) {
        return heard;
    }
    answer.ended_by(event.get("done_reason").and_then(Value::as_str));
    answer.counted(number(event, "/prompt_eval_count"), number(event, "/eval_count"));
    Heard::End
}
