//! `/chat/completions`, as `OpenAI` defined it and many servers copy it.

use super::{Answer, Heard, Question, Request, number, text};
use serde_json::{Value, json};

pub(super) fn request(question: Question<'_>) -> Request {
    let model = question.settings.model.as_str();
    let mut body = json!({
        "model": model,
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": question.messages(),
    });
    // Newer models of OpenAI refuse the older name; most other servers know no other.
    let is_newer = ["gpt-5", "gpt-6", "o1", "o3", "o4"].iter().any(|family| model.starts_with(family));
    body[if is_newer { "max_completion_tokens" } else { "max_tokens" }] = question.settings.max_output_tokens.into();
    if let Some(temperature) = question.settings.temperature {
        body["temperature"] = temperature.into();
    }
    let headers = question.key.map(|key| ("authorization", format!("Bearer {key}"))).into_iter().collect();
    Request { path: "chat/completions".to_owned(), headers, body }
}

pub(super) fn hear(answer: &mut Answer, event: &Value) -> Heard {
    answer.counted(number(event, "/usage/prompt_tokens"), number(event, "/usage/completion_tokens"));
    let Some(choice) = event.pointer("/choices/0") else { return Heard::Nothing };
    answer.ended_by(choice.get("finish_reason").and_then(Value::as_str));
    let refusal = text(choice, "/delta/refusal");
    answer.refused |= !refusal.is_empty();
    let mut thinking = [text(choice, "/delta/reasoning_content"), text(choice, "/delta/reasoning"), refusal].concat();
    match choice.pointer("/delta/content") {
        Some(Value::String(piece)) => answer.add(piece, &thinking),
        // Mistral's reasoning models send parts.
        Some(Value::Array(parts)) => {
            let mut piece = String::new();
            for part in parts {
                piece.push_str(text(part, "/text"));
                thinking.push_str(text(part, "/thinking"));
                let thoughts = part.get("thinking").and_then(Value::as_array);
                thinking.extend(thoughts.into_iter().flatten().map(|thought| text(thought, "/text")));
            }
            answer.add(&piece, &thinking)
        }
        _ => answer.add("", &thinking),
    }
}
