//! What `hnlb doctor` has examined, and the result.
use serde::Serialize;

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// As it should be.
    Good,
    /// HNLB runs, slower or less evenly than it could.
    Slow,
    /// HNLB does not start, or loses packets.
    Wrong,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub subject: String,
    /// How serious it is.
    pub grade: Grade,
    /// What was found.
    pub text: String,
    /// The command, or the kernel's parameter, that mends it.
    pub remedy: Option<String>,
}

impl Finding {
    /// The same where nothing depends on it yet.
    pub(crate) fn not_yet_wrong(self) -> Self {
        let grade = self.grade.min(Grade::Slow);
        Self { grade, ..self }
    }

    pub(crate) fn good(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self { subject: subject.into(), grade: Grade::Good, text: text.into(), remedy: None }
    }

    pub(crate) fn slow(
        subject: impl Into<String>,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { grade: Grade::Slow, ..Self::wrong(subject, text, remedy) }
    }

    pub(crate) fn wrong(
        subject: impl Into<String>,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (subject, text, remedy) = (subject.into(), text.into(), Some(remedy.into()));
        Self { subject, grade: Grade::Wrong, text, remedy }
    }
}
