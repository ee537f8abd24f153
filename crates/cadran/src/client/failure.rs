use std::process::ExitCode;

use serde_json::json;

use super::{Exit, escaped, talk};

/// Why a command did not do what it was asked: what, and what to do next.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// A short stable word for programs.
    pub code: String,
    /// What went wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Failure {
    /// A failure with its exit code and word.
    pub fn new(exit: Exit, code: &str, message: impl Into<String>) -> Failure {
        Failure { exit, code: code.to_owned(), message: message.into(), help: None }
    }

    /// With what to do about it.
    pub fn help(mut self, help: impl Into<String>) -> Failure {
        self.help = Some(help.into());
        self
    }

    /// The command line was wrong.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, "usage", message)
    }

    /// Something on this side failed.
    pub fn here(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Refused, "client", message)
    }

    /// Whoever read our output has gone: nothing is left to do, and nobody to tell.
    pub fn gone() -> Failure {
        Failure::new(Exit::Ok, "gone", "")
    }

    /// Says it on standard error.
    pub fn report(&self, json: bool) -> ExitCode {
        if self.code == "gone" {
            return self.exit.into();
        }
        if json {
            let Failure { code, message, help, .. } = self;
            talk(&json!({ "error": { "code": code, "message": message, "help": help } }).to_string());
        } else {
            talk(&format!("error: {}", escaped(&self.message)));
            if let Some(help) = &self.help {
                talk(&format!("  {}", escaped(help)));
            }
        }
        self.exit.into()
    }
}
