//! Crontabs as job files.
//!
//! Cron's own behaviour is written into the files: a command starts whatever else is running (`overlap: allow`), what was
//! missed while the machine was off is not caught up (`misfire: skip`), the search path is cron's, and the working directory
//! is the user's home.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cadran_spec::{ReadOptions, read_job};
use serde_json::Value;

use crate::xxl_job::plain_name;

/// The search path that cron gives to commands when the table names none.
const CRON_PATH: &str = "/usr/bin:/bin";

/// Where a table is from, and what cron knew beside its text.
#[derive(Clone, Debug, Default)]
pub(super) struct Source {
    /// What to call it in the report.
    pub(super) name: String,
    /// Lines have a column for the user, as those of the system's tables do.
    pub(super) has_user_column: bool,
    /// The time zone of the machine.
    pub(super) zone: String,
    /// The user that runs the import. Commands of other users are started with `runuser`.
    pub(super) own_user: String,
    /// Whose table it is, where it is not that user's.
    pub(super) user: Option<String>,
    /// Home directories by user.
    pub(super) homes: BTreeMap<String, String>,
}

/// What became of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineReport {
    /// The name of the table.
    pub(super) source: String,
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) outcome: Outcome,
    /// What is different here, one sentence each.
    pub(super) remarks: Vec<String>,
}

/// What a line gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A variable that counts for the lines below.
    Setting,
    /// This file.
    File(String),
    /// Nothing, for this reason.
    LeftOut(String),
}

/// Files and report of one or several tables.
#[derive(Debug, Default)]
pub(super) struct Converted {
    /// Names and texts.
    pub(super) files: Vec<(String, String)>,
    pub(super) report: Vec<LineReport>,
}

/// Reads tables and writes one job file for each entry, each with a name that no other has.
pub(super) fn convert(tables: &[(Source, String)]) -> Converted {
    let mut entries = Vec::new();
    let mut report = Vec::new();
    for (source, text) in tables {
        read_table(source, text, &mut entries, &mut report);
    }
    let mut files = Vec::new();
    for (entry, name) in entries.iter().zip(names(&entries)) {
        let line = &mut report[entry.report_at];
        let text = entry.text(&mut line.remarks);
        match read_job(text.as_bytes(), &name, &ReadOptions::default()) {
            Ok(_) => {
                line.outcome = Outcome::File(format!("{name}.yaml"));
                files.push((format!("{name}.yaml"), text));
            }
            Err(found) => {
                let why = found.first().map(|found| found.message.clone()).unwrap_or_default();
                line.outcome = Outcome::LeftOut(why);
            }
        }
    }
    Converted { files, report }
}

/// One line with a schedule and a command, and what counted for it.
struct Entry {
    report_at: usize,
    description: String,
    schedule: String,
    user: Option<String>,
    own_user: String,
    home: Option<String>,
    zone: String,
    shell: Option<String>,
    env: BTreeMap<String, String>,
    command: String,
    /// What the command reads from its standard input.
    input: Option<String>,
    /// What a part of the schedule that cron draws by chance became.
    drawn: Option<String>,
}

fn read_table(source: &Source, text: &str, entries: &mut Vec<Entry>, report: &mut Vec<LineReport>) {
    let mut env: BTreeMap<String, String> = BTreeMap::new();
    let mut comments: Vec<&str> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            comments.clear();
            continue;
        }
        if let Some(comment) = line.strip_prefix('#') {
            comments.push(comment.trim_matches(['#', ' ', '\t']));
            continue;
        }
        let mut told = LineReport {
            source: source.name.clone(),
            line: at + 1,
            outcome: Outcome::Setting,
            remarks: Vec::new(),
        };
        if let Some((name, value)) = setting(line) {
            if name == "MAILTO" && !value.is_empty() {
                let remark = format!(
                    "no mail is sent to {value}; a handler of the job can: `handlers: {{failure: …}}`"
                );
                told.remarks.push(remark);
            }
            if name == "RANDOM_DELAY" {
                told.remarks.push("the random delay is not carried over".to_owned());
            }
            env.insert(name.to_owned(), value);
            report.push(told);
            continue;
        }
        let description = std::mem::take(&mut comments).join(" ").trim().to_owned();
        match entry(source, line, &env) {
            Ok(entry) => entries.push(Entry { report_at: report.len(), description, ..entry }),
            Err(why) => told.outcome = Outcome::LeftOut(why),
        }
        report.push(told);
    }
}

/// `NAME = value`, with or without quotes.
fn setting(line: &str) -> Option<(&str, String)> {
    let (name, value) = line.split_once('=')?;
    let name = unquoted(name.trim());
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    is_name(name).then(|| (name, unquoted(value.trim()).to_owned()))
}

fn unquoted(text: &str) -> &str {
    let inner = |quote: char| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

fn entry(source: &Source, line: &str, env: &BTreeMap<String, String>) -> Result<Entry, String> {
    // Some crons take a leading dash as "do not log this".
    let line = line.strip_prefix('-').unwrap_or(line);
    let fields = if line.starts_with('@') { 1 } else { 5 };
    let too_short = "it is neither a setting nor a schedule with a command";
    let (schedule, mut command) = take_words(line, fields).ok_or(too_short)?;
    let mut user = source.user.clone();
    if source.has_user_column {
        let (name, rest) = take_words(command, 1).ok_or("it names a user and no command")?;
        (user, command) = (Some(name), rest);
    }
    let mut env = env.clone();
    let mut take = |name: &str| env.remove(name).filter(|value| !value.is_empty());
    let zone = take("CRON_TZ").or_else(|| take("TZ")).unwrap_or_else(|| source.zone.clone());
    let shell = take("SHELL");
    // These speak to cron, not to commands.
    for name in ["MAILTO", "MAILFROM", "RANDOM_DELAY"] {
        take(name);
    }
    let home_of_user = || source.homes.get(user.as_ref().unwrap_or(&source.own_user)).cloned();
    let home = env.get("HOME").cloned().or_else(home_of_user);
    env.entry("PATH".to_owned()).or_insert_with(|| CRON_PATH.to_owned());
    let (schedule, drawn) = draw_random(&schedule, line)?;
    let (command, input) = split_input(command);
    Ok(Entry {
        report_at: 0,
        description: String::new(),
        schedule,
        user,
        own_user: source.own_user.clone(),
        home,
        zone,
        shell,
        env,
        command,
        input,
        drawn,
    })
}

/// Cron ends a command at the first `%` and gives it the rest as input, a line for each further `%`; `\%` is a plain one.
fn split_input(text: &str) -> (String, Option<String>) {
    let (mut command, mut input) = (String::new(), None::<String>);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let is_plain_percent = c == '\\' && chars.next_if_eq(&'%').is_some();
        match &mut input {
            _ if is_plain_percent => input.as_mut().unwrap_or(&mut command).push('%'),
            None if c == '%' => input = Some(String::new()),
            Some(input) if c == '%' => input.push('\n'),
            Some(input) => input.push(c),
            None => command.push(c),
        }
    }
    (command.trim_end().to_owned(), input)
}

/// `0~59` is drawn by chance when cron reads the table. Here it is drawn from the line itself, so that it stays the same.
fn draw_random(schedule: &str, line: &str) -> Result<(String, Option<String>), String> {
    const RANGES: [(u64, u64); 5] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
    if !schedule.contains('~') {
        return Ok((schedule.to_owned(), None));
    }
    let mut seed = hash(line);
    let mut draw = |item: &str, (least, most): (u64, u64)| -> Result<String, String> {
        let Some((from, to)) = item.split_once('~') else { return Ok(item.to_owned()) };
        let bound = |text: &str, default| if text.is_empty() { Some(default) } else { text.parse().ok() };
        match (bound(from, least), bound(to, most)) {
            (Some(from), Some(to)) if from <= to && to <= most => {
                seed = hash(&seed.to_string());
                Ok((from + seed % (to - from + 1)).to_string())
            }
            _ => Err(format!("`{item}` is not a random range that is understood")),
        }
    };
    let mut fields = Vec::new();
    for (field, range) in schedule.split(' ').zip(RANGES) {
        let items: Result<Vec<String>, String> = field.split(',').map(|item| draw(item, range)).collect();
        fields.push(items?.join(","));
    }
    let drawn = fields.join(" ");
    let remark = format!("`{schedule}` is random in cron; here it is `{drawn}`, drawn once from the line");
    Ok((drawn, Some(remark)))
}

/// FNV-1a: small, and the same on every machine and in every version.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A name for each entry: what the command is called. Where several are called the same, each has a part of its own that
/// depends on its line alone, so that it stays the same when others come and go.
fn names(entries: &[Entry]) -> Vec<String> {
    let plain: Vec<String> = entries.iter().map(|entry| command_name(&entry.command)).collect();
    let mut used = BTreeMap::new();
    let mut names = Vec::new();
    for (entry, name) in entries.iter().zip(&plain) {
        let mut name = name.clone();
        if plain.iter().filter(|other| **other == name).count() > 1 {
            let own = hash(&format!("{} {:?} {}", entry.schedule, entry.user, entry.command)) & 0xff_ffff;
            name = format!("{name}-{own:06x}");
        }
        let times: &mut u32 = used.entry(name.clone()).or_insert(0);
        *times += 1;
        // The same line twice.
        names.push(if *times > 1 { format!("{name}-{times}") } else { name });
    }
    names
}

/// Programs that start another one: the next word that is no option names what is meant.
const STARTERS: [&str; 18] = [
    "env", "sudo", "nice", "ionice", "nohup", "timeout", "flock", "chronic", "setsid", "exec", "sh", "bash",
    "python", "python3", "perl", "php", "ruby", "node",
];

/// What a command is called: the program of its last part, without folders and ending.
fn command_name(command: &str) -> String {
    let parts: Vec<&str> = command.split(['|', ';']).flat_map(|part| part.split("&&")).collect();
    // What comes before `&&` mostly changes the folder or looks whether something is there.
    let is_preparation = |part: &&&str| {
        let first = part.split_whitespace().next().unwrap_or("");
        !first.is_empty()
            && !matches!(first, "cd" | "test" | "[" | "command" | "." | "source" | "export" | "sleep")
    };
    let main = parts.iter().find(is_preparation).copied().unwrap_or(command);
    let words = main.split_whitespace().filter(|word| {
        !word.starts_with(['-', '>', '<', '(', ')', '{', '}', '!'])
            && !word
                .split_once('=')
                .is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
            && !word.chars().all(|c| c.is_ascii_digit())
    });
    let base = |word: &str| {
        let file = word.trim_matches(['"', '\'']).rsplit('/').next().unwrap_or("").to_owned();
        file.split_once('.').map_or(file.clone(), |(stem, _)| stem.to_owned())
    };
    let mut names = words.map(base).filter(|name| !name.is_empty());
    let name = names.find(|name| !STARTERS.contains(&name.as_str()));
    plain_name([name.as_deref().unwrap_or(""), "command"]).unwrap_or_default()
}

impl Entry {
    /// The job file. What is different here is added to `remarks`.
    fn text(&self, remarks: &mut Vec<String>) -> String {
        let mut text = String::new();
        let mut line = |key: &str, value: &str| {
            let _ = writeln!(text, "{key}: {}", Value::from(value));
        };
        if !self.description.is_empty() {
            line("description", &self.description);
        }
        if self.schedule == "@reboot" {
            remarks.push(
                "it ran at each start of the machine; it has no schedule here, run it by `cadran trigger`"
                    .into(),
            );
        } else {
            line("schedule", &self.schedule);
            line("dialect", "vixie");
            line("timezone", &self.zone);
        }
        remarks.extend(self.drawn.clone());
        line("misfire", "skip");
        line("overlap", "allow");
        match &self.home {
            Some(home) => line("dir", home),
            None => remarks.push(
                "the home directory of its user is not known here; it starts where the server does".into(),
            ),
        }
        let other_user = self.user.as_ref().filter(|user| **user != self.own_user);
        if let (Some(shell), None) = (&self.shell, other_user) {
            line("shell", shell);
        }
        let env: serde_json::Map<String, Value> =
            self.env.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
        if self.env.values().any(|value| value.contains("${")) {
            remarks.push("cron takes `${…}` in a variable as it stands; here it is replaced".into());
        }
        let _ = writeln!(text, "env: {}", Value::from(env));
        let command = match &self.input {
            // The whole command reads the input, not its last part alone.
            Some(input) => format!("{{ {}\n}} <<'CADRAN_INPUT'\n{input}\nCADRAN_INPUT\n", self.command),
            None => self.command.clone(),
        };
        match other_user {
            Some(user) => {
                let shell = self.shell.as_deref().unwrap_or("/bin/sh");
                let words = ["runuser", "-u", user, "--", shell, "-c", &command].map(Value::from);
                let _ = writeln!(text, "run: {}", Value::from(words.to_vec()));
                remarks
                    .push(format!("it runs as {user} by `runuser`, which needs a server that runs as root"));
            }
            None => {
                let _ = writeln!(
                    text,
                    "{}: {}",
                    if self.input.is_some() { "script" } else { "run" },
                    Value::from(command)
                );
            }
        }
        text
    }
}

/// The first words, one space apart, and what follows.
fn take_words(text: &str, count: usize) -> Option<(String, &str)> {
    let mut rest = text.trim_start();
    let mut words = Vec::new();
    for _ in 0..count {
        let end = rest.find(char::is_whitespace)?;
        words.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    (!rest.is_empty()).then(|| (words.join(" "), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Source {
        let homes =
            [("ann", "/users/ann"), ("root", "/root")].map(|(user, home)| (user.to_owned(), home.to_owned()));
        Source {
            name: "crontab".into(),
            zone: "Europe/Paris".into(),
            own_user: "root".into(),
            homes: homes.into(),
            ..Source::default()
        }
    }

    fn one(text: &str) -> (String, String, Vec<String>) {
        let mut out = convert(&[(source(), text.to_owned())]);
        let report = out.report.pop().expect("a line");
        let (name, text) = out.files.pop().unwrap_or_else(|| panic!("{text}: {report:?}"));
        (name, text, report.remarks)
    }

    #[test]
    fn a_line_becomes_a_job_that_does_as_cron_does() {
        let (name, text, remarks) =
            one("# Nightly dump\n# of the shop\n30 2 * * 1-5 cd /srv && ./dump.sh --all > /dev/null 2>&1");
        assert_eq!(name, "dump.yaml");
        assert_eq!(
            text,
            "description: \"Nightly dump of the shop\"\nschedule: \"30 2 * * 1-5\"\ndialect: \"vixie\"\ntimezone: \
             \"Europe/Paris\"\nmisfire: \"skip\"\noverlap: \"allow\"\ndir: \"/root\"\nenv: {\"PATH\":\"/usr/bin:/bin\"}\nrun: \
             \"cd /srv && ./dump.sh --all > /dev/null 2>&1\"\n"
        );
        assert_eq!(remarks, [""; 0]);
    }

    #[test]
    fn settings_count_for_the_lines_below_them() {
        let table = "* * * * * a\nSHELL=/bin/bash\nPATH = \"/opt/bin:/bin\"\nCRON_TZ='Asia/Tokyo'\nMAILTO=ops@example.org\n* * * * * b";
        let out = convert(&[(source(), table.to_owned())]);
        let [(_, a), (_, b)] = &out.files[..] else { panic!("{out:?}") };
        assert!(!a.contains("bash") && a.contains("Europe/Paris") && a.contains(CRON_PATH));
        assert!(
            b.contains("shell: \"/bin/bash\"") && b.contains("Asia/Tokyo") && b.contains("/opt/bin:/bin")
        );
        assert!(!b.contains("MAILTO") && !b.contains("SHELL"));
        assert_eq!(out.report.len(), 6);
        assert!(out.report[4].remarks[0].contains("ops@example.org"));
    }

    #[test]
    fn percent_signs_end_the_command_and_begin_its_input() {
        let check = |text: &str, command: &str, input: Option<&str>| {
            assert_eq!(split_input(text), (command.to_owned(), input.map(str::to_owned)), "{text}");
        };
        check("mail -s now ann%Hello,%%bye", "mail -s now ann", Some("Hello,\n\nbye"));
        check(r"date +\%F > x", "date +%F > x", None);
        check(r"cat%50\% done", "cat", Some("50% done"));
        check(r"a \b", r"a \b", None);
        check("cat%", "cat", Some(""));
        let (_, text, _) = one("@daily tr a b; cat%x%y");
        assert!(
            text.contains(r#"script: "{ tr a b; cat\n} <<'CADRAN_INPUT'\nx\ny\nCADRAN_INPUT\n""#),
            "{text}"
        );
    }

    #[test]
    fn system_tables_name_the_user() {
        let system = Source { has_user_column: true, ..source() };
        let table = "17 * * * * root cd / && run-parts --report /etc/cron.hourly\n@weekly ann backup\n5 4 * * * ghost x";
        let out = convert(&[(system, table.to_owned())]);
        let texts: Vec<&str> = out.files.iter().map(|(_, text)| text.as_str()).collect();
        assert!(texts[0].contains("run: \"cd / && run-parts --report /etc/cron.hourly\""));
        assert!(
            texts[1].contains(r#"run: ["runuser","-u","ann","--","/bin/sh","-c","backup"]"#)
                && texts[1].contains("/users/ann")
        );
        assert!(out.report[1].remarks[0].contains("runuser"));
        assert!(out.report[2].remarks[0].contains("home directory"));
    }

    #[test]
    fn names_are_what_the_command_is_called_and_stay() {
        let check = |command: &str, name: &str| assert_eq!(command_name(command), name, "{command}");
        check("/usr/local/bin/backup.sh --full", "backup");
        check("cd /srv/app && /usr/bin/python3 manage.py clearsessions", "manage");
        check("test -x /usr/sbin/anacron || run-parts /etc/cron.daily", "run-parts");
        check("[ -x /x ] && if true; then /opt/y z; fi", "if");
        check("FOO=1 nice -n 10 flock -n /tmp/l /opt/job.rb", "l");
        check("*/ %%", "command");
        let names_of = |table: &str| -> Vec<String> {
            convert(&[(source(), table.to_owned())]).files.into_iter().map(|(name, _)| name).collect()
        };
        let [one, two] = &names_of("@daily x.sh a\n@daily x.sh b")[..] else { panic!() };
        assert!(one != two && one.starts_with("x-"));
        let three = names_of("@hourly x.sh c\n@daily x.sh b\n@daily x.sh a\n@daily x.sh a");
        assert_eq!((&three[1], &three[2]), (two, one));
        assert_eq!(three[3], format!("{}-2.yaml", one.trim_end_matches(".yaml")));
    }

    #[test]
    fn what_cannot_be_carried_over_is_said_with_its_line() {
        let check = |line: &str, says: &str| {
            let out = convert(&[(source(), line.to_owned())]);
            let [LineReport { line: 1, outcome: Outcome::LeftOut(why), .. }] = &out.report[..] else {
                panic!("{out:?}")
            };
            assert!(out.files.is_empty() && why.contains(says), "{line}: {why}");
        };
        check("* * * *", "neither a setting");
        check("61 * * * * x", "61");
        check("@sometimes x", "@sometimes");
        check("5~1 * * * * x", "random range");
        check("\u{1}\u{2}binary", "neither a setting");
        let (_, text, remarks) = one("@reboot /opt/start");
        assert!(!text.contains("schedule") && remarks[0].contains("start of the machine"));
        let (_, text, remarks) = one("0~10 3 * * * x");
        assert!(remarks[0].contains("0~10 3 * * *") && text == one("0~10 3 * * * x").1, "{text}");
    }
}
