//! Parts of requests whose errors are refusals like all others.
use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts};
use axum::http::StatusCode;
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
