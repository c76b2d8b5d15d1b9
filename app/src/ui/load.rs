//! A page's data: asked for while the server renders, sent along with the page, and asked for again where the address changes.

use crate::error::AppError;
use codee::{Decoder, Encoder};
use leptos::prelude::*;
use serde::{Serialize, de::DeserializeOwned};

/// JSON that is read as bytes, like the answers of server functions. The codec of Leptos reads it as text, and each reader
/// brings its own copy of the code for every type: a tenth of the whole script.
pub struct Json;

impl<T: Serialize> Encoder<T> for Json {
    type Error = serde_json::Error;
    type Encoded = String;

    fn encode(value: &T) -> Result<String, Self::Error> {
        serde_json::to_string(value)
    }
}

impl<T: DeserializeOwned> Decoder<T> for Json {
    type Error = serde_json::Error;
    type Encoded = str;

    fn decode(text: &str) -> Result<T, Self::Error> {
        serde_json::from_slice(text.as_bytes())
    }
}

/// What a server function answers.
pub type Loaded<T> = Resource<Result<T, AppError>, Json>;

/// Asks `fetcher`, and again whenever `source` changes.
pub fn load<S, T, F>(
    source: impl Fn() -> S + Send + Sync + 'static,
    fetcher: impl Fn(S) -> F + Send + Sync + 'static,
) -> Loaded<T>
where
    S: Clone + PartialEq + Send + Sync + 'static,
    T: Serialize + DeserializeOwned + Send + Sync + 'static,
    F: Future<Output = Result<T, AppError>> + Send + 'static,
{
    Resource::new_with_options(source, fetcher, false)
}
