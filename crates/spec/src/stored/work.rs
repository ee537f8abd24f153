//! The shapes of requests, containers and calls in stored text.

use cadran_core::{Container, ContainerCommand, ForEach, HttpBody, HttpRequest, Items, JobCall, JsonPath};
use serde::{Deserialize, Serialize};

use super::shape::{Pairs, Text, owned, owned_pairs, pairs, texts};

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HttpShape<'a> {
    #[serde(borrow)]
    method: Text<'a>,
    #[serde(borrow)]
    url: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    headers: Pairs<'a>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    json: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    expect: Vec<(u16, u16)>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    json_path: Option<Text<'a>>,
}

impl<'a> From<&'a HttpRequest> for HttpShape<'a> {
    fn from(request: &'a HttpRequest) -> HttpShape<'a> {
        let HttpRequest { method, url, headers, body, expect, json_path } = request;
        let (mut text, mut json) = (None, None);
        match body {
            Some(HttpBody::Text(body)) => text = Some(body.into()),
            Some(HttpBody::Json(body)) => json = Some(body.into()),
            None => {}
        }
        HttpShape {
            method: method.into(),
            url: url.into(),
            headers: pairs(headers),
            text,
            json,
            expect: expect.clone(),
            json_path: json_path.as_ref().map(|path| path.as_str().into()),
        }
    }
}

impl HttpShape<'_> {
    pub(super) fn request(self) -> Result<HttpRequest, String> {
        let body = match (self.text, self.json) {
            (Some(text), _) => Some(HttpBody::Text(text.into_owned())),
            (None, json) => json.map(|json| HttpBody::Json(json.into_owned())),
        };
        let json_path = self.json_path.map(|path| JsonPath::parse(&path)).transpose();
        Ok(HttpRequest {
            method: self.method.into_owned(),
            url: self.url.into_owned(),
            headers: owned_pairs(self.headers),
            body,
            expect: self.expect,
            json_path: json_path.map_err(|error| error.to_string())?,
        })
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContainerShape<'a> {
    #[serde(borrow)]
    image: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    args: Vec<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    engine: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    mounts: Vec<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    user: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    dir: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    network: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    memory: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    cpus: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pull: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    options: Vec<Text<'a>>,
}

impl<'a> From<&'a Container> for ContainerShape<'a> {
    fn from(container: &'a Container) -> ContainerShape<'a> {
        let Container { image, command, engine, mounts, user, dir, network, memory, cpus, pull, options } =
            container;
        let text = |value: &'a Option<String>| value.as_deref().map(Text::from);
        ContainerShape {
            image: image.into(),
            args: match command {
                ContainerCommand::Image(args) => texts(args),
                ContainerCommand::Shell(_) | ContainerCommand::Program(_) => Vec::new(),
            },
            engine: text(engine),
            mounts: texts(mounts),
            user: text(user),
            dir: text(dir),
            network: text(network),
            memory: text(memory),
            cpus: text(cpus),
            pull: text(pull),
            options: texts(options),
        }
    }
}

impl ContainerShape<'_> {
    /// `command` is what stands beside it; without one the image's own program runs.
    pub(super) fn container(self, command: Option<ContainerCommand>) -> Container {
        let text = |value: Option<Text<'_>>| value.map(Text::into_owned);
        Container {
            image: self.image.into_owned(),
            command: command.unwrap_or_else(|| ContainerCommand::Image(owned(self.args))),
            engine: text(self.engine),
            mounts: owned(self.mounts),
            user: text(self.user),
            dir: text(self.dir),
            network: text(self.network),
            memory: text(self.memory),
            cpus: text(self.cpus),
            pull: text(self.pull),
            options: owned(self.options),
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallShape<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    params: Pairs<'a>,
}

impl<'a> From<&'a JobCall> for CallShape<'a> {
    fn from(JobCall { job, params }: &'a JobCall) -> CallShape<'a> {
        CallShape { name: job.as_str().into(), params: pairs(params) }
    }
}

impl CallShape<'_> {
    pub(super) fn call(self) -> Result<JobCall, String> {
        let job = self.name.parse().map_err(|error| format!("job: {error}"))?;
        Ok(JobCall { job, params: owned_pairs(self.params) })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ForEachShape<'a> {
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    list: Vec<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    /// First, last, from one to the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    range: Option<(i64, i64, i64)>,
    max_parallel: u16,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    fail_fast: bool,
}

impl<'a> From<&'a ForEach> for ForEachShape<'a> {
    fn from(ForEach { items, max_parallel, fail_fast }: &'a ForEach) -> ForEachShape<'a> {
        let (list, text, range) = match items {
            Items::List(list) => (texts(list), None, None),
            Items::Text(text) => (Vec::new(), Some(text.into()), None),
            Items::Range { from, to, step } => (Vec::new(), None, Some((*from, *to, *step))),
        };
        ForEachShape { list, text, range, max_parallel: *max_parallel, fail_fast: *fail_fast }
    }
}

impl ForEachShape<'_> {
    pub(super) fn each(self) -> ForEach {
        let items = match (self.text, self.range) {
            (Some(text), _) => Items::Text(text.into_owned()),
            (None, Some((from, to, step))) => Items::Range { from, to, step },
            (None, None) => Items::List(owned(self.list)),
        };
        ForEach { items, max_parallel: self.max_parallel, fail_fast: self.fail_fast }
    }
}
