//! The keys of a Dagu file, of 1.x and of 2.x, in snake_case; camelCase is accepted for each.

use crate::read::fields_keys as keys;
use crate::read::{Shape, key};

const IN_STEPS: &str = "write it with the steps";

pub(super) const JOB: Shape = Shape {
    what: "a Dagu file",
    keys: &[
        key("dialect"),
        key("name"),
        key("group"),
        key("description"),
        key("tags"),
        key("labels"),
        key("schedule"),
        key("skip_if_successful"),
        key("catchup_window"),
        key("overlap_policy"),
        key("type"),
        key("env"),
        key("dotenv"),
        key("params"),
        key("working_dir"),
        key("shell"),
        keys("preconditions", &["precondition"]),
        key("timeout_sec"),
        key("delay_sec"),
        key("max_active_runs"),
        key("max_active_steps"),
        key("queue"),
        key("hist_retention_days"),
        key("hist_retention_runs"),
        key("handler_on"),
        key("defaults"),
        key("consts"),
        key("steps"),
        key("mail_on"),
        key("smtp"),
        key("error_mail"),
        key("info_mail"),
        key("wait_mail"),
        // These change nothing about what runs.
        key("log_dir"),
        key("log_output"),
        key("max_output_size"),
        key("max_clean_up_time_sec"),
        key("restart_wait_sec"),
        key("otel"),
        key("run_config"),
        key("webhook"),
        key("artifacts"),
    ],
    unsupported: &[
        ("container", "give each step its own command, as in `command: docker run --rm IMAGE …`"),
        ("ssh", "run `ssh` itself as a step"),
        ("secrets", "read the secret inside of a step, from a file or a program"),
        ("worker_selector", "steps run on this server; see `executor` of Cadran's own job files for others"),
        ("base_config", "write what the base file says into this one"),
        ("resources", "limit it in the command itself, or in the service manager"),
        ("actions", IN_STEPS),
        ("step_types", IN_STEPS),
        ("registry_auths", "log in with the container program's own command"),
        ("llm", "Cadran runs commands"),
        ("redis", "run the client program as a step"),
        ("s3", "run the client program as a step"),
        ("retry_policy", "give the steps their `retry_policy`"),
        ("functions", "write the commands into the steps"),
        ("handlers", "in a Dagu file this is `handler_on`"),
        (
            "timezone",
            "in a Dagu file the zone stands in the schedule: `schedule: \"CRON_TZ=Europe/Paris 0 3 * * *\"`",
        ),
        (
            "run",
            "in a Dagu file the commands stand in `steps`; for the cron notation alone write `schedule: {cron: …, dialect: dagu}`",
        ),
        ("misfire", "in a Dagu file `catchup_window` says how missed runs are made up for"),
        ("overlap", "in a Dagu file this is `overlap_policy`"),
        ("retry", "in a Dagu file each step has its `retry_policy`"),
        (
            "footprint",
            "a file by Dagu's rules has `queue`; for the cron notation alone write `schedule: {cron: …, dialect: dagu}`",
        ),
    ],
};

const AS_COMMAND: &str = "write what it does as `command` or `script`";

pub(super) const STEP: Shape = Shape {
    what: "a step of a Dagu file",
    keys: &[
        key("name"),
        key("id"),
        key("description"),
        keys("command", &["cmd", "run"]),
        key("args"),
        key("script"),
        key("shell"),
        key("shell_packages"),
        keys("working_dir", &["dir"]),
        key("env"),
        keys("depends", &["depends_on"]),
        key("output"),
        key("stdout"),
        key("stderr"),
        key("continue_on"),
        key("retry_policy"),
        key("repeat_policy"),
        keys("preconditions", &["precondition"]),
        key("timeout_sec"),
        key("signal_on_stop"),
        key("mail_on_error"),
        key("executor"),
        key("type"),
        keys("config", &["with"]),
        key("log_output"),
    ],
    unsupported: &[
        ("action", AS_COMMAND),
        ("container", "run the container command itself, as in `command: docker run --rm IMAGE …`"),
        ("call", "make the other job one of `children`, or put its steps in here"),
        ("params", "set them as `env` of the step"),
        ("parallel", "write the steps out; with `type: graph` they run in parallel"),
        ("foreach", "write the steps out, or loop inside of a script"),
        ("approval", "Cadran has no approvals; split the job in two and trigger the second by hand"),
        ("outputs", "use `output` to capture standard output"),
        ("worker_selector", "steps run where their job runs"),
        ("secrets", "read the secret inside of the step, from a file or a program"),
        ("llm", "Cadran runs commands"),
        ("messages", "Cadran runs commands"),
        ("agent", "Cadran runs commands"),
        ("routes", "use `preconditions` of the steps"),
        ("value", "use `preconditions` of the steps"),
        ("delay_sec", "begin the step with `sleep`"),
        ("retry", "in a Dagu file this is `retry_policy`"),
        ("timeout", "in a Dagu file this is `timeout_sec`"),
    ],
};

pub(super) const HANDLERS: Shape = Shape {
    what: "`handler_on`",
    keys: &[key("init"), key("success"), key("failure"), keys("abort", &["cancel"]), key("exit")],
    unsupported: &[("wait", "Cadran has no approvals to wait for")],
};

pub(super) const REPEAT: Shape = Shape {
    what: "a repeat policy",
    keys: &[
        key("repeat"),
        key("interval_sec"),
        key("limit"),
        key("condition"),
        key("expected"),
        keys("exit_codes", &["exit_code"]),
    ],
    unsupported: &[
        ("backoff", "repeat at a constant interval, or loop inside of a script"),
        ("max_interval_sec", "repeat at a constant interval, or loop inside of a script"),
    ],
};

pub(super) const OUTPUT: Shape =
    Shape { what: "`output`", keys: &[key("name"), key("key"), key("omit")], unsupported: &[] };

pub(super) const CONDITION: Shape = Shape {
    what: "a precondition",
    keys: &[keys("condition", &["command", "eval"]), key("expected"), key("negate")],
    unsupported: &[],
};

/// Keys of a job that only a Dagu file has. Any of them makes the whole file one, unless it also has [`OWN_JOB`]'s.
pub(super) const TELLING_JOB: &[&str] = &[
    "handler_on",
    "max_active_runs",
    "hist_retention_days",
    "hist_retention_runs",
    "mail_on",
    "error_mail",
    "info_mail",
    "wait_mail",
    "smtp",
    "delay_sec",
    "restart_wait_sec",
    "max_clean_up_time_sec",
    "log_dir",
    "max_output_size",
    "queue",
    "overlap_policy",
    "timeout_sec",
    "working_dir",
    "otel",
    "run_config",
    "worker_selector",
    "registry_auths",
    "base_config",
];

/// The same of a step.
pub(super) const TELLING_STEP: &[&str] = &[
    "command",
    "cmd",
    "id",
    "retry_policy",
    "repeat_policy",
    "call",
    "parallel",
    "mail_on_error",
    "working_dir",
    "timeout_sec",
    "action",
];

/// Keys that only Cadran's own job files have: a file with one of them is Cadran's, with other spellings in it.
pub(super) const OWN_JOB: &[&str] = &[
    "timezone",
    "time_zone",
    "dst",
    "enabled",
    "not_before",
    "not_after",
    "misfire",
    "overlap",
    "priority",
    "footprint",
    "timeout",
    "retry",
    "dir",
    "run",
    "script",
    "handlers",
    "executor",
    "handler",
    "glue",
    "route",
    "block",
    "concurrency",
    "children",
    "child_jobs",
    "history",
    "create_dir",
    "partial_success",
    "jitter",
];

/// The same of a step.
pub(super) const OWN_STEP: &[&str] = &[
    "run",
    "retry",
    "timeout",
    "handler",
    "glue",
    "route",
    "block",
    "concurrency",
    "job",
    "for_each",
    "http",
];
