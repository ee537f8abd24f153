//! What of our own environment a command may see: a list of what is passed, so that a secret in a variable nobody
//! thought of stays here.

/// For every command.
const PLAIN: [&str; 9] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"];

/// For commands that reach out: proxies, and the agent that holds the keys.
const NETWORK: [&str; 11] = [
    "SSH_AUTH_SOCK",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "XDG_CONFIG_HOME",
];

/// Used when we have no PATH ourselves.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

pub(crate) fn plain() -> Vec<(String, String)> {
    let mut passed = named(PLAIN);
    if !passed.iter().any(|(name, _)| name == "PATH") {
        passed.push(("PATH".into(), PATH_DEFAULT.into()));
    }
    passed
}

pub(crate) fn network() -> Vec<(String, String)> {
    named(NETWORK)
}

/// The variables of these names that are set.
pub(crate) fn named(names: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<(String, String)> {
    let value = |name: &str| std::env::var(name).ok();
    names.into_iter().filter_map(|name| Some((name.as_ref().to_owned(), value(name.as_ref())?))).collect()
}
