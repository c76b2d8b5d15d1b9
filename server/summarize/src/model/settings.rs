//! How a model is reached and how much it is given.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Bytes of a prompt besides the documents: the rules, the title, the fences.
const PROMPT_FRAME: usize = 3_000;
/// Bytes taken for one token when nothing was counted yet. English has more than 4, German about 3.5 and Chinese about
/// 3, so this errs towards pieces that fit.
const BYTES_PER_TOKEN: usize = 3;

/// The protocol that a model server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    /// Any server with `/chat/completions` as `OpenAI` defined it.
    OpenAiCompatible,
    /// Anthropic's Messages API.
    Anthropic,
    /// Ollama's own API.
    Ollama,
    /// Google's Gemini API.
    Gemini,
}

/// How to reach and use a model.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSettings {
    /// The protocol.
    pub provider: Provider,
    /// The model's name, as the server knows it.
    pub model: String,
    /// The address before `/chat/completions`, `/messages` and so on, for example `http://127.0.0.1:8080/v1`. `None`
    /// means the provider's public address.
    pub base_url: Option<String>,
    /// The key, where the server wants one. Never shown, logged or stored with a report.
    #[serde(skip_serializing)]
    pub api_key: Option<String>,
    /// Tokens that prompt and answer may have together. With Ollama this must not exceed the context length that the
    /// server was started with, which would otherwise cut off prompts without a word.
    pub context_tokens: u32,
    /// Tokens that an answer may have.
    pub max_output_tokens: u32,
    /// How freely the model words; `None` leaves it to the server.
    pub temperature: Option<f64>,
    /// How long a call may go without a new piece of the answer. Keep-alives do not count.
    pub idle_timeout: Duration,
    /// How long one attempt at a call may take in all.
    pub max_timeout: Duration,
    /// How often a call is attempted when the server is busy or out of reach.
    pub max_attempts: u32,
    /// The wait before the second attempt; it doubles with each further one, up to 60 s.
    pub first_backoff: Duration,
}

impl fmt::Debug for ModelSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelSettings").field("shown", &self.shown()).finish_non_exhaustive()
    }
}

impl ModelSettings {
    /// Settings with the usual limits.
    pub fn new(provider: Provider, model: impl Into<String>) -> Self {
        Self {
            provider,
            model: model.into(),
            base_url: None,
            api_key: None,
            // Ollama starts with 4,096 unless told otherwise; 32,768 is what current hosted models have at least.
            context_tokens: if provider == Provider::Ollama { 4_096 } else { 32_768 },
            max_output_tokens: if provider == Provider::Ollama { 1_024 } else { 4_096 },
            temperature: Some(0.2),
            idle_timeout: Duration::from_mins(1),
            max_timeout: Duration::from_mins(10),
            max_attempts: 4,
            first_backoff: Duration::from_secs(1),
        }
    }

    /// Bytes of documents or notes that one prompt may hold.
    pub(super) fn prompt_bytes(&self) -> usize {
        let tokens = self.context_tokens.saturating_sub(self.max_output_tokens);
        usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN).saturating_sub(PROMPT_FRAME)
    }

    /// What a report says about the settings. Without the key.
    pub(super) fn shown(&self) -> serde_json::Value {
        serde_json::json!({
            "provider": self.provider,
            "model": self.model,
            "context_tokens": self.context_tokens,
            "max_output_tokens": self.max_output_tokens,
            "temperature": self.temperature,
            "idle_timeout_seconds": self.idle_timeout.as_secs_f64(),
            "max_timeout_seconds": self.max_timeout.as_secs_f64(),
            "max_attempts": self.max_attempts,
        })
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.model.trim().is_empty() {
            return Err("No model is set. Name the model in the settings.".to_owned());
        }
        if self.prompt_bytes() < 1_500 {
            return Err(format!(
                "A context of {} tokens leaves no room for documents beside an answer of {} tokens. Raise the first or lower the second.",
                self.context_tokens, self.max_output_tokens
            ));
        }
        if self.max_attempts == 0 {
            return Err("The number of attempts is 0, so the model would never be asked. Set it to 1 or more.".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_never_shown() {
        let settings = ModelSettings { api_key: Some("sk-hidden".to_owned()), ..ModelSettings::new(Provider::Anthropic, "m") };
        assert!(!format!("{settings:?}").contains("sk-hidden"));
        assert!(!settings.shown().to_string().contains("sk-hidden"));
        assert!(!serde_json::to_string(&settings).expect("it serializes").contains("sk-hidden"));
    }

    #[test]
    fn settings_that_cannot_work_are_refused_with_the_reason() {
        let settings =
            ModelSettings { context_tokens: 2_000, max_output_tokens: 1_500, ..ModelSettings::new(Provider::Ollama, "m") };
        assert!(settings.check().is_err_and(|reason| reason.contains("no room")));
        assert!(ModelSettings::new(Provider::Ollama, " ").check().is_err());
        assert_eq!(ModelSettings::new(Provider::Ollama, "m").check(), Ok(()));
    }
}
