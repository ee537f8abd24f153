//! The example jobs that ship with the project are good, and stay good.

use std::path::PathBuf;
use std::sync::Arc;

use cadran_spec::{Decoder, RESOURCES_FILE, ReadOptions, Resources, read_job};

#[test]
fn every_example_reads_without_a_warning() {
    let directory = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/jobs"));
    let mut names = Vec::new();
    let resources = Resources::read(&std::fs::read(directory.join(RESOURCES_FILE)).unwrap()).unwrap();
    let options = ReadOptions { resources: Arc::new(resources), ..ReadOptions::default() };
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with(RESOURCES_FILE) {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let parsed = read_job(&bytes, stem, &options).unwrap_or_else(|errors| {
            let text = String::from_utf8_lossy(&bytes);
            panic!("{}", errors.iter().map(|e| e.render(stem, &text, false)).collect::<String>())
        });
        assert!(parsed.warnings.is_empty(), "{stem}: {:?}", parsed.warnings);
        assert!(!parsed.job.body.description.is_empty(), "{stem} says what it shows");
        assert!(bytes.starts_with(b"#"), "{stem} begins with a comment that teaches");
        let stored = Decoder::default().decode(parsed.job.name.clone(), &parsed.definition).unwrap();
        assert_eq!((stored.body, stored.schedules), (parsed.job.body, parsed.job.schedules), "{stem}");
        names.push(parsed.job.name);
    }
    names.sort();
    names.dedup();
    assert!(names.len() >= 12, "{names:?}");
}
