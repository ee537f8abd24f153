//! Executors that do nothing, as fast as that can be done: they note when an order came, and report it as done.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::world::wall_nanos;

/// Results go back together, as often as this.
const REPORT_EVERY: Duration = Duration::from_millis(5);

/// When orders came: (log number, when, which executor).
pub(crate) type Arrivals = Arc<Mutex<Vec<(i128, usize)>>>;

/// Some executors on ports of their own, on threads of their own.
pub(crate) struct Stubs {
    pub(crate) addresses: Vec<String>,
    pub(crate) arrivals: Arrivals,
    runtime: Option<Runtime>,
}

impl Drop for Stubs {
    fn drop(&mut self) {
        // Dropped on an async thread, which may not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Stubs {
    /// `dead` of them take connections and never answer.
    pub(crate) fn start(count: usize, dead: usize, door: String, token: &'static str) -> Stubs {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("stub")
            .enable_all()
            .build()
            .expect("a runtime");
        let arrivals = Arrivals::default();
        let (results, to_report) = mpsc::unbounded_channel();
        runtime.spawn(report(to_report, door, token));
        let mut addresses = Vec::new();
        for no in 0..count {
            let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
            addresses.push(format!("http://{}", listener.local_addr().expect("an address")));
            let (arrivals, results) = (arrivals.clone(), results.clone());
            runtime.spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let _ = stream.set_nodelay(true);
                    if no < dead {
                        tokio::spawn(hold(stream));
                    } else {
                        tokio::spawn(serve(stream, no, arrivals.clone(), results.clone()));
                    }
                }
            });
        }
        Stubs { addresses, arrivals, runtime: Some(runtime) }
    }
}

async fn hold(stream: TcpStream) {
    let _stream = stream;
    std::future::pending::<()>().await;
}

async fn serve(mut stream: TcpStream, no: usize, arrivals: Arrivals, results: mpsc::UnboundedSender<u64>) {
    let mut buffer = Vec::with_capacity(2048);
    loop {
        let Some(len) = whole(&buffer) else {
            match stream.read_buf(&mut buffer).await {
                Ok(len) if len > 0 => continue,
                _ => return,
            }
        };
        if let Some(log) = log_of(&buffer[..len]) {
            arrivals.lock().expect("no holder panicked").push((wall_nanos(), no));
            let _ = results.send(log);
        }
        buffer.drain(..len);
        let answer =
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"code\":200}";
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}

/// The length of a whole request at the beginning of a buffer.
fn whole(buffer: &[u8]) -> Option<usize> {
    let head = buffer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&buffer[..head]).to_ascii_lowercase();
    let len: usize = text.split("content-length: ").nth(1)?.split("\r\n").next()?.parse().ok()?;
    (buffer.len() >= head + len).then_some(head + len)
}

fn log_of(request: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(request);
    text.split("\"logId\":").nth(1)?.split([',', '}']).next()?.parse().ok()
}

async fn report(mut results: mpsc::UnboundedReceiver<u64>, door: String, token: &'static str) {
    let mut stream = TcpStream::connect(&door).await.expect("the door is open");
    let mut answer = vec![0; 4096];
    while let Some(first) = results.recv().await {
        tokio::time::sleep(REPORT_EVERY).await;
        let mut logs = vec![first];
        while let Ok(log) = results.try_recv() {
            logs.push(log);
        }
        let list: Vec<String> = logs
            .iter()
            .map(|log| format!("{{\"logId\":{log},\"logDateTim\":1,\"handleCode\":200}}"))
            .collect();
        let body = format!("[{}]", list.join(","));
        let request = format!(
            "POST /api/callback HTTP/1.1\r\nHost: {door}\r\nXXL-JOB-ACCESS-TOKEN: {token}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.expect("results can be sent");
        let len = stream.read(&mut answer).await.expect("results are answered");
        assert!(len > 0, "the door was closed");
    }
}
