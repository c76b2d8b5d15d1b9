//! The arguments of a tool, read one by one: an assistant that is told of all mistakes at once, each with its field and what to
//! do, gets it right the next time.

use app::model::FieldError;
use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;

/// What could be read, and what could not. Every field of `T` must have a default.
pub fn read<T: DeserializeOwned + Default>(arguments: JsonObject) -> (T, Vec<FieldError>) {
    let (mut good, mut mistakes) = (JsonObject::new(), Vec::new());
    for (field, value) in arguments {
        let alone = JsonObject::from_iter([(field.clone(), value)]);
        match serde_json::from_value::<T>(alone.clone().into()) {
            Ok(_) => good.extend(alone),
            Err(error) => mistakes.push(FieldError { field, text: format!("This cannot be read: {error}.") }),
        }
    }
    (serde_json::from_value(good.into()).unwrap_or_default(), mistakes)
}

/// The mistakes as a text, one field a line.
pub fn in_words(mistakes: &[FieldError]) -> String {
    let lines: Vec<String> = mistakes.iter().map(|FieldError { field, text }| format!("- {field}: {text}")).collect();
    format!("Nothing was done. Correct these arguments and call the tool again:\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Example {
        month: String,
        sources: Vec<String>,
    }

    #[test]
    fn every_argument_that_cannot_be_read_is_named_and_the_others_are_read() {
        let arguments = json!({"month": "2026-06", "sources": "Minutes", "moth": "2026-07"});
        let (example, mistakes) = read::<Example>(arguments.as_object().cloned().unwrap_or_default());
        assert_eq!(example, Example { month: "2026-06".into(), sources: Vec::new() });
        let mut fields: Vec<&str> = mistakes.iter().map(|mistake| mistake.field.as_str()).collect();
        fields.sort_unstable();
        assert_eq!(fields, ["moth", "sources"]);
        let text = in_words(&mistakes);
        assert!(
            text.contains("- sources: This cannot be read: invalid type: string \"Minutes\", expected a sequence."),
            "{text}"
        );
        assert!(text.contains("unknown field `moth`"), "{text}");
    }
}
