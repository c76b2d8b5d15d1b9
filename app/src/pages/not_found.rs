//! The answer to an address that names no page.

use crate::{error::AppError, ui::problem};
use leptos::prelude::*;

/// Says that there is nothing here, with status 404.
#[component]
pub fn NotFound() -> impl IntoView {
    #[cfg(feature = "ssr")]
    let _ = super::answer::settle::<()>(Err(AppError::NotFound));
    problem(&AppError::NotFound, None)
}
