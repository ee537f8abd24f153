//! The passes on a real S3 server, with several builders at once.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::home::{Home, said, text};

/// `http://KEY:SECRET@HOST:PORT/BUCKET`; without it the test fails, unless S3 is left out on purpose.
fn server() -> Option<(String, String, String, String)> {
    if std::env::var_os("CADRAN_SKIP_S3").is_some() {
        eprintln!("CADRAN_SKIP_S3: passed over");
        return None;
    }
    let address = std::env::var("CADRAN_TEST_S3");
    let address =
        address.expect("CADRAN_TEST_S3 is not set; run `cargo xtask test`, or go without: CADRAN_SKIP_S3=1");
    let (credentials, place) =
        address.strip_prefix("http://").and_then(|rest| rest.split_once('@')).expect("KEY:SECRET@");
    let (key, secret) = credentials.split_once(':').expect("KEY:SECRET");
    let (host, bucket) = place.split_once('/').expect("HOST:PORT/BUCKET");
    Some((key.into(), secret.into(), host.into(), bucket.trim_end_matches('/').into()))
}

#[test]
fn builders_on_one_bucket_share_the_queue_and_keep_the_keys_to_themselves() {
    let Some((key, secret, host, bucket)) = server() else { return };
    // What is built and fuzzed does not see the credentials.
    let build = "test -z \"$AWS_ACCESS_KEY_ID$AWS_SECRET_ACCESS_KEY\" && echo > \"$CADRAN_OUT/fuzz\"";
    let fuzz = "test -z \"$AWS_SECRET_ACCESS_KEY\" && echo new > \"$CADRAN_CORPUS/new\" && \
                echo '#7 NEW cov: 5 exec/s: 1 rss: 3Mb'";
    let home = Home::plain(build, fuzz, "");
    let prefix = format!("pipeline-{}-{}", std::process::id(), home.path(".").display().to_string().len());
    let unique = home.git(&["rev-parse", "HEAD"]);
    home.move_to(&format!("s3://{bucket}/{prefix}-{}?endpoint=http://{host}", &unique[..12]));
    let with_keys = |args: &[&str]| -> Command {
        let mut command = home.command(args);
        command
            .env("AWS_ACCESS_KEY_ID", &key)
            .env("AWS_SECRET_ACCESS_KEY", &secret)
            .env("AWS_REGION", "us-east-1");
        command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let answer = |args: &[&str]| -> Value {
        let output = with_keys(args).output().expect("it starts");
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", said(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    for content in ["1", "2", "3"] {
        home.commit("src/a.cpp", content);
    }
    assert_eq!(answer(&["manager"])["queued"].as_array().map(Vec::len), Some(4));
    let builders: Vec<_> =
        (0..2).map(|_| with_keys(&["builder", "--all"]).spawn().expect("it starts")).collect();
    let mut built = Vec::new();
    for builder in builders {
        let output = builder.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            built.extend((line["outcome"] == "built").then(|| text(&line["commit"])));
        }
    }
    let count = built.len();
    built.sort();
    built.dedup();
    assert_eq!((count, built.len()), (4, 4), "each was built once: {built:?}");
    assert_eq!(answer(&["manager"])["handed_over"], 4);
    let run = answer(&["fuzzer"]);
    assert_eq!((text(&run["outcome"]), &run["report"]["corpus"]), ("fuzzed".into(), &1.into()), "{run}");
    let counts: Vec<u64> = answer(&["status"])["schedule"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| entry["fuzz_count"].as_u64().expect("a number"))
        .collect();
    assert_eq!(counts.iter().sum::<u64>(), 1, "{counts:?}");
}
