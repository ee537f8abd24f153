//! Against a real repository.

use super::*;
use crate::TargetName;

struct Rig {
    dir: tempfile::TempDir,
    repository: Repository,
}

impl Rig {
    fn new(limits: GitLimits) -> Rig {
        let dir = tempfile::tempdir().expect("a directory");
        let repo = dir.path().join("repo");
        fs::create_dir(&repo).expect("made");
        let name = TargetName::new("demo").expect("a name");
        let target = Target::new(name, repo.display().to_string(), "main");
        let guard = Arc::new(Guard::open(None).expect("a guard"));
        let (stopper, stop) = watch::channel(false);
        // Nobody stops these.
        std::mem::forget(stopper);
        let repository = Repository::new(&target, &dir.path().join("cache"), false, limits, guard, stop);
        let rig = Rig { dir, repository: repository.expect("good") };
        rig.git(&["init", "--quiet", "--initial-branch=main", "."]);
        rig
    }

    fn git(&self, args: &[&str]) -> String {
        let mut git = Command::new("git");
        git.current_dir(self.dir.path().join("repo")).args(args);
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        for who in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{who}_NAME"), "A").env(format!("GIT_{who}_EMAIL"), "a@example.org");
        }
        let output = git.output().expect("git starts");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn commit(&self, file: &str, text: &str) -> CommitHash {
        fs::write(self.dir.path().join("repo").join(file), text).expect("written");
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", file]);
        self.here()
    }

    fn here(&self) -> CommitHash {
        CommitHash::full(&self.git(&["rev-parse", "HEAD"])).expect("a hash")
    }
}

fn hashes(since: &Since) -> Vec<CommitHash> {
    match since {
        Since::Commits { commits, .. } => commits.iter().map(|commit| commit.hash.clone()).collect(),
        Since::UnknownBase => panic!("the base is known"),
    }
}

fn files(commit: &Commit) -> Vec<&str> {
    match &commit.files {
        Files::Read(files) => files.iter().map(String::as_str).collect(),
        Files::Unreadable(why) => panic!("{why}"),
    }
}

#[tokio::test]
async fn rule_05_the_graph_is_walked_by_first_parents_or_whole() {
    let rig = Rig::new(GitLimits::default());
    let (a, repository) = (rig.commit("a.cpp", "1"), &rig.repository);
    rig.git(&["checkout", "--quiet", "-b", "side"]);
    let (x, y) = (rig.commit("x.cpp", "1"), rig.commit("y.cpp", "1"));
    rig.git(&["checkout", "--quiet", "main"]);
    let b = rig.commit("b.cpp", "1");
    rig.git(&["merge", "--quiet", "--no-ff", "--message", "merged", "side"]);
    let merge = rig.here();
    let c = rig.commit("c.cpp", "1");

    let head = repository.head().await.expect("fetched");
    assert_eq!(head, c);
    let since = repository.since(&a, &head, Walk::FirstParent, 100).await.expect("walked");
    assert_eq!(hashes(&since), [b.clone(), merge.clone(), c.clone()]);
    // A merge changes what it brings, against its first parent.
    let Since::Commits { commits, more } = &since else { panic!("known") };
    assert_eq!((files(&commits[1]), *more), (vec!["x.cpp", "y.cpp"], 0));

    let all = hashes(&repository.since(&a, &head, Walk::All, 100).await.expect("walked"));
    assert_eq!(all.len(), 5);
    let at = |hash: &CommitHash| all.iter().position(|other| other == hash).expect("there");
    assert!(at(&x) < at(&y) && at(&y) < at(&merge) && at(&b) < at(&merge) && at(&merge) < at(&c));

    // The oldest ones, and how many more there are.
    let some = repository.since(&a, &head, Walk::FirstParent, 2).await.expect("walked");
    assert_eq!(hashes(&some), [b.clone(), merge.clone()]);
    assert!(matches!(some, Since::Commits { more: 1, .. }));
    let newest = repository.newest(&head, Walk::FirstParent, 2).await.expect("walked");
    assert_eq!(newest.iter().map(|commit| commit.hash.clone()).collect::<Vec<_>>(), [c.clone(), merge]);
    assert_eq!(hashes(&repository.since(&head, &head, Walk::All, 9).await.expect("walked")), []);
    assert!(repository.is_ancestor(&a, &c).await.expect("asked"));
    assert!(!repository.is_ancestor(&c, &a).await.expect("asked"));
    assert_eq!(repository.subject(&b).await.expect("asked"), "b.cpp");
}

#[tokio::test]
async fn h06_adds_edits_renames_and_deletes_are_changes() {
    let rig = Rig::new(GitLimits::default());
    let root = rig.commit("a b.cpp", "1");
    rig.commit("c.cpp", "1");
    rig.git(&["mv", "a b.cpp", "new\nline.cc"]);
    rig.commit("c.cpp", "2");
    rig.git(&["rm", "--quiet", "c.cpp"]);
    rig.git(&["commit", "--quiet", "--message", "gone"]);
    let head = rig.repository.head().await.expect("fetched");
    let commits = rig.repository.newest(&head, Walk::FirstParent, 9).await.expect("walked");
    let changed: Vec<Vec<&str>> = commits.iter().map(files).collect();
    assert_eq!(
        changed,
        [vec!["c.cpp"], vec!["a b.cpp", "c.cpp", "new\nline.cc"], vec!["c.cpp"], vec!["a b.cpp"]]
    );
    assert_eq!(commits[3].hash, root);
    assert!(commits[3].committed_at > 1_600_000_000_000);
}

#[tokio::test]
async fn h09_a_rewritten_branch_has_an_unknown_base() {
    let rig = Rig::new(GitLimits::default());
    rig.commit("a.cpp", "1");
    let old = rig.commit("a.cpp", "2");
    rig.repository.head().await.expect("fetched");
    rig.git(&["commit", "--quiet", "--amend", "--message", "other"]);
    let head = rig.repository.head().await.expect("fetched again");
    assert_ne!(head, old);
    // Still in our clone, but not in the repository's branch.
    let since = rig.repository.since(&old, &head, Walk::FirstParent, 9).await.expect("walked");
    assert_eq!(since, Since::UnknownBase);
    let never = CommitHash::full(&"1".repeat(40)).expect("a hash");
    assert_eq!(rig.repository.since(&never, &head, Walk::All, 9).await.expect("walked"), Since::UnknownBase);
}

#[tokio::test]
async fn a_work_tree_is_exactly_the_commit_and_apart_from_the_clone() {
    let rig = Rig::new(GitLimits::default());
    let first = rig.commit("a.cpp", "1");
    rig.commit("a.cpp", "2");
    rig.repository.provide(&first).await.expect("fetched");
    let tree = rig.dir.path().join("tree");
    rig.repository.checkout(&first, &tree).await.expect("checked out");
    assert_eq!(fs::read_to_string(tree.join("a.cpp")).expect("there"), "1");
    fs::remove_dir_all(&tree).expect("removed");
    rig.repository.checkout(&first, &tree).await.expect("again");

    let archive = rig.dir.path().join("a.tar.gz");
    assert!(rig.repository.export(&first, "a.cpp", &archive).await.expect("exported"));
    assert!(!rig.repository.export(&first, "nothing", &archive).await.expect("asked"));
    let never = CommitHash::full(&"1".repeat(40)).expect("a hash");
    assert!(rig.repository.provide(&never).await.is_err());
}

#[tokio::test]
async fn files_that_are_too_large_are_not_checked_out() {
    // Compresses to nothing: the clone is small, the work tree is not.
    let rig = Rig::new(GitLimits { bytes: 1 << 20, ..GitLimits::default() });
    let commit = rig.commit("a.cpp", &"x".repeat(2 << 20));
    rig.repository.provide(&commit).await.expect("fetched");
    let error = rig.repository.checkout(&commit, &rig.dir.path().join("tree")).await.expect_err("refused");
    assert!(error.0.contains("larger than the limit"), "{error}");
}

#[test]
fn addresses_that_run_programs_are_refused() {
    let check = |url: &str, expected: Option<&str>| assert_eq!(scheme(url).ok(), expected, "{url}");
    check("https://example.org/a.git", Some("https"));
    check("HTTPS://example.org/a.git", Some("https"));
    check("http://example.org/a.git", Some("http"));
    check("ssh://git@example.org/a.git", Some("ssh"));
    check("git@example.org:a/b.git", Some("ssh"));
    check("/srv/a.git", Some("file"));
    check("./a:b", Some("file"));
    check("file:///srv/a.git", Some("file"));
    check("ext::sh -c touch% /tmp/x", None);
    check("fd::17", None);
    check("--upload-pack=touch /tmp/x", None);
    check("transport::address", None);
    check("ftp://example.org/a.git", None);
    check("", None);
    check("a\nb", None);
}
