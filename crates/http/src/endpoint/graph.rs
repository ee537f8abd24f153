use axum::Json;
use axum::extract::State;
use cadran_core::Body;
use cadran_spec::Decoder;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::ApiState;
use crate::error::{ApiError, ErrorBody};
use crate::layout;
use crate::request::{Fields, JobAt};

/// Of which definition.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct GraphFields {
    /// A revision of the job whose definition is still there; the one in force unless given.
    revision: Option<u32>,
}

/// The steps of a job as a graph, laid out.
#[derive(Serialize, ToSchema)]
pub(super) struct Graph {
    job: String,
    revision: u32,
    /// The steps, in the order of the file.
    nodes: Vec<GraphNode>,
    /// Which step waits for which, by their places among `nodes`.
    edges: Vec<GraphEdge>,
    /// How many ranks there are.
    ranks: usize,
    /// How many steps the longest rank has.
    width: usize,
}

/// One step in the graph.
#[derive(Serialize, ToSchema)]
struct GraphNode {
    name: String,
    /// Steps of one rank wait for none of their own or a higher one.
    rank: usize,
    /// The place in the rank, from 0, chosen so that few edges cross.
    order: usize,
}

/// The second step waits for the first.
#[derive(Serialize, ToSchema)]
struct GraphEdge {
    from: usize,
    to: usize,
}

/// Lays out the steps of a job: each one a rank below those it waits for, and in an order with few crossings.
#[utoipa::path(
    get, path = "/api/v1/jobs/{name}/graph", tag = "jobs", operation_id = "job_graph",
    params(("name" = String, Path, description = "The job's name."), GraphFields),
    responses(
        (status = 200, description = "The graph.", body = Graph),
        (status = "default", description = "What is wrong, and what to do about it.", body = ErrorBody),
    ),
)]
pub(super) async fn graph(
    State(state): State<ApiState>,
    JobAt(name): JobAt,
    Fields(fields): Fields<GraphFields>,
) -> Result<Json<Graph>, ApiError> {
    let found = state.store.job(&name).await.map_err(ApiError::store)?;
    let put = found.ok_or_else(|| ApiError::no_such_job(&name))?.put;
    let revision = fields.revision.unwrap_or(put.revision);
    let definition = state.store.definition(put.job, revision).await.map_err(ApiError::store)?;
    let definition = definition.ok_or_else(|| ApiError::no_such_revision(&name, revision))?;
    let job = Decoder::default().decode(name.clone(), &definition);
    let job = job.map_err(|error| ApiError::unreadable_definition(&error.to_string()))?;
    // Ten thousand steps take a while: not on a thread that answers others.
    let body = job.body.clone();
    let made = tokio::task::spawn_blocking(move || Graph::new(&body)).await.map_err(ApiError::bug)?;
    Ok(Json(Graph { job: name.to_string(), revision, ..made }))
}

impl Graph {
    fn new(body: &Body) -> Graph {
        let len = body.steps.len();
        let depends = |step: &cadran_core::Step| -> Vec<usize> {
            step.depends.iter().map(|no| usize::from(no.0)).filter(|no| *no < len).collect()
        };
        let depends: Vec<Vec<usize>> = body.steps.iter().map(depends).collect();
        let places = layout::layers(&depends);
        let nodes = body.steps.iter().zip(&places).map(|(step, place)| GraphNode {
            name: step.name.clone(),
            rank: place.rank,
            order: place.order,
        });
        let edges = (0..)
            .zip(&depends)
            .flat_map(|(to, from)| from.iter().map(move |from| GraphEdge { from: *from, to }));
        Graph {
            job: String::new(),
            revision: 0,
            nodes: nodes.collect(),
            edges: edges.collect(),
            ranks: places.iter().map(|place| place.rank + 1).max().unwrap_or(0),
            width: places.iter().map(|place| place.order + 1).max().unwrap_or(0),
        }
    }
}
