//! Jobs that executors write: files like all others, below `xxl-job/GROUP/` of the jobs folder.
//!
//! What an executor says is written as a job file and read back the way every file is: there is no second way for a job
//! to come into force. A group has its own directory and changes nothing outside of it, and its jobs run on its own
//! executors alone.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cadran_core::{Command, GroupName, JobName};
use cadran_exec::xxl::form::JobForm;
use cadran_spec::{Caller, ReadOptions, read_job};
use cadran_store::Store;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;

use super::LoopHandle;
use crate::xxl_job::{JobInfo, plain_name};

/// The directory below the jobs folder.
const DIRECTORY: &str = "xxl-job";

/// Job files of one group: far more than people write, far fewer than a folder may have in all.
const FILES_MAX: usize = 10_000;

/// Jobs of the same name that are told apart by a number.
const NAMES_MAX: usize = FILES_MAX;

/// How long a file may take to come into force, and a call may wait for the one before it.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Writes, changes and removes job files for executors.
pub struct JobFiles {
    root: PathBuf,
    reading: ReadOptions,
    caller: Caller,
    loop_handle: LoopHandle,
    store: Store,
    /// One call at a time: names are found free, and then taken.
    writing: Mutex<()>,
}

impl JobFiles {
    /// For the jobs folder at `root`, which is watched.
    pub fn new(
        root: &Path,
        reading: ReadOptions,
        caller: Caller,
        loop_handle: LoopHandle,
        store: Store,
    ) -> JobFiles {
        JobFiles { root: root.to_owned(), reading, caller, loop_handle, store, writing: Mutex::new(()) }
    }

    /// The jobs folder.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Where jobs are on record.
    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Makes a job, and says its number. Its schedule rests.
    pub async fn add(&self, group: &GroupName, form: &JobForm) -> Result<u32, String> {
        let text = job_text(group, form, false, &self.reading)?;
        let resting = job_text(group, form, true, &self.reading)?;
        let _writing = self.lock().await?;
        let name = self.free_name(group, form).await?;
        let path = self.path(group, &name);
        let made = async {
            // First without its schedule, until it is known to rest: no due can slip through.
            self.write(&path, &resting).await?;
            let number = self.number(group, &name)?;
            if text != resting {
                let paused = self.loop_handle.command(Command::Pause { job: name.clone() }).await;
                paused.map_err(|refusal| refusal.to_string())?;
                self.write(&path, &text).await?;
            }
            Ok(number)
        };
        let made = made.await;
        match &made {
            Ok(number) => tracing::info!(%group, job = %name, number, "an executor added a job"),
            // Nobody knows its number: nobody could remove it.
            Err(_) => drop(self.delete(&path).await),
        }
        made
    }

    /// Makes a job what is described now. Whether its schedule rests stays as it was.
    pub async fn update(&self, group: &GroupName, name: &JobName, form: &JobForm) -> Result<(), String> {
        let text = job_text(group, form, false, &self.reading)?;
        let _writing = self.lock().await?;
        let path = self.own(group, name).await?;
        self.write(&path, &text).await?;
        tracing::info!(%group, job = %name, "an executor changed a job");
        Ok(())
    }

    /// Removes a job. What runs goes on to its end.
    pub async fn remove(&self, group: &GroupName, name: &JobName) -> Result<(), String> {
        let _writing = self.lock().await?;
        let path = self.own(group, name).await?;
        self.delete(&path).await?;
        tracing::info!(%group, job = %name, "an executor removed a job");
        Ok(())
    }

    pub(super) async fn lock(&self) -> Result<MutexGuard<'_, ()>, String> {
        let busy = |_| "too many jobs are being written; try again in a moment".to_owned();
        timeout(WRITE_TIMEOUT, self.writing.lock()).await.map_err(busy)
    }

    /// A name that no job has, made of what the job is called or else of its handler.
    async fn free_name(&self, group: &GroupName, form: &JobForm) -> Result<JobName, String> {
        let directory = self.root.join(DIRECTORY).join(group.as_str());
        let files = blocking(move || match fs::read_dir(&directory) {
            Ok(entries) => Ok(entries.take(FILES_MAX).count()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(format!("the jobs of the group cannot be read: {error}")),
        });
        if files.await? >= FILES_MAX {
            return Err(format!("group {group} has {FILES_MAX} jobs already; remove some"));
        }
        let plain = plain_name([form.name.as_str(), &form.executor_handler]);
        let plain = plain.unwrap_or_else(|| "job".to_owned());
        let mut from = 1;
        while from <= NAMES_MAX {
            let plain = plain.clone();
            let free = self.query(move |engine| {
                (from..=NAMES_MAX).find_map(|no| {
                    let name = if no == 1 { plain.clone() } else { format!("{plain}-{no}") };
                    let name: JobName = name.parse().ok()?;
                    engine.catalog().find(&name).is_none().then_some((no, name))
                })
            });
            let Some((no, name)) = free? else { break };
            // A file that is not in force, because of a mistake in it, is not ours to replace.
            if !self.path(group, &name).exists() {
                return Ok(name);
            }
            from = no + 1;
        }
        Err(format!("{NAMES_MAX} jobs are called {plain} already; give this one another name"))
    }

    /// The file of a job that executors of the group wrote.
    async fn own(&self, group: &GroupName, name: &JobName) -> Result<PathBuf, String> {
        let job = self.store.job(name).await.map_err(|error| error.to_string())?;
        let source = job.map(|job| job.put.source).unwrap_or_default();
        if *source != *format!("{DIRECTORY}/{group}/{name}.yaml") {
            return Err(format!(
                "job {name} was not written by executors of group {group}; change its file on the server, or move \
                 it to {DIRECTORY}/{group}/{name}.yaml there"
            ));
        }
        Ok(self.path(group, name))
    }

    fn path(&self, group: &GroupName, name: &JobName) -> PathBuf {
        self.root.join(DIRECTORY).join(group.as_str()).join(format!("{name}.yaml"))
    }

    /// The number of a job that is in force, on a group.
    fn number(&self, group: &GroupName, name: &JobName) -> Result<u32, String> {
        let (group, name) = (group.clone(), name.clone());
        let number = self.query(move |engine| {
            let job = engine.catalog().find(&name)?;
            engine.catalog().is_of(&name, &group).then(|| job.executor_number())
        });
        number?.ok_or_else(|| "the job did not come into force; see what the server's log says".to_owned())
    }

    fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&cadran_engine::Engine) -> T + Send + 'static,
    ) -> Result<T, String> {
        let found = tokio::task::block_in_place(|| self.loop_handle.query(query));
        found.map_err(|refusal| refusal.to_string())
    }

    /// Writes a file, whole or not at all, and waits until it counts.
    pub(super) async fn write(&self, path: &Path, text: &str) -> Result<(), String> {
        let (path, text, caller) = (path.to_owned(), text.to_owned(), self.caller.clone());
        blocking(move || {
            put(&path, &text).map_err(|error| format!("the job's file cannot be written: {error}"))?;
            seen(&caller)
        })
        .await
    }

    pub(super) async fn delete(&self, path: &Path) -> Result<(), String> {
        let (path, caller) = (path.to_owned(), self.caller.clone());
        blocking(move || {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(format!("the job's file cannot be removed: {error}"));
                }
                _ => {}
            }
            sync_directory(&path).map_err(|error| format!("the job's file cannot be removed: {error}"))?;
            seen(&caller)
        })
        .await
    }
}

/// The file of a job, with its schedule or while that rests. It is read once here, so that a mistake is answered.
fn job_text(group: &GroupName, form: &JobForm, rests: bool, reading: &ReadOptions) -> Result<String, String> {
    if group.as_str() == cadran_spec::HERE {
        return Err(format!("in job files `{group}` is the server itself; give the group another name"));
    }
    let info = JobInfo { rests, ..JobInfo::of(form)? };
    let mut head =
        format!("# Written by executors of group {group}, and written again when they change the job.\n");
    let mut remark = |text: &str| {
        // One line, whatever is in it: the rest of a comment would be part of the job.
        let plain = |c: char| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { ' ' } else { c };
        head.push_str("# ");
        head.extend(text.chars().map(plain));
        head.push('\n');
    };
    if !form.glue_remark.trim().is_empty() {
        remark(form.glue_remark.trim());
    }
    let body = info.text(group.as_str(), |text| remark(&text));
    let text = head + &body;
    let read = read_job(text.as_bytes(), "job", reading).map_err(|found| {
        let why = found.first().map(|found| found.message.as_str()).unwrap_or_default();
        format!("such a job cannot be: {why}")
    })?;
    if !read.job.body.is_of(group) {
        return Err(format!("such a job would not run on group {group}"));
    }
    Ok(text)
}

fn seen(caller: &Caller) -> Result<(), String> {
    let late =
        || "the server did not look at its jobs folder in time; what is there counts when it does".to_owned();
    caller.scan_now(WRITE_TIMEOUT).then_some(()).ok_or_else(late)
}

/// What is acknowledged is on disk.
fn put(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or(path);
    fs::create_dir_all(directory)?;
    // Hidden files are no job files.
    let half = directory.join(".half-written");
    let mut file = File::create(&half)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&half, path)?;
    sync_directory(path)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent().map(File::open) {
        Some(Ok(directory)) => directory.sync_all(),
        Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err("an error inside of the server".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadran_core::Work;

    /// Texts that mean something in YAML, in a comment, to a shell or to us.
    const NASTY: [&str; 22] = [
        "a\nrun: reboot",
        "a\r\nsteps: [{name: x, run: reboot}]",
        "\u{85}run: reboot",
        "\u{2028}run: reboot\u{2029}",
        "\"}\nrun: reboot #",
        "'",
        "\\",
        "# x",
        "- a",
        "]}",
        "{a: b}",
        "---\nrun: reboot",
        "%YAML 1.1",
        "!!python/object x",
        "&a *a",
        "null",
        "~",
        "${HOME} $$ $(reboot) `reboot`",
        "\u{feff}",
        "\u{202e}evil",
        "\0",
        "/../../x",
    ];

    #[test]
    fn whatever_a_form_says_its_job_runs_on_its_group_alone() {
        let group: GroupName = "g".parse().expect("a name");
        let plain = JobForm {
            name: "a".to_owned(),
            executor_handler: "h".to_owned(),
            glue_source: "echo".to_owned(),
            ..JobForm::default()
        };
        let fields: [fn(&mut JobForm) -> &mut String; 12] = [
            |form| &mut form.name,
            |form| &mut form.author,
            |form| &mut form.alarm_email,
            |form| &mut form.schedule_conf,
            |form| &mut form.schedule_type,
            |form| &mut form.misfire_strategy,
            |form| &mut form.executor_route_strategy,
            |form| &mut form.executor_handler,
            |form| &mut form.executor_param,
            |form| &mut form.executor_block_strategy,
            |form| &mut form.glue_source,
            |form| &mut form.glue_remark,
        ];
        let mut taken = 0;
        for (at, field) in fields.iter().enumerate() {
            for nasty in NASTY {
                for (schedule, glue) in [("", ""), ("CRON", ""), ("", "GLUE_SHELL")] {
                    let mut form = JobForm {
                        schedule_type: schedule.to_owned(),
                        schedule_conf: if schedule.is_empty() { "" } else { "0 0 2 * * ?" }.to_owned(),
                        glue_type: glue.to_owned(),
                        ..plain.clone()
                    };
                    *field(&mut form) = nasty.to_owned();
                    let Ok(text) = job_text(&group, &form, false, &ReadOptions::default()) else { continue };
                    taken += 1;
                    let case = format!("field {at}, {nasty:?}\n{text}");
                    let job = read_job(text.as_bytes(), "x", &ReadOptions::default()).expect(&case).job;
                    let [step] = &job.body.steps[..] else { panic!("{case}") };
                    match &step.work {
                        Work::Handler(handler) => {
                            assert_eq!(*handler, form.executor_handler.trim(), "{case}")
                        }
                        Work::Glue(_, script) => assert_eq!(*script, form.glue_source, "{case}"),
                        _ => panic!("{case}"),
                    }
                    assert!(job.body.is_of(&group) && job.body.handlers == Default::default(), "{case}");
                    assert_eq!(job.body.params[0].default, form.executor_param, "{case}");
                    assert_eq!(job.body.description, form.name.trim(), "{case}");
                }
            }
        }
        assert!(taken > 300, "most of it can be said: {taken}");
    }
}
