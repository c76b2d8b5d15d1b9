//! A remark above or beside the content.

use leptos::prelude::*;

/// How a notice looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Something to know.
    Note,
    /// Something went well and is shown once.
    Good,
    /// Something to put right.
    Bad,
}

impl Tone {
    fn class(self) -> &'static str {
        match self {
            Self::Note => "notice",
            Self::Good => "notice good",
            Self::Bad => "notice bad",
        }
    }
}

/// The notice. A bad one is announced at once.
#[component]
pub fn Notice(tone: Tone, children: Children) -> impl IntoView {
    view! {
        <div class=tone.class() role=(tone == Tone::Bad).then_some("alert")>
            {children()}
        </div>
    }
}
