//! Draws job files from the reader's own list of keys.
//!
//! Which keys a map may have comes from [`cadran_spec::JOB_FILE`], and which words a key takes from
//! [`cadran_spec::key_words`]: a key that is new there is drawn here, or the test `every_key_of_the_reader_is_drawn` says
//! that this file does not know what to write behind it. Most files are good. Some are not, on purpose: one in thirty
//! has a value that does not belong, and the reader has to refuse it in words.

use cadran_spec::{JOB_FILE, key_words};

use super::yaml::Value;
use crate::dice::Dice;

/// Where the drawn jobs will live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// In the simulation, from this instant on.
    Simulated(i64),
    /// On a real server, at this instant: whatever they do is over within seconds.
    Real(i64),
}

/// The pools that footprints may take of, as the text of `resources.yaml`.
pub const RESOURCES: &str =
    "resources: {gpu: 4, licence: {capacity: 2, ordered: true}, \"t:b\": {ordered: true}}\n";

/// The groups of executors that drawn jobs name.
pub const GROUPS: [&str; 3] = ["alpha", "beta", "nobody"];

/// What one step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Run,
    Script,
    Handler,
    Glue,
    Http,
    Container,
    Call,
    Steps,
}

/// What is decided about a job before its keys are drawn, so that they belong together.
struct Outline {
    form: Form,
    /// It may name executors; then it has no preconditions.
    away: bool,
    /// Steps may call other jobs; then it has no preconditions.
    calls: bool,
    /// `retry: never`.
    never: bool,
    chain: bool,
    history: Option<&'static str>,
    dialect: Option<&'static str>,
    names: Vec<String>,
    params: Vec<&'static str>,
}

/// Draws one job file.
pub(crate) struct Grammar<'d> {
    dice: &'d mut Dice,
    setting: Setting,
    /// The name of the job, and those of all jobs.
    own: String,
    jobs: u64,
    outline: Outline,
}

/// The file of job number `no` of `jobs`, named `j0`, `j1` and so on.
pub(crate) fn job_file(dice: &mut Dice, no: u64, jobs: u64, setting: Setting) -> Value {
    let form = match dice.roll(12) {
        0..=2 => Form::Run,
        3 => Form::Script,
        4 => Form::Handler,
        5 => Form::Glue,
        6 if dice.percent(50) => Form::Http,
        6 => Form::Container,
        _ => Form::Steps,
    };
    let away = match form {
        Form::Handler | Form::Glue => true,
        // They run on the server itself.
        Form::Http | Form::Container => false,
        _ => dice.percent(20),
    };
    let count = 1 + dice.roll(5);
    let outline = Outline {
        form,
        away,
        calls: form == Form::Steps && !away && no + 1 < jobs && dice.percent(25),
        never: dice.percent(12),
        chain: form == Form::Steps && dice.percent(15),
        history: dice
            .percent(12)
            .then(|| dice.pick(&["history", "hist_retention_days", "hist_retention_runs"])),
        dialect: dice.percent(12).then(|| dice.pick(&key_words("job", "dialect"))),
        names: (1..=count).map(|at| format!("s{at}")).collect(),
        params: if dice.percent(30) { vec!["day", "team"] } else { Vec::new() },
    };
    let mut grammar = Grammar { dice, setting, own: format!("j{no}"), jobs, outline };
    let mut file = grammar.map("job", &|_, _| true);
    if grammar.dice.percent(3) {
        grammar.spoil(&mut file);
    }
    file
}

fn scalar_list(items: &[&str]) -> Value {
    Value::List(items.iter().map(Value::text).collect())
}

/// `max_interval` as `maxInterval`.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut all, word| {
        let mut chars = word.chars();
        all.extend(chars.next().map(|c| c.to_ascii_uppercase()));
        all + chars.as_str()
    })
}

impl Grammar<'_> {
    fn is_real(&self) -> bool {
        matches!(self.setting, Setting::Real(_))
    }

    /// A map of one section: each of its keys that fits, and that chance chooses.
    fn map(&mut self, section: &'static str, fits: &dyn Fn(&Self, &str) -> bool) -> Value {
        let Some(table) = JOB_FILE.iter().find(|table| table.section == section) else {
            unreachable!("the reader has no section {section}")
        };
        let mut entries = Vec::new();
        for key in table.shape.keys {
            if !fits(self, key.name()) {
                continue;
            }
            let chance = self.chance(section, key.name());
            if !self.dice.percent(chance) {
                continue;
            }
            let spellings: Vec<&str> = key.spellings().collect();
            let spelled = if self.dice.percent(80) { spellings[0] } else { self.dice.pick(&spellings) };
            let Some(value) = self.value(section, key.name(), spelled) else { continue };
            let written = if self.dice.percent(20) { camel(spelled) } else { spelled.to_owned() };
            entries.push((written, value));
        }
        // The order of keys in a file means nothing.
        if !entries.is_empty() {
            let turn = self.dice.roll(entries.len() as u64) as usize;
            entries.rotate_left(turn);
        }
        Value::Map(entries)
    }

    /// How often a key is written, of a hundred times. 0 where it does not belong beside what was decided before.
    fn chance(&mut self, section: &str, key: &str) -> u64 {
        let Outline { form, away, calls, never, chain, history, dialect, params, .. } = &self.outline;
        let sure = |is: bool| if is { 100 } else { 0 };
        match (section, key) {
            ("job", "steps") => sure(*form == Form::Steps),
            ("job", "run") => sure(*form == Form::Run),
            ("job", "script") => sure(matches!(form, Form::Script | Form::Glue)),
            ("job", "handler") => sure(*form == Form::Handler),
            ("job", "glue") => sure(*form == Form::Glue),
            ("job", "http") => sure(*form == Form::Http),
            ("job", "container") => sure(*form == Form::Container),
            ("job", "executor") => sure(*away),
            ("job", "route" | "block") if *away => 40,
            ("job" | "step", "concurrency") => 0, // Written together with `block: concurrent`.
            ("job", "route" | "block") => 0,
            ("job", "schedule") => 85,
            ("job", "dialect") => sure(dialect.is_some()),
            ("job", "history" | "hist_retention_days" | "hist_retention_runs") => sure(*history == Some(key)),
            ("job", "type") => {
                if *chain {
                    100
                } else {
                    8
                }
            }
            ("job", "params") => sure(!params.is_empty()),
            ("job", "preconditions") if *away || *calls => 0,
            ("job", "retry") => {
                if *never {
                    100
                } else {
                    25
                }
            }
            ("job", "shell") if matches!(form, Form::Handler | Form::Glue | Form::Http) => 0,
            ("job", "overlap") => 60,
            ("job", "catchup_window") => 35,
            // `misfire: all` stands with its window, which says so already.
            ("job", "misfire") => 35,
            ("job", "timezone") => 35,
            ("job", "footprint") => 25,
            ("job", "handlers" | "preconditions" | "dst" | "children" | "timeout") => 16,
            ("job", _) => 10,
            ("retry", "limit") | ("precondition", "condition") | ("param", "name") => 100,
            ("footprint", "writes" | "reads") => 60,
            ("for_each", "items" | "range") => 100,
            ("for_each", _) => 50,
            ("executor", "group") | ("http", "url") | ("container", "image") => 100,
            ("executor", "labels") => 40,
            ("schedule", "cron" | "every" | "at" | "from") => 100,
            ("schedule", "dialect" | "dst" | "timezone" | "kind") => 15,
            ("schedule_actions", "start") => 90,
            ("schedule_actions", _) => 50,
            ("handlers", _) => 50,
            ("history", _) => 100,
            ("continue_on" | "precondition" | "retry" | "param" | "footprint" | "http" | "container", _) => {
                40
            }
            _ => 12,
        }
    }

    fn word(&mut self, section: &str, key: &str) -> Value {
        let words = key_words(section, key);
        let word = self.dice.pick(&words);
        Value::text(if self.dice.percent(10) { word.to_ascii_uppercase() } else { word.to_owned() })
    }

    fn flag(&mut self) -> Value {
        Value::text(self.dice.percent(50))
    }

    fn whole(&mut self, low: i64, high: i64) -> Value {
        Value::text(self.dice.between(low, high))
    }

    /// A time limit or a wait. What ends in `_sec` is a number of seconds.
    fn wait(&mut self, spelled: &str, simulated: &[i64], real: &[i64]) -> Value {
        let millis = if self.is_real() { self.dice.pick(real) } else { self.dice.pick(simulated) };
        Value::text(if spelled.ends_with("_sec") {
            (millis / 1000).to_string()
        } else {
            format!("{millis}ms")
        })
    }

    fn command(&mut self) -> String {
        let harmless =
            ["true", "true", "true", "echo hello", "false", "exit 3", "sleep 0.01", "echo $CADRAN_STEP", ":"];
        self.dice.pick(&harmless).to_owned()
    }

    /// What to write behind a key; `None` leaves it out after all.
    fn value(&mut self, section: &'static str, key: &'static str, spelled: &str) -> Option<Value> {
        Some(match (section, key) {
            ("job", "name") => Value::text(&self.own),
            ("job" | "step", "description") | ("param", "description") => {
                Value::text("what it is for: \"a: b\", # not a comment")
            }
            ("job", "labels" | "tags") => match self.dice.roll(3) {
                0 => Value::text("a=1, b"),
                1 => scalar_list(&["team=x", "nightly"]),
                _ => Value::Map(vec![("team".into(), Value::text("x"))]),
            },
            ("job", "schedule") => self.schedules(),
            ("job" | "schedule", "timezone") => Value::text(self.dice.pick(&crate::fleet::ZONES)),
            ("job", "dialect") => Value::text(self.outline.dialect?),
            ("job", "catchup_window") => Value::text(self.dice.pick(&["5m", "1h", "6h", "24h", "30d"])),
            ("job", "misfire") => {
                Value::text(self.dice.pick(&["skip", "once", "DO_NOTHING", "FIRE_ONCE_NOW"]))
            }
            ("job", "skip_if_successful" | "enabled" | "create_dir") => self.flag(),
            ("job", "dotenv") => Value::text(".env"),
            // The laws about ends know two of them.
            ("job", "partial_success") => Value::text("false"),
            // Around everything that is simulated, so that no due falls outside.
            ("job", "not_before") => Value::text("2001-01-01T00:00:00Z"),
            ("job", "not_after") => Value::text("2150-01-01T00:00:00"),
            ("job", "priority") => self.whole(-3, 3),
            ("job", "footprint") => self.map("footprint", &|_, _| true),
            ("job", "timeout") => self.wait(spelled, &[0, 5_000, 90_000, 600_000], &[0, 3_000, 20_000]),
            ("job", "retry") if self.outline.never => Value::text("never"),
            ("job" | "step", "retry") => self.retry(),
            ("job" | "step", "env") => match self.dice.roll(3) {
                0 => Value::Map(vec![
                    ("MODE".into(), Value::text("fast")),
                    ("PAGE".into(), Value::text("${MODE}-1")),
                ]),
                1 => scalar_list(&["MODE=fast", "EMPTY="]),
                _ => Value::List(vec![Value::Map(vec![("N".into(), Value::text(7))])]),
            },
            ("job", "params") => self.params(),
            ("job" | "step", "shell") => match self.dice.roll(3) {
                0 => Value::text("/bin/sh"),
                1 => Value::text("/bin/sh -e"),
                _ => scalar_list(&["/bin/sh", "-u"]),
            },
            ("job" | "step", "dir") => Value::text(self.dice.pick(&[".", ".", ".", "no-such-directory"])),
            ("job" | "step", "preconditions") => self.preconditions(),
            ("job", "type") => Value::text(if self.outline.chain { "chain" } else { "graph" }),
            ("job", "steps") => self.steps(),
            ("job" | "step", "run") => match self.dice.roll(4) {
                0 => scalar_list(&["echo", "a b", "${CADRAN_JOB}"]),
                _ => Value::text(self.command()),
            },
            ("job" | "step", "script") => Value::text(format!("{}\n{}\n", self.command(), self.command())),
            ("job" | "step", "handler") => Value::text("settleAccounts"),
            ("job" | "step", "executor") => self.executor(),
            ("job" | "step", "glue" | "route" | "block")
            | (_, "dst" | "overlap" | "on_conflict" | "signal_on_stop") => self.word(section, key),
            ("job", "handlers") => self.map("handlers", &|_, _| true),
            ("job", "children") => self.children(),
            ("job", "max_active_steps") => self.whole(0, 3),
            ("job", "history") => match self.dice.roll(2) {
                0 => self.whole(1, 40),
                _ => {
                    let one = self.dice.pick(&["days", "count"]);
                    self.map("history", &|_, key| key == one)
                }
            },
            ("job", "hist_retention_days" | "hist_retention_runs") | ("history", _) => self.whole(1, 90),

            ("step", "name") => return None, // Written by `steps`, which knows who depends on whom.
            ("step", "depends" | "concurrency") | ("job", "concurrency") => return None,
            ("step", "timeout") => self.wait(spelled, &[0, 1_000, 30_000], &[0, 2_000, 10_000]),
            ("step", "continue_on") => match self.dice.roll(3) {
                0 => Value::text("failure"),
                1 => scalar_list(&["failure", "skipped"]),
                _ => self.map("continue_on", &|_, _| true),
            },
            ("step", "output") => Value::text(self.dice.pick(&["RESULT", "$OTHER"])),
            ("step", "stdout" | "stderr") => Value::text(format!("{key}-${{CADRAN_RUN_ID}}.txt")),
            ("step", "params") => Value::text("2026 full ${CADRAN_JOB}"),

            ("schedule", "kind") => return None, // Written by `entry`, which knows the kind.
            ("schedule", "cron") => Value::text(self.cron()),
            ("schedule", "every") => Value::text(self.every()),
            ("schedule", "from") => Value::text(self.instant()),
            ("schedule", "at") => Value::text(self.instant()),
            ("schedule", "dialect") => Value::text(self.outline.dialect.unwrap_or("cadran")),
            ("schedule_actions", "start") => self.schedule_list(),
            ("schedule_actions", _) => self.entry(),

            ("footprint", "reads" | "writes" | "claims") => self.keys(),
            ("footprint", "capacity") => match self.dice.roll(3) {
                0 => Value::Map(vec![("gpu".into(), Value::text("2 of 4"))]),
                1 => Value::Map(vec![("gpu".into(), self.whole(1, 3)), ("licence".into(), Value::text(1))]),
                _ => Value::Map(vec![("licence".into(), self.whole(1, 2))]),
            },
            ("footprint", "ordered") | ("precondition", "negate") => self.flag(),
            ("param", "name") => Value::text("day"),
            ("param", "default") => Value::text("monday"),
            ("param", "required") => Value::text("false"),
            ("retry", "limit") => self.whole(0, 3),
            ("retry", "interval") => self.wait(spelled, &[0, 2_000, 20_000], &[0, 20]),
            ("retry", "max_interval") => self.wait(spelled, &[20_000, 60_000], &[1_000]),
            ("retry", "backoff") => Value::text(self.dice.pick(&["true", "false", "1.5", "2", "0"])),
            ("retry" | "continue_on", "exit_codes") => match self.dice.roll(2) {
                0 => self.whole(1, 3),
                _ => scalar_list(&["1", "3", "75"]),
            },
            ("continue_on", _) => self.flag(),
            ("precondition", "condition") => {
                Value::text(self.dice.pick(&["true", "`echo x`", "${CADRAN_JOB}", "test -d /"]))
            }
            ("precondition", "expected") => Value::text(self.dice.pick(&["x", "re:^j[0-9]+$", ""])),
            ("handlers", _) => match self.dice.roll(2) {
                0 => Value::text(self.command()),
                _ => self.step(None, false, false),
            },
            ("step", "job") => {
                let own: u64 = self.own[1..].parse().unwrap_or_default();
                let later: Vec<u64> = (own + 1..self.jobs).collect();
                Value::text(format!("j{}", self.dice.pick(&later)))
            }
            ("step", "for_each") => match self.dice.roll(4) {
                0 => scalar_list(&["a", "b c"]),
                1 => Value::text("[1, \"two\"]"),
                _ => {
                    let other = self.dice.pick(&["items", "range"]);
                    self.map("for_each", &|_, key| key != other)
                }
            },
            ("for_each", "items") => Value::text("${CADRAN_JOB}"),
            ("for_each", "range") => Value::text(self.dice.pick(&["1-2", "0-10/5"])),
            ("for_each", "max_parallel") => self.whole(1, 3),
            ("for_each", "fail_fast") => self.flag(),
            ("job" | "step", "http") => {
                // A body goes with the methods that have one.
                let other = self.dice.pick(&["body", "method"]);
                self.map("http", &|_, key| key != other)
            }
            ("job" | "step", "container") => self.map("container", &|_, _| true),
            ("http", "url") => Value::text("http://127.0.0.1:9/${CADRAN_JOB}"),
            ("http", "headers") => Value::Map(vec![("X-Mode".into(), Value::text("${CADRAN_RUN_ID}"))]),
            ("http", "body") => match self.dice.roll(2) {
                0 => Value::text("a text"),
                _ => Value::Map(vec![
                    ("job".into(), Value::text("${CADRAN_JOB}")),
                    ("n".into(), Value::text(1)),
                ]),
            },
            ("http", "expect") => match self.dice.roll(2) {
                0 => scalar_list(&["200", "204"]),
                _ => Value::text(self.dice.pick(&["2xx", "200-299", "any"])),
            },
            ("http", "json_path") => Value::text("$.items[0].id"),
            ("http", "method") | ("container", "engine" | "pull") => self.word(section, key),
            ("container", "image") => Value::text("cadran.invalid/none:1"),
            ("container", "args") => scalar_list(&["--version"]),
            ("container", "mounts") => scalar_list(&["./:/work:ro", "cache:/cache"]),
            ("container", "user") => Value::text("1000:1000"),
            ("container", "dir") => Value::text("/work"),
            ("container", "network") => Value::text("none"),
            ("container", "memory") => Value::text("64m"),
            ("container", "cpus") => Value::text("0.5"),
            ("container", "options") => scalar_list(&["--read-only"]),
            ("executor", "group") => Value::text(self.dice.pick(&GROUPS)),
            ("executor", "labels") => Value::Map(vec![("gpu".into(), Value::text("a100"))]),
            // A key that nobody taught this grammar: the test says so.
            _ => return None,
        })
    }

    fn retry(&mut self) -> Value {
        match self.dice.roll(3) {
            0 => self.whole(0, 3),
            _ => self.map("retry", &|_, _| true),
        }
    }

    fn preconditions(&mut self) -> Value {
        let one = |grammar: &mut Self| match grammar.dice.roll(4) {
            0 => Value::text("test -f /nonexistent"),
            1 => Value::text("true"),
            _ => grammar.map("precondition", &|_, _| true),
        };
        if self.dice.percent(60) { one(self) } else { Value::List(vec![one(self), one(self)]) }
    }

    fn params(&mut self) -> Value {
        match self.dice.roll(4) {
            0 => Value::text("day=monday team=sales"),
            1 => {
                Value::Map(vec![("day".into(), Value::text("monday")), ("team".into(), Value::text("a/b %"))])
            }
            2 => scalar_list(&["day=monday", "team="]),
            _ => {
                let rich = self.map("param", &|_, _| true);
                Value::List(vec![rich, Value::text("team=sales")])
            }
        }
    }

    fn executor(&mut self) -> Value {
        // Labels choose among workers, which run commands.
        let commands = matches!(self.outline.form, Form::Run | Form::Script);
        match self.dice.roll(5) {
            0 if commands => self.map("executor", &|_, _| true),
            1 => self.map("executor", &|_, key| key == "group"),
            2 if commands => Value::text("local"),
            _ => Value::text(self.dice.pick(&GROUPS)),
        }
    }

    fn children(&mut self) -> Value {
        let own: u64 = self.own[1..].parse().unwrap_or_default();
        let later: Vec<u64> = (own + 1..self.jobs).collect();
        match later.len() {
            // A circle of one child each ends after sixteen runs; one of two each would be sixty thousand.
            0 | 1 => Value::text(format!("j{}", (own + 1) % self.jobs.max(2))),
            _ if self.dice.percent(10) => Value::text("nosuchjob"),
            _ => Value::List((0..2).map(|_| Value::text(format!("j{}", self.dice.pick(&later)))).collect()),
        }
    }

    fn keys(&mut self) -> Value {
        let mut keys = vec!["t:a", "t:a/x", "t:a/y/", "t:b", "t:/", "port:1"];
        if !self.outline.params.is_empty() {
            keys.extend(["t:a/${day}", "s3://exports/${team}/x"]);
        }
        match self.dice.roll(2) {
            0 => Value::text(self.dice.pick(&keys)),
            _ => Value::List((0..2).map(|_| Value::text(self.dice.pick(&keys))).collect()),
        }
    }

    /// The steps of a job: a list, or a map by name.
    fn steps(&mut self) -> Value {
        let names = self.outline.names.clone();
        let by_name = self.dice.percent(30);
        let mut steps = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let mut depends: Vec<&str> = Vec::new();
            if !self.outline.chain {
                depends.extend(names[..at].iter().filter(|_| self.dice.percent(35)).map(String::as_str));
            }
            let short = depends.is_empty() && self.dice.percent(20);
            let mut step = if short { Value::text(self.command()) } else { self.step(None, true, true) };
            if let Value::Map(entries) = &mut step {
                match &depends[..] {
                    [] => {}
                    [one] => entries.push(("depends".into(), Value::text(one))),
                    many => entries.push(("depends_on".into(), scalar_list(many))),
                }
                if !by_name {
                    entries.insert(0, ("name".into(), Value::text(name)));
                }
            } else if !by_name && names.len() > at + 1 {
                // Those behind it may depend on it by name.
                step = Value::Map(vec![("name".into(), Value::text(name)), ("run".into(), step)]);
            }
            steps.push((name.clone(), step));
        }
        if by_name {
            return Value::Map(steps);
        }
        Value::List(steps.into_iter().map(|(_, step)| step).collect())
    }

    /// One step, without its name and what it depends on.
    fn step(&mut self, form: Option<Form>, away: bool, retries: bool) -> Value {
        let away = away && self.outline.away;
        let form = form.unwrap_or_else(|| match self.dice.roll(10) {
            0 if away => Form::Handler,
            1 if away => Form::Glue,
            4 | 5 if self.outline.calls => Form::Call,
            0 if !self.outline.away => Form::Http,
            1 if !self.outline.away => Form::Container,
            2 | 3 => Form::Script,
            _ => Form::Run,
        });
        let foreign = matches!(form, Form::Handler | Form::Glue);
        let retries = retries && !self.outline.never;
        let mut step = self.map("step", &|grammar, key| match key {
            "run" | "script" | "handler" | "glue" | "http" | "container" => false,
            "job" => false,
            "for_each" => form == Form::Call,
            "shell" | "dir" | "env" | "stdout" | "stderr" | "signal_on_stop" | "preconditions"
                if form == Form::Call =>
            {
                false
            }
            "shell" if form == Form::Http => false,
            "shell" | "dir" | "env" | "stdout" | "stderr" | "signal_on_stop" => !foreign,
            "preconditions" => !foreign && !grammar.outline.away,
            "executor" | "route" | "block" | "params" => away && foreign,
            "retry" => retries,
            _ => true,
        });
        let keys: &[&'static str] = match form {
            Form::Run | Form::Steps => &["run"],
            Form::Script => &["script"],
            Form::Handler => &["handler"],
            Form::Glue => &["glue", "script"],
            Form::Http => &["http"],
            Form::Container => &["container"],
            Form::Call => &["job"],
        };
        if let Value::Map(entries) = &mut step {
            for key in keys {
                entries.extend(self.value("step", key, key).map(|value| ((*key).to_owned(), value)));
            }
            if form == Form::Call && self.dice.percent(20) {
                let day = Value::text("${CADRAN_JOB}-${ITEM}");
                entries.push(("params".into(), Value::Map(vec![("day".into(), day)])));
            }
            let concurrent = |(key, value): &(String, Value)| {
                camel(key).starts_with("block")
                    && matches!(value, Value::Scalar(word) if word.eq_ignore_ascii_case("concurrent"))
            };
            if entries.iter().any(concurrent) && self.dice.percent(50) {
                entries.push(("concurrency".into(), self.whole(1, 4)));
            }
        }
        step
    }

    fn schedules(&mut self) -> Value {
        match self.dice.roll(4) {
            0 => self.map("schedule_actions", &|_, _| true),
            _ => self.schedule_list(),
        }
    }

    fn schedule_list(&mut self) -> Value {
        match self.dice.roll(3) {
            0 => Value::List((0..1 + self.dice.roll(3)).map(|_| self.entry()).collect()),
            _ => self.entry(),
        }
    }

    /// One schedule: a text, or a map.
    fn entry(&mut self) -> Value {
        let kind = self.dice.pick(&["cron", "cron", "cron", "every", "every", "at"]);
        if self.dice.percent(60) {
            return Value::text(match kind {
                "cron" => self.cron(),
                "every" if self.dice.percent(30) => format!("every {} from {}", self.every(), self.instant()),
                "every" => format!("every {}", self.every()),
                _ => format!("at {}", self.instant()),
            });
        }
        let with_from = kind == "every" && self.dice.percent(30);
        let mut entry = self.map("schedule", &|_, key| match key {
            "cron" | "every" | "at" => key == kind,
            "from" => with_from,
            "dialect" => kind == "cron",
            _ => true,
        });
        if let Value::Map(entries) = &mut entry
            && self.dice.percent(20)
        {
            entries.push(("kind".into(), Value::text(kind)));
        }
        entry
    }

    fn cron(&mut self) -> String {
        let five = [
            "*/7 * * * *",
            "*/15 9-17 * * MON-FRI",
            "30 2 * * *",
            "30 1,2,3 * * *",
            "15,45 0-5 * * *",
            "0 0 L * *",
            "0 9 * * 1-5",
            "10 * * * *",
            "@hourly",
            "@daily",
            "*/30 22-2 * * *",
            "0 12 1,15 * 5",
            "5 0 * * SUN",
        ];
        let ours = [
            "0 12 L-3 * *",
            "0 0 15W * *",
            "0 0 * * FRI#2",
            "0 0 * * 5L",
            "0 0 LW * *",
            "0 */10 * * * *",
            "59 59 * * * *",
            "0 30 2 * * *",
            "20 */4 * * * ? 2024-2040",
            "TZ=Asia/Tokyo 0 */2 * * *",
        ];
        let six =
            ["0 */10 * * * ?", "30 */7 * * * ?", "0 30 2 * * ?", "0 15,45 1-3 * * ?", "0 0 12 ? * MON-FRI"];
        let text = match self.outline.dialect {
            Some("quartz" | "xxl-job" | "seconds") => self.dice.pick(&six),
            Some("vixie" | "dagu") => self.dice.pick(&five),
            _ if self.dice.percent(30) => self.dice.pick(&ours),
            _ => self.dice.pick(&five),
        };
        text.to_owned()
    }

    fn every(&mut self) -> String {
        let simulated = ["7s", "90s", "10m", "1h30m", "2500ms", "11m", "3h20m"];
        let real = ["2s", "1h", "3h20m", "90s"];
        if self.is_real() { self.dice.pick(&real) } else { self.dice.pick(&simulated) }.to_owned()
    }

    /// A moment around the beginning.
    fn instant(&mut self) -> String {
        let (start, spread) = match self.setting {
            Setting::Simulated(at) => (at, 3 * 3_600_000),
            Setting::Real(at) => (at, 20_000),
        };
        let at = start + self.dice.between(-spread / 10, spread);
        match jiff::Timestamp::from_millisecond(at) {
            Ok(at) => at.to_string(),
            Err(_) => "2030-01-01T00:00:00Z".to_owned(),
        }
    }

    /// Puts something where it does not belong.
    fn spoil(&mut self, file: &mut Value) {
        let junk = match self.dice.roll(6) {
            0 => Value::Scalar(String::new()),
            1 => Value::text("no such thing"),
            2 => Value::List(Vec::new()),
            3 => Value::Map(vec![("unknown_key".into(), Value::text(1))]),
            4 => Value::text(-1),
            _ => Value::text("99999999999999999999"),
        };
        if let Value::Map(entries) = file
            && !entries.is_empty()
        {
            let at = self.dice.roll(entries.len() as u64) as usize;
            // Another name would be another job.
            if entries[at].0 != "name" {
                entries[at].1 = junk;
            }
        }
    }
}
