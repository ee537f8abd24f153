//! Steps in containers, with a program in the place of docker that notes how it is called. What it is told to run it runs
//! here.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use super::support::{Home, alive, wait_for};
use super::{cadran, said};

/// Notes its arguments, one call on a line; runs what stands behind the image, with the environment it was told to hand on.
const FAKE: &str = r#"#!/bin/sh
printf '%s|' "$(basename "$0")" "$@" >> "$FAKE_HOME/calls"; echo >> "$FAKE_HOME/calls"
[ "$1" = run ] || exit 0
shift
entry=
while [ $# -gt 0 ]; do
  case "$1" in
    --entrypoint=*) entry=${1#*=} ;;
    --env=*) handed="$handed ${1#*=}" ;;
    -*) ;;
    *) break ;;
  esac
  shift
done
echo "$handed" | tr ' ' '\n' | sort | tr '\n' ' ' > "$FAKE_HOME/handed"
shift
[ -n "$entry" ] || { echo "the image's own: $*"; exit 0; }
exec "$entry" "$@"
"#;

fn home_with(engines: &[&str]) -> Home {
    let home = Home::new();
    std::fs::create_dir(home.path("bin")).expect("a directory");
    for engine in engines {
        let path = home.path("bin").join(engine);
        std::fs::write(&path, FAKE).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
    }
    // What the shell and the program itself need, and no engine of this machine.
    for program in ["sh", "basename", "tr", "sort", "sleep", "cat", "touch"] {
        let real =
            ["/bin", "/usr/bin"].iter().map(|dir| Path::new(dir).join(program)).find(|path| path.exists());
        std::os::unix::fs::symlink(real.expect("a usual program"), home.path("bin").join(program))
            .expect("a link");
    }
    home
}

fn run(home: &Home, job: &str) -> Output {
    run_with(home, job, &[])
}

fn run_with(home: &Home, job: &str, args: &[&str]) -> Output {
    let job = job.replace("HOME_DIR", &home.path("").display().to_string());
    std::fs::write(home.path("job.yaml"), job).expect("a file");
    cadran()
        .args(["run", "job.yaml"])
        .args(args)
        .env("PATH", home.path("bin"))
        .current_dir(home.path(""))
        .output()
        .expect("it starts")
}

/// The words of one call of an engine.
fn call(home: &Home, at: usize) -> Vec<String> {
    let calls = home.lines("calls");
    let line = calls.get(at).unwrap_or_else(|| panic!("no call {at} among {calls:?}"));
    line.trim_end_matches('|').split('|').map(str::to_owned).collect()
}

// covers: key step.container
// covers: key job.container
// covers: key container.{image,args,engine,mounts,volumes,user,dir,working_dir,network,memory,cpus,pull,pull_policy,options}
#[test]
fn a_container_is_a_command_line_of_its_engine() {
    let home = home_with(&["docker", "podman"]);
    let text = "params: {day: x}\nenv: {FAKE_HOME: HOME_DIR, SECRET: s3cret}\nsteps:\n  - name: full\n    run: echo \"got $SECRET $day\"\n    \
                env: {MODE: fast}\n    container:\n      image: alpine:${day}\n      engine: podman\n      mounts: ['./${day}:/data:ro', 'cache:/cache']\n      \
                user: 1000:1000\n      dir: /data\n      network: none\n      memory: 64m\n      cpus: 0.5\n      pull: never\n      options: [--read-only]\n    \
                output: OUT\n  - name: own\n    depends: full\n    container: {image: tool, volumes: './:/w', working_dir: /w, pull_policy: missing, args: ['${OUT}']}\n    \
                stdout: own\n";
    let output = run_with(&home, text, &["-p", "day=mon"]);
    assert!(output.status.success(), "{}", said(&output));
    let full = call(&home, 0);
    let source = home.path("mon").display().to_string();
    let volume = format!("--volume={source}:/data:ro");
    for word in [
        "--rm",
        &volume,
        "--volume=cache:/cache",
        "--user=1000:1000",
        "--workdir=/data",
        "--network=none",
        "--memory=64m",
        "--cpus=0.5",
        "--pull=never",
        "--read-only",
        "--entrypoint=/bin/sh",
        "alpine:mon",
    ] {
        assert!(full.iter().any(|found| found == word), "{word}: {full:?}");
    }
    assert_eq!(full[..2], ["podman", "run"]);
    assert!(full.iter().any(|word| word.starts_with("--name=cadran-") && word.ends_with("-0-1")), "{full:?}");
    // Values reach the container, and stand in no argument.
    assert!(!full.iter().any(|word| word.contains("s3cret")), "{full:?}");
    let own = call(&home, 1);
    assert_eq!(own[..2], ["docker", "run"]);
    assert_eq!(own[own.len() - 2..], ["tool", "got s3cret mon"], "{own:?}");
    assert_eq!(home.lines("own"), ["the image's own: got s3cret mon"]);
    let handed = home.lines("handed").join(" ");
    for name in ["CADRAN_JOB", "CADRAN_RUN_ID", "OUT", "SECRET", "day"] {
        assert!(handed.split(' ').any(|found| found == name), "{name}: {handed}");
    }
    for name in ["PATH", "HOME", "CADRAN_MARK", "CADRAN_LOG"] {
        assert!(!handed.split(' ').any(|found| found == name), "{name}: {handed}");
    }
    // A job of one step, by the name of its image alone; the exit code is the container's.
    let output = run(&home, "env: {FAKE_HOME: HOME_DIR}\nrun: [sh, -c, exit 7]\ncontainer: alpine:3\n");
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    assert_eq!(home.lines("calls").len(), 3, "a container that ended by itself is not removed again");
}

#[test]
fn a_container_ends_with_its_step_and_with_its_executor() {
    let home = home_with(&["docker"]);
    let path = home.path("").display().to_string();
    let env = format!("env: {{FAKE_HOME: '{path}'}}\n");
    let output = run(&home, &format!("{env}timeout: 300ms\nrun: [sleep, '301']\ncontainer: alpine\n"));
    assert!(!output.status.success(), "{}", said(&output));
    let name = call(&home, 0).into_iter().find_map(|word| word.strip_prefix("--name=").map(str::to_owned));
    assert_eq!(call(&home, 1), ["docker", "rm", "-f", &name.expect("a name")]);

    let bin = home.path("bin").display().to_string();
    home.job("long", &format!("env: {{FAKE_HOME: '{path}', PATH: '{bin}'}}\nretry: never\nrun: [sh, -c, 'touch on; exec sleep 302']\ncontainer: alpine\ndir: '{path}'\n"));
    let server = home.serve_with(&[]);
    let run = server.trigger("long", "{}");
    wait_for("the container to be on", || home.path("on").exists().then_some(()));
    server.kill();
    assert!(alive("302"), "work outlives the server");
    home.kill_executor();
    let mut command = home.serve_command(&[]);
    command.env("FAKE_HOME", home.path(""));
    let server = home.start(command);
    wait_for("the engine's program to end", || (!alive("302")).then_some(()));
    assert_eq!(call(&home, 3), ["docker", "rm", "-f", &format!("cadran-{run}-0-1")]);
    server.run_is(&run, "lost");
    assert!(server.stop().success());
}

#[test]
fn without_an_engine_the_step_is_refused_and_check_warns() {
    let home = home_with(&[]);
    let text = "steps:\n  - name: build\n    run: make\n    container: alpine:3\n";
    let output = run(&home, text);
    assert!(!output.status.success());
    assert!(said(&output).contains("neither docker nor podman is installed"), "{}", said(&output));
    let output = run(&home, "run: make\ncontainer: {image: alpine, engine: podman}\n");
    assert!(said(&output).contains("podman is not installed"), "{}", said(&output));
    home.job("job", text);
    let check = |path: &Path| {
        let output = cadran().arg("check").arg(home.path("jobs/job.yaml")).env("PATH", path).output();
        output.expect("it starts")
    };
    let warned = check(&home.path("bin"));
    assert!(warned.status.success() && said(&warned).contains("job.yaml:4:5"), "{}", said(&warned));
    assert!(said(&warned).contains("neither docker nor podman"), "{}", said(&warned));
    std::fs::write(home.path("bin/docker"), "").expect("a file");
    assert!(!said(&check(&home.path("bin"))).contains("docker"));
}

#[test]
fn mistakes_in_containers_are_found_when_the_file_is_read_or_the_step_starts() {
    let home = home_with(&["docker"]);
    for (text, said_at, says) in [
        ("container: {args: [a]}", "1:12", "no `image`"),
        ("container: '-it alpine'", "1:12", "no name of an image"),
        ("container: {image: a, memory: much}", "1:31", "memory: 512m"),
        ("container: {image: a, mounts: ['/data']}", "1:31", "SOURCE:TARGET"),
        ("container: {image: a, options: [privileged]}", "1:32", "no option"),
        ("container: {image: a, command: x}", "1:23", "beside `container`"),
        ("container: {image: a, args: [x]}\nrun: y", "1:23", "keep one of the two"),
        ("container: a\nscript: y", "2:1", "run: |"),
        ("container: a\nexecutor: build", "1:1", "executor: local"),
    ] {
        home.job("job", &format!("{text}\n"));
        let output = cadran().arg("check").arg(home.path("jobs/job.yaml")).output().expect("it starts");
        let shown = said(&output);
        assert_eq!(output.status.code(), Some(1), "{text}: {shown}");
        assert!(shown.contains(says) && shown.contains(&format!("job.yaml:{said_at}")), "{text}: {shown}");
    }
    for (container, given, says) in [
        ("{image: '${day}'}", "day=", "may have no value"),
        ("{image: '${day}'}", "day=--privileged", "cannot be"),
        ("{image: a, mounts: './${day}:/d'}", "day=../../etc", "mounts"),
        ("{image: a, mounts: './${day}:/d'}", "day=x:/etc", "holds a `/`"),
        ("{image: a, mounts: './${day}:/d'}", "day=x:ro", "holds a `:`"),
    ] {
        let output =
            run_with(&home, &format!("params: {{day: x}}\ncontainer: {container}\n"), &["-p", given]);
        assert!(!output.status.success() && said(&output).contains(says), "{given}: {}", said(&output));
    }
    assert!(home.lines("calls").is_empty());
}
