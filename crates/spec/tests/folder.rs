//! What one look at a folder finds, change by change. The clock is an argument: no test waits.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use cadran_core::{JobName, Millis, Zone};
use cadran_spec::{Change, Code, Folder, ReadOptions, Scan};
use tempfile::TempDir;

/// Long after any file of these tests was written: no file is taken for half written.
const LATER: Millis = 7_000_000_000_000;

fn put(root: &Path, source: &str, text: &str) {
    let path = root.join(source);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // As careful programs do it: the new text has a new inode, so that it is seen whatever the time stamps say.
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).unwrap();
    fs::rename(fresh, path).unwrap();
}

/// `+name from source` and `-name`, in order.
fn changes(scan: &Scan) -> Vec<String> {
    let row = |change: &Change| match change {
        Change::Put { job, source, .. } => format!("+{} from {source}", job.name),
        Change::Remove { name } => format!("-{name}"),
    };
    scan.changes.iter().map(row).collect()
}

/// `source: message` of everything that is wrong.
fn problems(scan: &Scan) -> Vec<String> {
    let rows = scan.diagnostics.iter().flat_map(|file| {
        file.diagnostics.iter().map(move |found| format!("{}: {}", file.source, found.message))
    });
    rows.collect()
}

struct Case {
    root: TempDir,
    folder: Folder,
}

impl Case {
    fn new(files: &[(&str, &str)]) -> Case {
        let root = TempDir::new().unwrap();
        for (source, text) in files {
            put(root.path(), source, text);
        }
        let folder = Folder::new(root.path(), ReadOptions::default());
        Case { root, folder }
    }

    fn path(&self, source: &str) -> std::path::PathBuf {
        self.root.path().join(source)
    }

    fn put(&self, source: &str, text: &str) {
        put(self.root.path(), source, text);
    }

    fn scan(&mut self) -> Scan {
        self.folder.scan(LATER)
    }

    #[track_caller]
    fn check(&mut self, expected: &[&str]) -> Scan {
        let scan = self.scan();
        assert_eq!(changes(&scan), expected, "{:?}", problems(&scan));
        scan
    }
}

const A: &str = "run: echo a\n";
const B: &str = "run: echo b\n";
const BAD: &str = "rnu: echo\n";

#[test]
fn create_edit_delete() {
    let mut case = Case::new(&[("a.yaml", A)]);
    let scan = case.check(&["+a from a.yaml"]);
    assert_eq!((scan.files, scan.unsettled), (1, 0));
    case.check(&[]);
    case.put("b.yml", B);
    case.check(&["+b from b.yml"]);
    case.put("a.yaml", "run: echo other\n");
    case.check(&["+a from a.yaml"]);
    fs::remove_file(case.path("a.yaml")).unwrap();
    case.check(&["-a"]);
    case.put("a.yaml", A);
    case.check(&["+a from a.yaml"]);
    // Touched, not changed.
    case.put("a.yaml", A);
    case.check(&[]);
}

#[test]
fn a_change_within_the_grain_of_the_clock_is_seen() {
    let mut case = Case::new(&[("a.yaml", A)]);
    let now = fs::metadata(case.path("a.yaml")).unwrap().modified().unwrap();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as Millis;
    assert_eq!(changes(&case.folder.scan(now)), ["+a from a.yaml"]);
    // Same size, same inode, and perhaps the same time stamps.
    fs::write(case.path("a.yaml"), "run: echo z\n").unwrap();
    assert_eq!(changes(&case.folder.scan(now)), ["+a from a.yaml"]);
}

#[test]
fn renames() {
    let mut case = Case::new(&[("a.yaml", A), ("named.yaml", "name: fixed\nrun: x\n")]);
    case.check(&["+a from a.yaml", "+fixed from named.yaml"]);
    fs::rename(case.path("a.yaml"), case.path("b.yaml")).unwrap();
    case.check(&["-a", "+b from b.yaml"]);
    // A job with a name of its own only gets another source.
    fs::rename(case.path("named.yaml"), case.path("moved.yaml")).unwrap();
    case.check(&["+fixed from moved.yaml"]);
    // The name changes inside of the file.
    case.put("moved.yaml", "name: other\nrun: x\n");
    case.check(&["-fixed", "+other from moved.yaml"]);
    // Two files swap their names.
    case.put("b.yaml", "name: other\nrun: x\n");
    case.put("moved.yaml", "name: b\nrun: x\n");
    case.check(&["+other from b.yaml", "+b from moved.yaml"]);
}

#[test]
fn directories() {
    let mut case =
        Case::new(&[("x/a.yaml", A), ("x/y/b.yaml", B), (".hidden/c.yaml", A), ("x/.git/d.yaml", A)]);
    case.check(&["+a from x/a.yaml", "+b from x/y/b.yaml"]);
    fs::rename(case.path("x/y"), case.path("z")).unwrap();
    case.check(&["+b from z/b.yaml"]);
    fs::remove_dir_all(case.path("x")).unwrap();
    case.check(&["-a"]);
    for name in ["a.yaml~", "#a.yaml#", ".a.yaml.swp", "a.json", "README.md", "4913"] {
        case.put(&format!("z/{name}"), A);
    }
    case.check(&[]);
}

#[test]
fn links_are_followed_but_not_in_circles() {
    let mut case = Case::new(&[("real/a.yaml", A)]);
    symlink(case.path("real"), case.path("again")).unwrap();
    symlink(case.root.path(), case.path("real/up")).unwrap();
    symlink(case.path("real/a.yaml"), case.path("b.yaml")).unwrap();
    let scan = case.check(&["+b from b.yaml", "+a from real/a.yaml"]);
    assert_eq!(problems(&scan), [""; 0]);
    symlink("nowhere", case.path("c.yaml")).unwrap();
    let scan = case.check(&[]);
    assert_eq!(scan.diagnostics[0].source.as_ref(), "c.yaml");
    assert!(problems(&scan)[0].contains("this link cannot be followed"), "{:?}", problems(&scan));
}

#[test]
fn what_is_no_file_is_not_opened() {
    let mut case = Case::new(&[("a.yaml", A)]);
    let socket = std::os::unix::net::UnixListener::bind(case.path("s.yaml")).unwrap();
    fs::create_dir(case.path("d.yaml")).unwrap();
    let scan = case.check(&["+a from a.yaml"]);
    assert_eq!(problems(&scan), ["s.yaml: this is no regular file"]);
    drop(socket);
}

#[test]
fn a_bad_file_keeps_its_last_good_job() {
    let mut case = Case::new(&[("a.yaml", A), ("never.yaml", BAD)]);
    let scan = case.check(&["+a from a.yaml"]);
    assert_eq!(problems(&scan), ["never.yaml: unknown key `rnu`", "never.yaml: the job has nothing to run"]);
    assert_eq!(scan.diagnostics[0].kept, None);
    case.put("a.yaml", BAD);
    let scan = case.check(&[]);
    assert!(scan.diagnostics_changed);
    assert_eq!(
        problems(&scan)[..3],
        [
            "a.yaml: unknown key `rnu`",
            "a.yaml: the job has nothing to run",
            "a.yaml: the job a stays as it was before this change"
        ]
    );
    assert_eq!(scan.diagnostics[0].kept, Some("a".parse().unwrap()));
    assert!(!case.scan().diagnostics_changed);
    // Good again, as before: put again, and nothing left to complain about.
    case.put("a.yaml", A);
    let scan = case.check(&["+a from a.yaml"]);
    assert_eq!(problems(&scan).len(), 2);
    // Bad, then gone.
    case.put("a.yaml", BAD);
    case.check(&[]);
    fs::remove_file(case.path("a.yaml")).unwrap();
    case.check(&["-a"]);
}

#[test]
fn two_files_with_one_name() {
    let mut case = Case::new(&[("b.yaml", "name: x\nrun: b\n"), ("c.yaml", "name: x\nrun: c\n")]);
    let scan = case.check(&["+x from b.yaml"]);
    assert_eq!(problems(&scan), ["c.yaml: the job name x is taken by b.yaml, so c.yaml is not used"]);
    assert_eq!(scan.diagnostics[0].diagnostics[0].code, Code::Name);
    // The first by path has it, also when it comes later.
    case.put("a.yaml", "name: x\nrun: a\n");
    let scan = case.check(&["+x from a.yaml"]);
    assert_eq!(scan.diagnostics.len(), 2);
    // When it goes, the next one takes its place.
    fs::remove_file(case.path("a.yaml")).unwrap();
    case.check(&["+x from b.yaml"]);
    case.put("b.yaml", "name: y\nrun: b\n");
    let scan = case.check(&["+y from b.yaml", "+x from c.yaml"]);
    assert_eq!(problems(&scan), [""; 0]);
    // A bad file still has its name, so nobody else takes it.
    case.put("b.yaml", BAD);
    case.put("c.yaml", "name: y\nrun: c\n");
    case.check(&["-x"]);
    fs::remove_file(case.path("b.yaml")).unwrap();
    case.check(&["+y from c.yaml"]);
}

#[test]
fn a_fresh_file_with_an_error_is_looked_at_again_first() {
    let mut case = Case::new(&[("a.yaml", "")]);
    let written = fs::metadata(case.path("a.yaml")).unwrap().modified().unwrap();
    let written = written.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as Millis;
    let scan = case.folder.scan(written + 100);
    assert_eq!((scan.changes.len(), scan.diagnostics.len(), scan.unsettled), (0, 0, 1));
    let scan = case.folder.scan(written + 60_000);
    assert_eq!((scan.changes.len(), scan.diagnostics.len(), scan.unsettled), (0, 1, 0));
    // Written to its end in time: nobody hears of it.
    case.put("b.yaml", "steps:\n  - name: x");
    let written = fs::metadata(case.path("b.yaml")).unwrap().modified().unwrap();
    let written = written.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as Millis;
    assert_eq!(case.folder.scan(written + 100).unsettled, 1);
    case.put("b.yaml", B);
    let scan = case.folder.scan(written + 60_000);
    assert_eq!((changes(&scan), scan.unsettled), (vec!["+b from b.yaml".to_owned()], 0));
}

#[test]
fn a_file_that_may_not_be_read() {
    let mut case = Case::new(&[("a.yaml", A), ("b.yaml", B)]);
    case.check(&["+a from a.yaml", "+b from b.yaml"]);
    case.put("a.yaml", "run: new\n");
    fs::set_permissions(case.path("a.yaml"), fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(case.path("a.yaml")).is_ok() {
        return; // The superuser may read everything; the other tests hold for everybody.
    }
    case.put("b.yaml", "run: new\n");
    let scan = case.check(&["+b from b.yaml"]);
    assert!(problems(&scan)[0].starts_with("a.yaml: the file cannot be read: "), "{:?}", problems(&scan));
    assert_eq!(scan.diagnostics[0].kept, Some("a".parse().unwrap()));
    fs::set_permissions(case.path("a.yaml"), fs::Permissions::from_mode(0o600)).unwrap();
    case.check(&["+a from a.yaml"]);
}

#[test]
fn a_folder_that_vanishes_keeps_its_jobs() {
    let mut case = Case::new(&[("jobs/a.yaml", A), ("jobs/b.yaml", B)]);
    case.folder = Folder::new(case.path("jobs"), ReadOptions::default());
    case.check(&["+a from a.yaml", "+b from b.yaml"]);
    fs::rename(case.path("jobs"), case.path("away")).unwrap();
    let scan = case.check(&[]);
    assert!(problems(&scan)[0].starts_with(": the jobs directory cannot be read: "), "{:?}", problems(&scan));
    fs::rename(case.path("away"), case.path("jobs")).unwrap();
    fs::remove_file(case.path("jobs/b.yaml")).unwrap();
    let scan = case.check(&["-b"]);
    assert_eq!(problems(&scan), [""; 0]);
}

#[test]
fn after_a_restart_unchanged_files_are_not_read_again() {
    let mut case = Case::new(&[("a.yaml", A), ("b.yaml", B), ("c.yaml", A), ("d.yaml", B)]);
    let scan = case.check(&["+a from a.yaml", "+b from b.yaml", "+c from c.yaml", "+d from d.yaml"]);
    let rows: Vec<(Arc<str>, Arc<str>, JobName)> = scan
        .changes
        .iter()
        .map(|change| match change {
            Change::Put { job, source, source_mark, .. } => {
                (source.clone(), source_mark.clone(), job.name.clone())
            }
            Change::Remove { name } => panic!("{name}"),
        })
        .collect();
    // While nobody looks: one edited, one made bad, one deleted.
    case.put("b.yaml", "run: new\n");
    case.put("c.yaml", BAD);
    fs::remove_file(case.path("d.yaml")).unwrap();
    let restart = |options: ReadOptions| {
        let mut folder = Folder::new(case.root.path(), options);
        folder.known(rows.iter().cloned());
        folder.known([("", "", "by-hand".parse().unwrap())]);
        let scan = folder.scan(LATER);
        (changes(&scan), scan.diagnostics.iter().map(|file| file.kept.clone()).collect::<Vec<_>>())
    };
    let (found, kept) = restart(ReadOptions::default());
    assert_eq!(found, ["-d", "+b from b.yaml"]);
    assert_eq!(kept, [Some("c".parse().unwrap())]);
    // Under another default zone the same file is another job.
    let (found, _) =
        restart(ReadOptions { default_zone: Zone::get("Asia/Tokyo").unwrap(), ..ReadOptions::default() });
    assert_eq!(found, ["-d", "+a from a.yaml", "+b from b.yaml"]);
}

const POOL: &str = "run: x\nfootprint: {capacity: {gpu: 3}}\n";

/// The capacity that the only put of a scan counts on.
fn capacity(scan: &Scan) -> u32 {
    let [Change::Put { job, .. }] = &scan.changes[..] else { panic!("{:?}", changes(scan)) };
    job.body.footprint.pools[0].capacity
}

#[test]
fn jobs_are_judged_by_the_resources_file() {
    let mut case = Case::new(&[("a.yaml", A), ("p.yaml", POOL), ("resources.yaml", "resources: {gpu: 4}\n")]);
    let scan = case.check(&["+a from a.yaml", "+p from p.yaml"]);
    assert_eq!(scan.files, 2);
    case.check(&[]);
    // Only jobs that share something are read again.
    case.put("resources.yaml", "resources: {gpu: 8}\n");
    let scan = case.check(&["+p from p.yaml"]);
    assert_eq!(capacity(&scan), 8);
    case.check(&[]);
    // What can never be met is refused, and the job stays as it was.
    case.put("resources.yaml", "resources: {gpu: 2}\n");
    let scan = case.check(&[]);
    let expected = "p.yaml: it can never be met: 3 of `gpu` are needed, and there are 2";
    assert_eq!(problems(&scan), [expected, "p.yaml: the job p stays as it was before this change"]);
    // A bad resources file leaves what was in force.
    case.put("resources.yaml", "resources: {gpu: 3}\n");
    assert_eq!(capacity(&case.check(&["+p from p.yaml"])), 3);
    case.put("resources.yaml", "resources: {gpu: much}\n");
    let scan = case.check(&[]);
    assert_eq!(
        problems(&scan),
        [
            "resources.yaml: `capacity` takes a whole number from 1 to 1000000, not `much`",
            "resources.yaml: what it said before stays in force"
        ]
    );
    case.put("q.yaml", POOL);
    case.check(&["+q from q.yaml"]);
    // Without the file there is no pool.
    fs::remove_file(case.path("resources.yaml")).unwrap();
    assert_eq!(problems(&case.check(&[]))[0], "p.yaml: there is no pool `gpu`");
}

#[test]
fn a_restart_judges_again_only_what_another_resources_file_may_change() {
    let mut case = Case::new(&[("a.yaml", A), ("p.yaml", POOL), ("resources.yaml", "resources: {gpu: 4}\n")]);
    let rows: Vec<(Arc<str>, Arc<str>, JobName)> = case
        .scan()
        .changes
        .iter()
        .map(|change| {
            let Change::Put { job, source, source_mark, .. } = change else { panic!() };
            (source.clone(), source_mark.clone(), job.name.clone())
        })
        .collect();
    let restart = || {
        let mut folder = Folder::new(case.root.path(), ReadOptions::default());
        folder.known(rows.iter().cloned());
        folder.scan(LATER)
    };
    assert_eq!(changes(&restart()), [""; 0]);
    case.put("resources.yaml", "resources: {gpu: 5}\n");
    assert_eq!(capacity(&restart()), 5);
    // Nothing is known of the pools, so nothing is decided anew; a new file that needs them has to wait.
    case.put("resources.yaml", "resources: ]\n");
    case.put("q.yaml", POOL);
    let scan = restart();
    assert_eq!(changes(&scan), [""; 0]);
    assert_eq!(problems(&scan)[0], "q.yaml: the pool `gpu` cannot be looked up: resources.yaml has errors");
}

#[test]
fn ordered_resources_reach_the_jobs_that_touch_them() {
    let resources = "resources: {'table:orders': {ordered: true}, gpu: {capacity: 4, ordered: true}}\n";
    let check = |footprint: &str, expected: bool| {
        let text = format!("run: x\nparams: {{t: x}}\nfootprint: {footprint}\n");
        let mut case = Case::new(&[("resources.yaml", resources), ("a.yaml", &text)]);
        let scan = case.scan();
        let [Change::Put { job, .. }] = &scan.changes[..] else { panic!("{:?}", problems(&scan)) };
        assert_eq!(job.body.footprint.ordered, expected, "{footprint}");
    };
    check("{reads: 'table:orders'}", true);
    check("{reads: 'table:orders/eu'}", true);
    check("{reads: 'table:/'}", true);
    check("{reads: 'table:${t}'}", true);
    check("{reads: 'table:${t}', ordered: false}", true);
    check("{reads: 'table:order'}", false);
    check("{reads: 'table:order', ordered: true}", true);
    check("{reads: 'file:orders'}", false);
    check("{capacity: {gpu: 4 of 4}}", true);
}

#[test]
fn ten_thousand_files() {
    let mut case = Case::new(&[]);
    for at in 0..10_000 {
        let directory = case.path(&format!("d{}", at % 10));
        if at < 10 {
            fs::create_dir(&directory).unwrap();
        }
        fs::write(directory.join(format!("j{at}.yaml")), "schedule: '*/5 * * * *'\nrun: echo\n").unwrap();
    }
    let scan = case.scan();
    assert_eq!((scan.files, scan.changes.len(), scan.diagnostics.len()), (10_000, 10_000, 0));
    let Change::Put { job: first, .. } = &scan.changes[0] else { panic!() };
    for change in &scan.changes {
        let Change::Put { job, .. } = change else { panic!() };
        assert!(Arc::ptr_eq(&job.body, &first.body) && Arc::ptr_eq(&job.schedules, &first.schedules));
    }
    case.check(&[]);
}
