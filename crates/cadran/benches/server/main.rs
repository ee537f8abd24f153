//! The server beside its plain rival, in one run: `cargo bench -p cadran --bench server -- [--quick] [--only=WORDS] [--seconds] [NAME…]`.
//!
//! *Plain* is a timer loop over a binary heap with one multi-row insert per batch, on the same store. Every run here
//! has three durable changes (promised, started, ended) and passes through the real loop with an executor inside the
//! process. PostgreSQL takes part when `CADRAN_TEST_POSTGRES` names a server.

mod burst;
mod executors;
mod lateness;
mod many;
mod measure;
mod plain;
mod processes;
mod ratchjob;
mod steady;
mod stub;
mod world;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What was asked for.
pub(crate) struct Asked {
    /// Small sizes, to see that everything works.
    pub(crate) quick: bool,
    /// `--only=WORDS`: of a bench with several works, those that have this in their name.
    pub(crate) only: Option<String>,
    /// `--seconds`: how each second went, not only all of them together.
    pub(crate) seconds: bool,
    names: Vec<String>,
}

impl Asked {
    fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|asked| asked == name)
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let Some(at) = args.iter().position(|arg| arg == "--child") {
        return many::child(&args[at + 1..]);
    }
    if let Some(at) = args.iter().position(|arg| arg == "--stub") {
        return stub::child(&args[at + 1..]);
    }
    let quick = args.iter().any(|arg| arg == "--quick");
    let seconds = args.iter().any(|arg| arg == "--seconds");
    let only = args.iter().find_map(|arg| arg.strip_prefix("--only=")).map(str::to_owned);
    let names = args.into_iter().filter(|arg| !arg.starts_with("--")).collect();
    let asked = Asked { quick, only, seconds, names };
    for (name, bench) in [
        ("burst", burst::run as fn(&Asked)),
        ("steady", steady::run),
        ("many", many::run),
        ("processes", processes::run),
        ("lateness", lateness::run),
        ("executors", executors::run),
    ] {
        if asked.wants(name) {
            println!("\n## {name}");
            bench(&asked);
        }
    }
}
