//! A refusal as an answer of HTTP.
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use control::Refusal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The body of every refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Refused {
    /// What is wrong, and what would be right.
    pub(crate) error: String,
    /// The same for programs.
    pub(crate) refusal: Refusal,
}

impl Refused {
    /// The refusal of what is no request.
    pub(crate) fn malformed(what: impl ToString) -> Self {
        Refusal::Malformed(what.to_string()).into()
    }

    /// The code of HTTP.
    pub(crate) const fn code(&self) -> StatusCode {
        match self.refusal {
            Refusal::Malformed(_) => StatusCode::BAD_REQUEST,
            Refusal::Forbidden | Refusal::Foreign(_) => StatusCode::FORBIDDEN,
            Refusal::NoToken => StatusCode::UNAUTHORIZED,
            Refusal::NoService(_)
            | Refusal::NoBackend { .. }
            | Refusal::NoSuchBackend { .. }
            | Refusal::NoAnnounce
            | Refusal::NoCapture(_) => StatusCode::NOT_FOUND,
            Refusal::Already { .. }
            | Refusal::Impossible(_)
            | Refusal::NeedsRestart(_)
            | Refusal::NotMeasured
            | Refusal::Capturing(_) => StatusCode::CONFLICT,
            Refusal::Outdated(_) => StatusCode::PRECONDITION_FAILED,
            Refusal::Configuration(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Refusal::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self { error: refusal.to_string(), refusal }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.code(), Json(self)).into_response()
    }
}
