//! Parts of requests whose errors are refusals like all others.
use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts};
use axum::http::StatusCode;
use axum::http::header::IF_MATCH;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};

use crate::refused::Refused;

/// The body as JSON.
#[derive(FromRequest)]
#[from_request(via(axum::Json), rejection(BadRequest))]
pub(crate) struct Body<T>(pub(crate) T);

/// The names in the path.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(BadRequest))]
pub(crate) struct Path<T>(pub(crate) T);

/// What is behind the question mark.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(BadRequest))]
pub(crate) struct Query<T>(pub(crate) T);

/// The version of the configuration that the request is meant for (`If-Match`, RFC
/// 9110, section 13.1.1).
pub(crate) struct IfMatch(pub(crate) Option<u64>);

impl<S: Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let Some(value) = parts.headers.get(IF_MATCH) else { return Ok(Self(None)) };
        let tag = value.to_str().unwrap_or_default().trim();
        if tag == "*" {
            return Ok(Self(None));
        }
        let number = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')?.parse().ok());
        let wrong = || Refused::malformed("If-Match must be the ETag of an answer, as \"17\"");
        number.map(|number| Self(Some(number))).ok_or_else(wrong)
    }
}

/// Why a request is none.
pub(crate) struct BadRequest {
    code: StatusCode,
    refused: Refused,
}

impl IntoResponse for BadRequest {
    fn into_response(self) -> Response {
        (self.code, Json(self.refused)).into_response()
    }
}

impl From<JsonRejection> for BadRequest {
    fn from(rejection: JsonRejection) -> Self {
        Self { code: rejection.status(), refused: Refused::malformed(rejection.body_text()) }
    }
}

impl From<QueryRejection> for BadRequest {
    fn from(rejection: QueryRejection) -> Self {
        Self { code: rejection.status(), refused: Refused::malformed(rejection.body_text()) }
    }
}

impl From<PathRejection> for BadRequest {
    fn from(rejection: PathRejection) -> Self {
        let what = rejection.body_text();
        Self { code: StatusCode::BAD_REQUEST, refused: Refused::malformed(what) }
    }
}
