//! `cadran open`.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use serde_json::json;

use crate::client::exit::after_help;
use crate::client::{Api, ClientOptions, Exit, Failure, out, out_json, talk};
use crate::defaults;

/// Open the server's page in a browser.
///
/// Prints a link that signs one browser in: it works once, within a minute. Where there is a display the browser is
/// started too.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help("  cadran open\n  cadran open --read-only --print"))]
pub struct Args {
    /// The browser may look and change nothing.
    #[arg(long)]
    pub read_only: bool,
    /// Print the link and start no browser.
    #[arg(long)]
    pub print: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub client: ClientOptions,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let api = Api::new(&args.client)?;
    let made = api.post(&["login-codes"], &json!({ "read_only": args.read_only })).await?;
    let code = made["code"].as_str().unwrap_or_default();
    let link = format!("{}/#code={code}", api.url());
    if args.client.json {
        out_json(&json!({ "url": link, "expires_in_ms": made["expires_in_ms"] }))?;
        return Ok(Exit::Ok.into());
    }
    out(&format!("{link}\n"))?;
    let data = args.client.data.clone().unwrap_or_else(defaults::data_dir);
    if !args.print && has_display() && start_browser(&data, &link) {
        talk("the browser is on its way; the link works once, within a minute");
    } else {
        talk("open this link in a browser; it works once, within a minute");
    }
    Ok(Exit::Ok.into())
}

fn has_display() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Every user of a machine sees the arguments of a process, so the browser gets the link in a file of ours alone.
fn start_browser(data: &Path, link: &str) -> bool {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = data.join("open.html");
    let _ = std::fs::remove_file(&path);
    let text = format!("<!doctype html><meta http-equiv=\"refresh\" content=\"0; url={link}\">\n");
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    if made.and_then(|mut file| file.write_all(text.as_bytes())).is_err() {
        return false;
    }
    let quiet = || Stdio::null();
    let started = Command::new("xdg-open").arg(&path).stdin(quiet()).stdout(quiet()).stderr(quiet()).status();
    started.is_ok_and(|status| status.success())
}
