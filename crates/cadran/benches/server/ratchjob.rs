//! `ratchjob`, another server for the same executors, under the same load with the same stubs.
//!
//! `cargo install ratchjob --root DIR`, then `CADRAN_BENCH_RATCHJOB=DIR/bin/ratchjob`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::measure::cpu_process;

/// The variable that names the program.
pub(crate) const VARIABLE: &str = "CADRAN_BENCH_RATCHJOB";

/// A running one.
pub(crate) struct Ratchjob {
    child: Child,
    /// Where it hears executors and its API.
    pub(crate) door: String,
}

/// Jobs in one call of its import.
const SLICE: usize = 500;

impl Drop for Ratchjob {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program, when it was named.
pub(crate) fn program() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).map(PathBuf::from)
}

impl Ratchjob {
    /// Starts it on ports of its own and waits until it answers.
    pub(crate) fn start(program: &Path, dir: &Path, token: &str) -> Ratchjob {
        let ports: Vec<String> = {
            // Held together, so that no two are the same, and free again before it starts.
            let held: Vec<TcpListener> =
                (0..3).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
            held.iter().map(|port| port.local_addr().expect("a port").port().to_string()).collect()
        };
        let child = Command::new(program)
            .env("RATCH_DATA_DIR", dir)
            .env("RATCH_HTTP_API_PORT", &ports[0])
            .env("RATCH_HTTP_CONSOLE_PORT", &ports[1])
            .env("RATCH_GRPC_CLUSTER_PORT", &ports[2])
            .env("RATCH_XXL_DEFAULT_ACCESS_TOKEN", token)
            .env("RUST_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let ratchjob = Ratchjob { child, door: format!("127.0.0.1:{}", ports[0]) };
        for _ in 0..300 {
            if TcpStream::connect(&ratchjob.door).is_ok() {
                return ratchjob;
            }
            #[allow(clippy::disallowed_methods)] // it tells nobody when it is ready
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("ratchjob does not answer on {}", ratchjob.door);
    }

    /// Registers executors, and makes jobs that run each second on them. False when it does not take them.
    pub(crate) fn prepare(&self, addresses: &[String], jobs: usize, token: &str) -> bool {
        let register = |address: &String| {
            let body = json!({"registryGroup": "EXECUTOR", "registryKey": "bench", "registryValue": address});
            self.post("/xxl-job-admin/api/registry", token, &body)["code"] == 200
        };
        let job = |no: usize| {
            json!({
                "enable": true, "appName": "bench", "namespace": "xxl", "key": format!("job-{no}"),
                "description": format!("job-{no}"), "scheduleType": "CRON", "cronValue": "* * * * * *",
                "runMode": "BEAN", "handleName": "bench", "triggerParam": "", "routerStrategy": "CONSISTENT_HASH",
                "pastDueStrategy": "DEFAULT", "blockingStrategy": "SERIAL_EXECUTION", "timeoutSecond": 0,
                "tryTimes": 0
            })
        };
        let all: Vec<Value> = (0..jobs).map(job).collect();
        addresses.iter().all(register)
            && all.chunks(SLICE).all(|some| {
                let answer = self.post("/api/v1/job/import", token, &Value::Array(some.to_vec()));
                answer["success"] == true
            })
    }

    /// Its CPU time so far.
    pub(crate) fn cpu(&self) -> Duration {
        cpu_process(self.child.id())
    }

    fn post(&self, path: &str, token: &str, body: &Value) -> Value {
        let body = body.to_string();
        let mut stream = TcpStream::connect(&self.door).expect("it listens");
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n\
             XXL-JOB-ACCESS-TOKEN: {token}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("sent");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).unwrap_or(Value::Null)
    }
}
