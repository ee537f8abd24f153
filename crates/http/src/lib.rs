//! REST API, OpenAPI document and metrics.
