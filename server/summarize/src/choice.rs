//! Which summarizer an administrator has chosen.

use crate::{ExtractiveSummarizer, Identity, ModelSettings, ModelSummarizer, SummarizeError, Summarizer};
use domain::clock::{SharedClock, SystemClock};
use std::sync::Arc;

/// The summarizer that the settings choose. Each job opens its own: a model's fences must not repeat.
#[derive(Debug, Clone)]
pub enum SummarizerChoice {
    BuiltIn,
    Model(ModelSettings),
}

impl SummarizerChoice {
    /// Prepares a summarizer for one job; nothing is sent yet.
    pub fn open(&self, clock: &SharedClock) -> Result<Box<dyn Summarizer>, SummarizeError> {
        Ok(match self {
            Self::BuiltIn => Box::new(ExtractiveSummarizer),
            Self::Model(settings) => Box::new(ModelSummarizer::new(settings.clone(), rand::random())?.on(clock.clone())),
        })
    }

    /// What it is called on screens.
    pub fn identity(&self) -> Result<Identity, SummarizeError> {
        let clock: SharedClock = Arc::new(SystemClock);
        Ok(self.open(&clock)?.identity())
    }
}
