//! Executors that do nothing, as cheaply as that can be done, in a process of their own: they note when an order came,
//! and report it as done.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, IoSliceMut, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};
use nix::sys::time::TimeSpec;
use tokio::time::Instant;

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
    /// When the kernel had it, in nanoseconds: how soon a stub gets a processor, which it shares with the scheduler here,
    /// does not count.
    pub(crate) at: i128,
    /// When the stub had it.
    pub(crate) read: i128,
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
                read: words.next()?.parse().ok()?,
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

/// A connection of the scheduler.
struct Caller {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// It is never answered.
    dead: bool,
    /// Orders that came and are not yet answered.
    owed: usize,
}

/// Whatever the kernel has news of, by its place in the list of all.
enum Source {
    Listener(TcpListener, bool),
    Caller(Caller),
    /// Where results go.
    Door,
    /// The end of the input is the end of the stub.
    Input,
    Closed,
}

/// The stub's process: one thread, and of the kernel nothing but what an order needs: it is read, and answered. Whatever has
/// come is read before anything is answered, as by executors that have a machine each.
pub(crate) fn child(args: &[String]) {
    let [count, dead, door, token] = args else { panic!("--stub COUNT DEAD DOOR TOKEN") };
    let (count, dead): (usize, usize) = (count.parse().expect("a number"), dead.parse().expect("a number"));
    let epoll = Epoll::new(EpollCreateFlags::empty()).expect("an epoll");
    let watch = |fd: BorrowedFd<'_>, at: usize| {
        epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, at as u64)).expect("watched");
    };
    let mut sources = Vec::new();
    for no in 0..count {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        println!("http://{}", listener.local_addr().expect("an address"));
        watch(listener.as_fd(), sources.len());
        sources.push(Source::Listener(listener, no < dead));
    }
    std::io::stdout().flush().expect("addresses are told");
    let mut reports = Reports::open(door, token);
    watch(reports.stream.as_fd(), sources.len());
    sources.push(Source::Door);
    let input = std::io::stdin();
    watch(input.as_fd(), sources.len());
    sources.push(Source::Input);
    let mut book = Book::default();
    let mut piece = vec![0; 4096];
    let mut news = vec![EpollEvent::empty(); 1024];
    loop {
        let patience = EpollTimeout::from(reports.patience_ms(&book));
        let count = epoll.wait(&mut news, patience).unwrap_or_default();
        for event in &news[..count] {
            let at = event.data() as usize;
            match &mut sources[at] {
                Source::Listener(listener, dead) => {
                    let Ok((stream, _)) = listener.accept() else { continue };
                    let _ = stream.set_nodelay(true);
                    setsockopt(&stream, ReceiveTimestampns, &true)
                        .expect("the kernel notes when something came");
                    let caller = Caller { stream, buffer: Vec::with_capacity(4096), dead: *dead, owed: 0 };
                    watch(caller.stream.as_fd(), sources.len());
                    sources.push(Source::Caller(caller));
                }
                Source::Caller(caller) => {
                    if !caller.take(&mut piece, &mut book) {
                        sources[at] = Source::Closed;
                    }
                }
                Source::Door => {
                    if !reports.answered() {
                        sources[at] = Source::Closed;
                    }
                }
                Source::Input => {
                    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
                    for Arrival { job, share, made, at, read } in &book.arrivals {
                        writeln!(out, "{job} {share} {made} {at} {read}").expect("arrivals are told");
                    }
                    return;
                }
                Source::Closed => {}
            }
        }
        for event in &news[..count] {
            let at = event.data() as usize;
            if let Source::Caller(caller) = &mut sources[at]
                && !caller.answer()
            {
                sources[at] = Source::Closed;
            }
        }
        reports.send(&mut book);
    }
}

impl Caller {
    /// Takes what came. False when the connection is closed.
    fn take(&mut self, piece: &mut [u8], book: &mut Book) -> bool {
        // The kernel says that there is something, so that this does not wait.
        let (len, at) = receive(&self.stream, piece);
        if len == 0 {
            return false;
        }
        self.buffer.extend_from_slice(&piece[..len]);
        if self.dead {
            self.buffer.clear();
            return true;
        }
        while let Some((head, len)) = whole(&self.buffer) {
            let body = &self.buffer[head..len];
            if let Some(log) = number(body, b"\"logId\":") {
                let read = wall_nanos();
                book.arrivals.push(Arrival {
                    job: number(body, b"\"jobId\":").unwrap_or_default(),
                    share: number(body, b"\"broadcastIndex\":").unwrap_or_default(),
                    made: number(body, b"\"logDateTime\":").unwrap_or_default() as i64,
                    at: at.unwrap_or(read),
                    read,
                });
                book.done.push(log);
            }
            self.buffer.drain(..len);
            self.owed += 1;
        }
        true
    }

    /// Answers what came. False when the connection is closed.
    fn answer(&mut self) -> bool {
        const ANSWER: &[u8] =
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"code\":200}";
        (0..std::mem::take(&mut self.owed)).all(|_| self.stream.write_all(ANSWER).is_ok())
    }
}

/// What came over a connection, how long it is, and when the last of it was there, unless it came before the kernel was
/// asked to say so.
fn receive(stream: &TcpStream, piece: &mut [u8]) -> (usize, Option<i128>) {
    let mut notes = nix::cmsg_space!(TimeSpec);
    let mut pieces = [IoSliceMut::new(piece)];
    let Ok(message) = recvmsg::<()>(stream.as_raw_fd(), &mut pieces, Some(&mut notes), MsgFlags::empty())
    else {
        return (0, None);
    };
    let at = message.cmsgs().ok().into_iter().flatten().find_map(|note| match note {
        ControlMessageOwned::ScmTimestampns(at) => Some(Duration::from(at).as_nanos() as i128),
        _ => None,
    });
    (message.bytes, at)
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
    let (&first, rest) = wanted.split_first()?;
    let mut from = 0;
    loop {
        let at = from + text.get(from..)?.iter().position(|&byte| byte == first)?;
        if text[at + 1..].starts_with(rest) {
            return Some(at);
        }
        from = at + 1;
    }
}

/// Results on their way back.
struct Reports {
    stream: TcpStream,
    host: String,
    path: String,
    token: String,
    /// A list is out and not answered.
    waits: bool,
    /// When the last list was answered.
    since: Instant,
}

impl Reports {
    fn open(door: &str, token: &str) -> Reports {
        let (host, path) =
            door.split_once('/').map_or((door, String::new()), |(host, path)| (host, format!("/{path}")));
        let stream = TcpStream::connect(host).expect("the door is open");
        let _ = stream.set_nodelay(true);
        let (host, token) = (host.to_owned(), token.to_owned());
        Reports { stream, host, path, token, waits: false, since: Instant::now() }
    }

    /// For how long there is nothing to send; for ever when nothing waits.
    fn patience_ms(&self, book: &Book) -> Option<u16> {
        let left = REPORT_EVERY.saturating_sub(self.since.elapsed());
        // Rounded up: a turn too early would be one for nothing.
        (!self.waits && !book.done.is_empty()).then(|| left.as_micros().div_ceil(1_000) as u16)
    }

    fn send(&mut self, book: &mut Book) {
        if self.waits || book.done.is_empty() || self.since.elapsed() < REPORT_EVERY {
            return;
        }
        let mut body = String::from("[");
        for log in book.done.drain(..) {
            let comma = if body.len() > 1 { "," } else { "" };
            let _ = write!(
                body,
                "{comma}{{\"logId\":{log},\"logDateTim\":1,\"handleCode\":200,\"handleMsg\":\"\"}}"
            );
        }
        body.push(']');
        let Reports { host, path, token, .. } = &*self;
        let request = format!(
            "POST {path}/api/callback HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             XXL-JOB-ACCESS-TOKEN: {token}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        // A server that stops takes no more; then nothing is left to report.
        let _ = self.stream.write_all(request.as_bytes());
        self.waits = true;
    }

    /// An answer came. False when it is the end of the connection.
    fn answered(&mut self) -> bool {
        let read = self.stream.read(&mut [0; 4096]).unwrap_or_default();
        (self.waits, self.since) = (read == 0, Instant::now());
        read > 0
    }
}
