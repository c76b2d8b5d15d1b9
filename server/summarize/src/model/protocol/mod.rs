//! The languages of model servers: what each is sent, and what the events of its stream say.
//!
//! An event is told apart from the next by [`Events`](super::events::Events), so nothing here waits for anything.

mod anthropic;
mod gemini;
mod ollama;
mod open_ai;

use super::events::Framing;
use super::settings::{ModelSettings, Provider};
use crate::ledger::CallEvidence;
use serde_json::Value;

/// A request, without the parts that are the same for all servers.
pub(super) struct Request {
    /// What follows the server's address.
    pub(super) path: String,
    /// Headers for this kind of server, with the key where it wants one.
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Value,
}

/// What is asked.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) settings: &'a ModelSettings,
    pub(super) key: Option<&'a str>,
    pub(super) system: &'a str,
    pub(super) user: &'a str,
}

impl Question<'_> {
    /// The question in the server's language. It always asks for a stream.
    pub(super) fn request(self) -> Request {
        match self.settings.provider {
            Provider::OpenAiCompatible => open_ai::request(self),
            Provider::Anthropic => anthropic::request(self),
            Provider::Ollama => ollama::request(self),
            Provider::Gemini => gemini::request(self),
        }
    }

    /// The messages, as most servers take them.
    fn messages(self) -> Value {
        serde_json::json!([{"role": "system", "content": self.system}, {"role": "user", "content": self.user}])
    }
}

/// How a server tells its events apart.
pub(super) fn framing(provider: Provider) -> Framing {
    match provider {
        Provider::Ollama => Framing::Lines,
        Provider::OpenAiCompatible | Provider::Anthropic | Provider::Gemini => Framing::ServerSentEvents,
    }
}

/// What was heard of an answer so far.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) text: String,
    /// Counts the characters of the text; the rest comes from the server.
    pub(super) evidence: CallEvidence,
    /// Said outside the text.
    pub(super) refused: bool,
}

/// What one event brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// A keep-alive, a number: no progress.
    Nothing,
    /// A piece of the answer, or of the thinking before it.
    Progress,
    /// The answer is complete.
    End,
}

/// An event that no answer can go on after.
#[derive(Debug, PartialEq)]
pub(super) enum Unavailable {
    /// The server says that it gives up.
    Said(Value),
    /// No event of this kind of server.
    Foreign,
}

impl Answer {
    /// Takes in the data of one event.
    pub(super) fn hear(&mut self, provider: Provider, data: &[u8]) -> Result<Heard, Unavailable> {
        if provider == Provider::OpenAiCompatible && data == b"[DONE]" {
            return Ok(Heard::End);
        }
        let event: Value = serde_json::from_slice(data).map_err(|_| Unavailable::Foreign)?;
        if event.get("error").is_some_and(|error| !error.is_null()) {
            return Err(Unavailable::Said(event));
        }
        if self.evidence.provider_id.is_none() {
            let id = ["/id", "/message/id", "/responseId"].iter().find_map(|path| event.pointer(path)?.as_str());
            self.evidence.provider_id = id.map(|id| id.chars().filter(|c| !c.is_control()).take(200).collect());
        }
        Ok(match provider {
            Provider::OpenAiCompatible => open_ai::hear(self, &event),
            Provider::Anthropic => anthropic::hear(self, &event),
            Provider::Ollama => ollama::hear(self, &event),
            Provider::Gemini => gemini::hear(self, &event),
        })
    }

    /// A piece of the answer's text, and of the thinking before it. An empty one is no progress.
    fn add(&mut self, text: &str, thinking: &str) -> Heard {
        self.text.push_str(text);
        self.evidence.characters += u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        if text.is_empty() && thinking.is_empty() { Heard::Nothing } else { Heard::Progress }
    }

    fn ended_by(&mut self, reason: Option<&str>) {
        if let Some(reason) = reason {
            self.evidence.finish_reason = Some(reason.to_owned());
        }
    }

    fn counted(&mut self, tokens_in: Option<u64>, tokens_out: Option<u64>) {
        self.evidence.tokens_in = tokens_in.or(self.evidence.tokens_in);
        self.evidence.tokens_out = tokens_out.or(self.evidence.tokens_out);
    }

    /// Why it ended, from the server's own word.
    pub(super) fn stop(&self) -> Stop {
        if self.refused {
            return Stop::Refused;
        }
        match self.evidence.finish_reason.as_deref().unwrap_or_default() {
            "length" | "max_tokens" | "MAX_TOKENS" | "incomplete" | "model_context_window_exceeded" | "model_length" => {
                Stop::CutOff
            }
            "tool_calls" | "tool_use" | "function_call" => Stop::WantsTool,
            "content_filter"
            | "refusal"
            | "SAFETY"
            | "RECITATION"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION"
            | "LANGUAGE"
            | "ERROR_TOXIC" => Stop::Refused,
            _ => Stop::Complete,
        }
    }
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The model had said all, or the server has a word of its own for why not.
    Complete,
    /// At the limit of its length.
    CutOff,
    /// For a tool; it has none.
    WantsTool,
    Refused,
}

/// The text at a path; empty where there is none.
fn text<'a>(event: &'a Value, path: &str) -> &'a str {
    event.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// The number at a path.
fn number(event: &Value, path: &str) -> Option<u64> {
    event.pointer(path)?.as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn heard(provider: Provider, event: &Value) -> (Answer, Result<Heard, Unavailable>) {
        let mut answer = Answer::default();
        let heard = answer.hear(provider, event.to_string().as_bytes());
        (answer, heard)
    }

    #[test]
    fn thinking_is_progress_but_no_part_of_the_answer() {
        for (provider, event) in [
            (Provider::OpenAiCompatible, json!({"choices": [{"delta": {"content": "", "reasoning_content": "Hm"}}]})),
            (Provider::OpenAiCompatible, json!({"choices": [{"delta": {"content": null, "reasoning": "Hm"}}]})),
            (
                Provider::OpenAiCompatible,
                json!({"choices": [{"delta": {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]}}]}),
            ),
            (Provider::Anthropic, json!({"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "Hm"}})),
            (Provider::Ollama, json!({"message": {"content": "", "thinking": "Hm"}, "done": false})),
            (Provider::Gemini, json!({"candidates": [{"content": {"parts": [{"text": "Hm", "thought": true}]}}]})),
        ] {
            let (answer, heard) = heard(provider, &event);
            assert_eq!((heard, answer.text.as_str()), (Ok(Heard::Progress), ""), "{event}");
        }
    }

    #[test]
    fn what_brings_no_piece_of_an_answer_is_no_progress() {
        for (provider, event) in [
            (Provider::OpenAiCompatible, json!({"choices": [{"delta": {"role": "assistant", "content": ""}}]})),
            (Provider::OpenAiCompatible, json!({"choices": [], "usage": null, "error": null})),
            (Provider::OpenAiCompatible, json!("pong")),
            (Provider::Anthropic, json!({"type": "ping"})),
            (Provider::Anthropic, json!({"type": "content_block_delta", "delta": {"type": "signature_delta", "signature": "x"}})),
            (Provider::Ollama, json!({"message": {"content": ""}, "done": false})),
            (Provider::Gemini, json!({"usageMetadata": {"promptTokenCount": 7}})),
        ] {
            assert_eq!(heard(provider, &event).1, Ok(Heard::Nothing), "{event}");
        }
    }

    #[test]
    fn a_server_that_gives_up_and_one_that_is_none_are_told_apart() {
        let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
        for provider in [Provider::OpenAiCompatible, Provider::Anthropic, Provider::Ollama, Provider::Gemini] {
            assert_eq!(heard(provider, &overloaded).1, Err(Unavailable::Said(overloaded.clone())));
            assert_eq!(Answer::default().hear(provider, b"<html>"), Err(Unavailable::Foreign));
        }
    }

    #[test]
    fn a_refusal_is_seen_wherever_a_server_puts_it() {
        for (provider, event) in [
            (Provider::OpenAiCompatible, json!({"choices": [{"delta": {"refusal": "I cannot."}}]})),
            (Provider::OpenAiCompatible, json!({"choices": [{"delta": {}, "finish_reason": "content_filter"}]})),
            (Provider::Anthropic, json!({"type": "message_delta", "delta": {"stop_reason": "refusal"}})),
            (Provider::Gemini, json!({"candidates": [{"finishReason": "SAFETY"}]})),
            (Provider::Gemini, json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})),
        ] {
            let (answer, heard) = heard(provider, &event);
            assert!(heard.is_ok() && answer.stop() == Stop::Refused, "{event}");
        }
    }

    #[test]
    fn tokens_are_counted_with_what_was_thought_and_what_was_cached() {
        let usage = json!({"input_tokens": 5, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 100});
        let start = json!({"type": "message_start", "message": {"id": "m", "usage": usage}});
        assert_eq!(heard(Provider::Anthropic, &start).0.evidence.tokens_in, Some(125));
        let counted = json!({"promptTokenCount": 9, "candidatesTokenCount": 3, "thoughtsTokenCount": 4});
        let end = json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": counted});
        let (answer, heard) = heard(Provider::Gemini, &end);
        assert_eq!((answer.evidence.tokens_in, answer.evidence.tokens_out, heard), (Some(9), Some(7), Ok(Heard::End)));
    }
}
