//! Executors that do nothing, as cheaply as that can be done, in a process of their own: they note when an order came,
//! and report it as done.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

use crate::measure::cpu_process;
use crate::world::wall_nanos;

/// Results go back together, as often as this.
const REPORT_EVERY: Duration = Duration::from_millis(5);

/// An order that came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// The job's number.
    pub(crate) job: u64,
    /// The share of a broadcast.
    pub(crate) share: u64,
    /// When the order was made, in milliseconds, as it says itself.
    pub(crate) made: i64,
    /// When it came, in nanoseconds.
    pub(crate) at: i128,
}

/// Some executors on ports of their own.
pub(crate) struct Stubs {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    pub(crate) addresses: Vec<String>,
}

impl Drop for Stubs {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Stubs {
    /// `dead` of them take connections and never answer. Results go to `door`, an address and the path before `/api`.
    pub(crate) fn start(count: usize, dead: usize, door: &str, token: &str) -> Stubs {
        let mut child = Command::new(std::env::current_exe().expect("our own path"))
            .args(["--stub", &count.to_string(), &dead.to_string(), door, token])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the stub starts");
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut addresses = Vec::new();
        while addresses.len() < count {
            let mut line = String::new();
            let read = stdout.read_line(&mut line).expect("the stub's addresses");
            assert!(read > 0, "the stub ended");
            addresses.push(line.trim().to_owned());
        }
        Stubs { child, stdin, stdout, addresses }
    }

    /// Its CPU time so far.
    pub(crate) fn cpu(&self) -> Duration {
        cpu_process(self.child.id())
    }

    /// Everything that came; the stub ends with it.
    pub(crate) fn arrivals(mut self) -> Vec<Arrival> {
        drop(self.stdin.take());
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).expect("the stub's arrivals");
        let arrival = |line: &str| {
            let mut words = line.split(' ');
            Some(Arrival {
                job: words.next()?.parse().ok()?,
                share: words.next()?.parse().ok()?,
                made: words.next()?.parse().ok()?,
                at: words.next()?.parse().ok()?,
            })
        };
        text.lines().map(|line| arrival(line).unwrap_or_else(|| panic!("odd: {line}"))).collect()
    }
}

/// What came, and what is to be reported.
#[derive(Default)]
struct Book {
    arrivals: Vec<Arrival>,
    done: Vec<u64>,
}

/// The stub's process.
pub(crate) fn child(args: &[String]) {
    let [count, dead, door, token] = args else { panic!("--stub COUNT DEAD DOOR TOKEN") };
    let (count, dead): (usize, usize) = (count.parse().expect("a number"), dead.parse().expect("a number"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let local = LocalSet::new();
    let book = Rc::new(RefCell::new(Book::default()));
    local.block_on(&runtime, async {
        for no in 0..count {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            println!("http://{}", listener.local_addr().expect("an address"));
            let book = Rc::clone(&book);
            tokio::task::spawn_local(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let _ = stream.set_nodelay(true);
                    if no < dead {
                        tokio::task::spawn_local(hold(stream));
                    } else {
                        tokio::task::spawn_local(serve(stream, Rc::clone(&book)));
                    }
                }
            });
        }
        std::io::stdout().flush().expect("addresses are told");
        tokio::task::spawn_local(report(Rc::clone(&book), door.clone(), token.clone()));
        // The end of the input is the end of the stub.
        let end = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
        let _ = end.await;
    });
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for Arrival { job, share, made, at } in &book.borrow().arrivals {
        writeln!(out, "{job} {share} {made} {at}").expect("arrivals are told");
    }
}

async fn hold(stream: TcpStream) {
    let _stream = stream;
    std::future::pending::<()>().await;
}

async fn serve(mut stream: TcpStream, book: Rc<RefCell<Book>>) {
    const ANSWER: &[u8] =
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"code\":200}";
    let mut buffer = Vec::with_capacity(4096);
    loop {
        let Some((head, len)) = whole(&buffer) else {
            match stream.read_buf(&mut buffer).await {
                Ok(len) if len > 0 => continue,
                _ => return,
            }
        };
        let body = &buffer[head..len];
        if let Some(log) = number(body, b"\"logId\":") {
            let arrival = Arrival {
                job: number(body, b"\"jobId\":").unwrap_or_default(),
                share: number(body, b"\"broadcastIndex\":").unwrap_or_default(),
                made: number(body, b"\"logDateTime\":").unwrap_or_default() as i64,
                at: wall_nanos(),
            };
            let mut book = book.borrow_mut();
            book.arrivals.push(arrival);
            book.done.push(log);
        }
        buffer.drain(..len);
        if stream.write_all(ANSWER).await.is_err() {
            return;
        }
    }
}

/// Where the body of a whole request begins and ends.
fn whole(buffer: &[u8]) -> Option<(usize, usize)> {
    let head = find(buffer, b"\r\n\r\n")? + 4;
    let len =
        number(&buffer[..head], b"ontent-length: ").or_else(|| number(&buffer[..head], b"ontent-Length: "));
    let len = head + len.unwrap_or_default() as usize;
    (buffer.len() >= len).then_some((head, len))
}

fn number(text: &[u8], name: &[u8]) -> Option<u64> {
    let digits = &text[find(text, name)? + name.len()..];
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

async fn report(book: Rc<RefCell<Book>>, door: String, token: String) {
    let (host, path) =
        door.split_once('/').map_or((&*door, String::new()), |(host, path)| (host, format!("/{path}")));
    let mut stream = TcpStream::connect(host).await.expect("the door is open");
    let _ = stream.set_nodelay(true);
    let mut answer = vec![0; 4096];
    loop {
        tokio::time::sleep(REPORT_EVERY).await;
        let done = std::mem::take(&mut book.borrow_mut().done);
        if done.is_empty() {
            continue;
        }
        let list: Vec<String> = done
            .iter()
            .map(|log| format!("{{\"logId\":{log},\"logDateTim\":1,\"handleCode\":200,\"handleMsg\":\"\"}}"))
            .collect();
        let body = format!("[{}]", list.join(","));
        let request = format!(
            "POST {path}/api/callback HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             XXL-JOB-ACCESS-TOKEN: {token}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        // A server that stops takes no more.
        if stream.write_all(request.as_bytes()).await.is_err() {
            return;
        }
        match stream.read(&mut answer).await {
            Ok(len) if len > 0 => {}
            _ => return,
        }
    }
}
