//! Paths made from values, and links in the jobs folder, through the built binary.

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;
use support::{Home, cadran, wait_for};

/// A job for each place where a path may hold a parameter or an output.
fn places() -> [(&'static str, &'static str, &'static str); 5] {
    [
        (
            "stdout",
            "params: {day: monday}\nsteps:\n  - {name: a, run: echo caught, stdout: 'out/${day}.txt'}\n",
            "day",
        ),
        (
            "stderr",
            "params: {day: monday}\nsteps:\n  - {name: a, run: echo caught >&2, stderr: 'out/${day}.txt'}\n",
            "day",
        ),
        ("dir", "params: {day: monday}\ndir: 'out/${day}'\nrun: echo caught >caught.txt\n", "day"),
        (
            "through env",
            "params: {day: monday}\nenv: {TARGET: 'out/x${day}'}\nsteps:\n  - {name: a, run: echo caught, stdout: '${TARGET}'}\n",
            "day",
        ),
        (
            "output",
            "params: {day: monday}\nsteps:\n  - {name: a, run: 'printf %s \"$day\"', output: WHERE}\n  \
             - {name: b, run: echo caught, stdout: 'out/${WHERE}', depends: a}\n",
            "WHERE",
        ),
    ]
}

/// Values that lead somewhere else, made from parts: how often upwards, with which separators, and what follows.
fn traversals(outside: &Path) -> Vec<String> {
    let mut values =
        vec!["..".to_owned(), "".to_owned(), "/".to_owned(), outside.join("x").display().to_string()];
    for up in 1..=6 {
        for (dots, slash) in [("..", "/"), ("..", "//"), ("./..", "/"), ("x/..", "/")] {
            let way: String = vec![dots; up].join(slash);
            values.push(format!("{way}/escaped"));
            values.push(format!("{way}{}/escaped", outside.display()));
        }
    }
    values
}

fn run_file(home: &Home, file: &Path, value: &str) -> (bool, String) {
    let work = home.path("work");
    let mut command = cadran();
    command.current_dir(&work).arg("run").arg(file).arg("-p").arg(format!("day={value}"));
    let output = command.output().expect("it starts");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said)
}

/// Everything below a directory, by name.
fn tree(dir: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).expect("a directory").flatten() {
            names.push(entry.path().display().to_string());
            if entry.file_type().expect("a type").is_dir() {
                open.push(entry.path());
            }
        }
    }
    names.sort();
    names
}

#[test]
fn no_parameter_or_output_leads_out_of_the_path_that_the_file_names() {
    for (place, text, source) in places() {
        let home = Home::new();
        let file = home.path("job.yaml");
        fs::create_dir_all(home.path("work/out/monday")).expect("directories");
        fs::write(&file, text).expect("a file");
        let (is_good, said) = run_file(&home, &file, "tuesday");
        if place == "dir" {
            assert!(said.contains("does not exist"), "{said}");
        } else {
            assert!(is_good, "{place}: {said}");
        }
        let before = tree(&home.path(""));
        // All of them for one place, some for the others: each is a process.
        let step = if place == "stdout" { 1 } else { 9 };
        for value in traversals(&home.path("")).iter().step_by(step) {
            // Printed by a step, a value without an end of line is what it was.
            let (is_good, said) = run_file(&home, &file, value);
            assert!(!is_good, "{place} took {value:?}: {said}");
            let key = if place == "dir" {
                "`dir`"
            } else if place == "stderr" {
                "`stderr`"
            } else {
                "`stdout`"
            };
            assert!(said.contains(key) && said.contains(source), "{place} {value:?}: {said}");
        }
        assert_eq!(tree(&home.path("")), before, "{place}: nothing was written anywhere");
    }
}

#[test]
fn a_path_that_the_file_itself_names_may_lead_anywhere() {
    let home = Home::new();
    let file = home.path("job.yaml");
    fs::create_dir_all(home.path("work")).expect("a directory");
    let target = home.path("elsewhere");
    let text = format!(
        "params: {{target: {0}}}\nenv: {{OTHER: '../other'}}\nsteps:\n  - {{name: a, run: echo one, stdout: '${{target}}'}}\n  \
         - {{name: b, run: echo two, stdout: '${{OTHER}}'}}\n",
        target.display()
    );
    fs::write(&file, text).expect("a file");
    let output = cadran().current_dir(home.path("work")).arg("run").arg(&file).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(home.lines("elsewhere"), ["one"]);
    assert_eq!(home.lines("other"), ["two"]);
}

#[test]
fn an_output_file_has_the_bound_of_a_log() {
    let home = Home::new();
    let file = home.path("job.yaml");
    let target = home.path("flood.txt");
    fs::write(&file, format!("steps:\n  - {{name: a, run: 'head -c 40000000 /dev/zero | tr \"\\\\0\" x; echo the end', stdout: {}}}\n", target.display()))
        .expect("a file");
    let output = cadran().arg("run").arg(&file).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let written = fs::read_to_string(&target).expect("the file");
    assert!(written.len() < 11 << 20, "{} bytes", written.len());
    assert!(written.contains("… cut: the log is full"), "it says that it was cut");
    assert!(written.ends_with("the end\n"), "the end is kept");
}

fn problems(server: &support::Server) -> Vec<(String, String)> {
    let (status, answer) = server.get("/api/v1/problems");
    assert_eq!(status, 200, "{answer}");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = answer["problems"].as_array().expect("a list");
    rows.iter().map(|row| (text(&row["file"]), text(&row["message"]))).collect()
}

fn job_names(home: &Home) -> Vec<String> {
    let answer = home.json(&["jobs", "--json"]);
    let rows = answer["jobs"].as_array().expect("a list");
    rows.iter().map(|row| row["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn links_out_of_the_jobs_folder_are_shown_and_not_followed() {
    let home = Home::new();
    fs::create_dir_all(home.path("outside/deep")).expect("directories");
    fs::write(home.path("outside/stolen.yaml"), "run: echo stolen\n").expect("a file");
    fs::write(home.path("outside/deep/stolen2.yaml"), "run: echo stolen\n").expect("a file");
    home.job("good", "run: echo good\n");
    symlink("/", home.path("jobs/whole-disk")).expect("a link");
    symlink(home.path("outside"), home.path("jobs/team")).expect("a link");
    symlink(home.path("outside/stolen.yaml"), home.path("jobs/linked.yaml")).expect("a link");
    symlink("..", home.path("jobs/up")).expect("a link");
    // Loops, and a second way to the same directory.
    fs::create_dir(home.path("jobs/sub")).expect("a directory");
    fs::write(home.path("jobs/sub/inner.yaml"), "run: echo inner\n").expect("a file");
    symlink(home.path("jobs"), home.path("jobs/sub/loop")).expect("a link");
    symlink("sub", home.path("jobs/again")).expect("a link");
    symlink("self", home.path("jobs/self")).expect("a link");
    let server = home.serve();
    assert_eq!(job_names(&home), ["good", "inner"]);
    let shown = problems(&server);
    let mut files: Vec<&str> = shown.iter().map(|(file, _)| file.as_str()).collect();
    files.sort_unstable();
    assert_eq!(files, ["linked.yaml", "team", "up", "whole-disk"], "{shown:?}");
    assert!(shown.iter().all(|(_, message)| message.contains("leads out of the jobs folder")), "{shown:?}");
    // Nothing outside is watched: a file that comes there is no news, one inside is.
    let watches = fs::read_dir(format!("/proc/{}/fdinfo", server.pid())).expect("a directory").flatten();
    let watches = watches.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let count: usize =
        watches.map(|text| text.lines().filter(|line| line.starts_with("inotify")).count()).sum();
    assert!((1..=4).contains(&count), "{count} directories are watched");
    fs::write(home.path("jobs/sub/later.yaml"), "run: echo later\n").expect("a file");
    wait_for("a job behind a real directory", || {
        job_names(&home).contains(&"later".to_owned()).then_some(())
    });
    let checked = cadran().arg("check").arg(home.path("jobs")).output().expect("it starts");
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(!checked.status.success() && said.contains("leads out of the jobs folder"), "{said}");
    fs::remove_file(home.path("jobs/team")).expect("removed");
    wait_for("the problem to go", || problems(&server).iter().all(|(file, _)| file != "team").then_some(()));
}

/// Writes a ConfigMap volume as the kubelet does: a directory with the data, `..data` as a link to it, and a link for each
/// file. An update makes a new directory and renames a new link over `..data`.
fn config_map(jobs: &Path, version: &str, files: &[(&str, &str)]) {
    let data = format!("..2026_01_01_00_00_00.{version}");
    fs::create_dir(jobs.join(&data)).expect("a directory");
    for (name, text) in files {
        fs::write(jobs.join(&data).join(name), text).expect("a file");
    }
    let before = fs::read_link(jobs.join("..data")).ok();
    symlink(&data, jobs.join("..data_tmp")).expect("a link");
    fs::rename(jobs.join("..data_tmp"), jobs.join("..data")).expect("renamed");
    for (name, _) in files.iter().filter(|(name, _)| fs::symlink_metadata(jobs.join(name)).is_err()) {
        symlink(Path::new("..data").join(name), jobs.join(name)).expect("a link");
    }
    for entry in fs::read_dir(jobs).expect("a directory").flatten() {
        let name = entry.file_name().into_string().expect("a name");
        if !name.starts_with("..") && !files.iter().any(|(known, _)| **known == name) {
            fs::remove_file(entry.path()).expect("a link that is gone");
        }
    }
    if let Some(before) = before {
        fs::remove_dir_all(jobs.join(before)).expect("the data before");
    }
}

#[test]
fn a_mounted_config_map_and_its_swap_are_followed() {
    let home = Home::new();
    let jobs = home.path("jobs");
    config_map(&jobs, "1", &[("a.yaml", "description: first\nrun: echo a\n"), ("b.yaml", "run: echo b\n")]);
    let server = home.serve();
    assert_eq!(job_names(&home), ["a", "b"]);
    assert_eq!(problems(&server), []);
    config_map(&jobs, "2", &[("a.yaml", "description: second\nrun: echo a\n"), ("c.yaml", "run: echo c\n")]);
    wait_for("the jobs of the second version", || (job_names(&home) == ["a", "c"]).then_some(()));
    wait_for("the changed text", || {
        (server.get("/api/v1/jobs/a").1["description"] == "second").then_some(())
    });
    assert_eq!(problems(&server), []);
    for version in 3..8 {
        let text = format!("description: version {version}\nrun: echo a\n");
        config_map(&jobs, &version.to_string(), &[("a.yaml", &text)]);
    }
    wait_for("the last of many swaps", || {
        (server.get("/api/v1/jobs/a").1["description"] == "version 7").then_some(())
    });
    wait_for("no problem in the end", || problems(&server).is_empty().then_some(()));
    assert!(server.stop().success());
}
