//! A method and a path of the API: its handler beside what the OpenAPI document says
//! of it, so that neither can be without the other.
use axum::Router;
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::routing::{MethodFilter, MethodRouter, on};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::role::Role;
use crate::routes::App;

/// What a body or an answer is made of.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    /// Its media type.
    pub(crate) media: &'static str,
    /// Its schema.
    pub(crate) schema: fn(&mut SchemaGenerator) -> Schema,
}

impl Content {
    fn json<T: JsonSchema>() -> Self {
        Self { media: "application/json", schema: SchemaGenerator::subschema_for::<T> }
    }
}

/// One method of one path.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) role: Role,
    /// The schema of the parameters behind the question mark: an object.
    pub(crate) query: Option<fn(&mut SchemaGenerator) -> Schema>,
    pub(crate) body: Option<Content>,
    pub(crate) answer: Content,
    /// Refusals beside those that every endpoint has.
    pub(crate) refusals: Vec<StatusCode>,
    /// Whether it takes and gives the version of the configuration.
    pub(crate) versioned: bool,
    handler: MethodRouter<App>,
}

impl Endpoint {
    /// A question at `path`, answered by `handler` as text.
    pub(crate) fn get<H, T>(path: &'static str, summary: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self::new(("GET", MethodFilter::GET), path, summary, Role::Viewer, handler)
    }

    /// A command at `path`, obeyed by `handler`, of clients that may change things.
    pub(crate) fn post<H, T>(path: &'static str, summary: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self::new(("POST", MethodFilter::POST), path, summary, Role::Operator, handler)
    }

    /// What is at `path` becomes what the body says, by `handler`.
    pub(crate) fn put<H, T>(path: &'static str, summary: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self::new(("PUT", MethodFilter::PUT), path, summary, Role::Operator, handler)
    }

    /// What is at `path` ends, by `handler`.
    pub(crate) fn delete<H, T>(path: &'static str, summary: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self::new(("DELETE", MethodFilter::DELETE), path, summary, Role::Operator, handler)
    }

    fn new<H, T>(
        (method, filter): (&'static str, MethodFilter),
        path: &'static str,
        summary: &'static str,
        role: Role,
        handler: H,
    ) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        let answer = Content {
            media: "text/plain; charset=utf-8",
            schema: SchemaGenerator::subschema_for::<String>,
        };
        Self {
            method,
            path,
            summary,
            role,
            query: None,
            body: None,
            answer,
            refusals: Vec::new(),
            versioned: false,
            handler: on(filter, handler),
        }
    }

    /// Its answer is JSON.
    pub(crate) fn answers<T: JsonSchema>(self) -> Self {
        Self { answer: Content::json::<T>(), ..self }
    }

    /// Its answer is text of the kind `media`.
    pub(crate) fn answers_text(self, media: &'static str) -> Self {
        Self { answer: Content { media, ..self.answer }, ..self }
    }

    /// It takes parameters behind the question mark: the fields of `T`.
    pub(crate) fn takes_query<T: JsonSchema>(self) -> Self {
        Self { query: Some(T::json_schema), ..self }
    }

    /// It takes a body of JSON.
    pub(crate) fn takes<T: JsonSchema>(self) -> Self {
        Self { body: Some(Content::json::<T>()), ..self }
    }

    /// What it may be refused for.
    pub(crate) fn refuses(self, refusals: &[StatusCode]) -> Self {
        Self { refusals: refusals.to_vec(), ..self }
    }

    /// It takes the version of the configuration that it is meant for.
    pub(crate) fn versioned(self) -> Self {
        Self { versioned: true, ..self }
    }

    /// Only clients that may change things may ask for it.
    pub(crate) fn for_operators(self) -> Self {
        Self { role: Role::Operator, ..self }
    }

    /// Clients that may change nothing may ask for it, too: it changes nothing.
    pub(crate) fn for_viewers(self) -> Self {
        Self { role: Role::Viewer, ..self }
    }

    /// The router of all `endpoints`.
    pub(crate) fn router(endpoints: Vec<Self>) -> Router<App> {
        endpoints.into_iter().fold(Router::new(), |router, own| {
            let handler = match own.role {
                Role::Viewer => own.handler,
                Role::Operator => own
                    .handler
                    .route_layer(axum::middleware::from_fn(crate::routes::operators_only)),
            };
            router.route(own.path, handler)
        })
    }

    /// The names in the path.
    pub(crate) fn path_parameters(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }
}
