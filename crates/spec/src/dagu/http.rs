//! Steps of the kind `http` as requests of our own.

use super::Translator;
use super::job::own_text;
use super::text::pieces;
use super::tree::{Entries, text};
use crate::diagnostic::Code;
use crate::read::{Field, Fields, Shape, filled, key, scalar};
use crate::tree::{Kind, Node, Span};

const CONFIG: Shape = Shape {
    what: "the `config` of an `http` step",
    keys: &[
        key("timeout"),
        key("headers"),
        key("query"),
        key("body"),
        key("silent"),
        key("debug"),
        key("json"),
    ],
    unsupported: &[(
        "skip_tls_verify",
        "certificates are always checked; add yours to the machine's, or set `SSL_CERT_FILE` in `env`",
    )],
};

impl Translator<'_> {
    /// `command: GET https://…` with its `config`.
    pub(super) fn http(&mut self, kind: Span, config: Option<&Node>, fields: &Fields<'_>, out: &mut Entries) {
        let Some(command) = fields.get("command") else {
            let message = "an `http` step needs `command`, as in `command: GET https://example.com`";
            return self.findings.error(kind, Code::Missing, message);
        };
        let Some(line) = filled(command.spelled, command.value, self.findings) else { return };
        let line = self.with_consts(line.trim());
        let (method, url) = match line.split_once(char::is_whitespace) {
            Some((method, url)) => (method.to_owned(), url.trim().to_owned()),
            None => ("GET".to_owned(), line),
        };
        let span = command.value.span;
        let mut request = Entries::default();
        request.add_at(span, "method", text(span, method.to_ascii_uppercase()));
        let mut url = own_text(&pieces(&url));
        let script = fields.get("script");
        if let Some(config) = config {
            let Some(config) = Fields::read(config, &CONFIG, self.findings) else { return };
            if let Some(query) = config.get("query") {
                for (name, value, _) in self.pairs(query) {
                    let mark = if url.contains('?') { '&' } else { '?' };
                    url.push_str(&format!("{mark}{name}={}", own_text(&pieces(&value))));
                }
            }
            if let Some(headers) = config.get("headers") {
                let mut map = Entries::default();
                for (name, value, span) in self.pairs(headers) {
                    map.add_at(span, &name, text(span, own_text(&pieces(&value))));
                }
                request.add_at(headers.key.span, "headers", map.node(headers.value.span));
            }
            if let Some(seconds) = config.get("timeout")
                && fields.get("timeout_sec").is_none()
            {
                out.add_at(seconds.key.span, "timeout_sec", seconds.value.clone());
            }
            self.http_body(config.get("body").or(script), &mut request);
        } else {
            self.http_body(script, &mut request);
        }
        request.add_at(span, "url", text(span, url));
        out.add_at(kind, "http", request.node(kind));
        self.note(
            kind,
            "became a request of the step; its answer is limited, and private addresses need --allow-http",
        );
    }

    fn http_body(&mut self, body: Option<Field<'_>>, request: &mut Entries) {
        let Some(body) = body else { return };
        match &body.value.kind {
            Kind::Scalar(_) => {
                if let Some(value) = scalar(body.spelled, "text", body.value, self.findings) {
                    let value = own_text(&pieces(&value.text));
                    request.add_at(body.key.span, "body", text(body.value.span, value));
                }
            }
            _ => request.add_at(body.key.span, "body", body.value.clone()),
        }
    }
}
