//! The OpenAPI document (version 3.1, whose schemas are JSON Schema 2020-12), made of
//! the endpoints that are served.
use axum::http::StatusCode;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::endpoint::{Content, Endpoint};
use crate::refused::Refused;

/// The document of `endpoints`.
pub(crate) fn document(endpoints: &[Endpoint]) -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut schemas = settings.into_generator();
    let mut paths = Map::new();
    for endpoint in endpoints {
        let path = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        path[endpoint.method.to_ascii_lowercase()] = operation(endpoint, &mut schemas);
    }
    let definitions = schemas.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "HNLB",
            "description": "The control API of a running load balancer.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0 OR MIT" },
        },
        "paths": paths,
        // By the Unix socket the user says who the client is.
        "security": [{}, { "token": [] }],
        "components": {
            "schemas": definitions,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn operation(endpoint: &Endpoint, schemas: &mut SchemaGenerator) -> Value {
    let mut parameters: Vec<Value> = endpoint
        .path_parameters()
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    if let Some(query) = endpoint.query {
        parameters.extend(query_parameters(query(schemas).as_value()));
    }
    if endpoint.versioned {
        parameters.push(json!({
            "name": "If-Match",
            "in": "header",
            "required": false,
            "description": "The version of the configuration that the change is meant for, as ETag gave it; if another is in force, nothing changes.",
            "schema": { "type": "string" },
        }));
    }
    let mut operation = json!({
        "summary": endpoint.summary,
        "operationId": operation_id(endpoint),
        "parameters": parameters,
        "responses": responses(endpoint, schemas),
    });
    if let Some(body) = &endpoint.body {
        operation["requestBody"] = json!({ "required": true, "content": content(body, schemas) });
    }
    operation
}

fn operation_id(endpoint: &Endpoint) -> String {
    let parts = endpoint.path.split('/').filter(|part| !part.is_empty() && *part != "v1");
    let words = parts.map(|part| part.trim_matches(['{', '}']).replace(['.', '-'], "_"));
    let words: Vec<String> =
        std::iter::once(endpoint.method.to_ascii_lowercase()).chain(words).collect();
    words.join("_")
}

fn query_parameters(schema: &Value) -> Vec<Value> {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let fields = schema["properties"].as_object().cloned().unwrap_or_default();
    let parameter = |(name, mut schema): (String, Value)| {
        let description = schema.as_object_mut().and_then(|object| object.remove("description"));
        json!({
            "name": name,
            "in": "query",
            "required": required.contains(&Value::String(name.clone())),
            "description": description.unwrap_or_default(),
            "schema": schema,
        })
    };
    fields.into_iter().map(parameter).collect()
}

fn responses(endpoint: &Endpoint, schemas: &mut SchemaGenerator) -> Value {
    let mut responses = Map::new();
    let done = json!({ "description": "Done.", "content": content(&endpoint.answer, schemas) });
    responses.insert("200".to_owned(), done);
    let mut refusals = endpoint.refusals.clone();
    refusals.extend([
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::UNAUTHORIZED,
        StatusCode::FORBIDDEN,
    ]);
    if endpoint.versioned {
        refusals.push(StatusCode::PRECONDITION_FAILED);
    }
    if endpoint.versioned
        || endpoint.query.is_some()
        || endpoint.body.is_some()
        || endpoint.path_parameters().count() > 0
    {
        refusals.push(StatusCode::BAD_REQUEST);
    }
    if endpoint.body.is_some() {
        refusals.extend([
            StatusCode::PAYLOAD_TOO_LARGE,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            StatusCode::UNPROCESSABLE_ENTITY,
        ]);
    }
    for code in refusals {
        let description = format!("Refused: {}.", code.canonical_reason().unwrap_or_default());
        let schema = schemas.subschema_for::<Refused>();
        responses.insert(
            code.as_u16().to_string(),
            json!({
                "description": description,
                "content": { "application/json": { "schema": schema } },
            }),
        );
    }
    Value::Object(responses)
}

fn content(content: &Content, schemas: &mut SchemaGenerator) -> Value {
    let schema = (content.schema)(schemas);
    json!({ (content.media): { "schema": schema } })
}
