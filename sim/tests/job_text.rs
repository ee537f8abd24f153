//! Drawn job files: the grammar knows every key, and the reader answers every file.

use std::collections::BTreeSet;
use std::sync::Arc;

use cadran_sim::{RESOURCES, Setting, Value, draw_files};
use cadran_spec::{Decoder, JOB_FILE, ReadOptions, Resources, read_job};

fn options() -> ReadOptions {
    let resources = Resources::read(RESOURCES.as_bytes()).expect("a good file");
    ReadOptions { resources: Arc::new(resources), ..ReadOptions::default() }
}

fn keys_of(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Scalar(_) => {}
        Value::List(items) => items.iter().for_each(|item| keys_of(item, found)),
        Value::Map(entries) => {
            for (key, value) in entries {
                found.insert(key.clone());
                keys_of(value, found);
            }
        }
    }
}

/// A key that the reader learns is drawn, or this test names it.
#[test]
fn every_key_of_the_reader_is_drawn_in_files_that_are_accepted() {
    let (mut accepted, mut refused) = (0u32, 0u32);
    let mut found = BTreeSet::new();
    for seed in 0..400 {
        for file in draw_files(seed, 5, Setting::Simulated(1_800_000_000_000)) {
            let text = file.value.file();
            match read_job(text.as_bytes(), &file.name, &options()) {
                Ok(parsed) => {
                    accepted += 1;
                    keys_of(&file.value, &mut found);
                    let stored = Decoder::default().decode(parsed.job.name.clone(), &parsed.definition);
                    let stored = stored.unwrap_or_else(|error| panic!("{error:?}\n{text}"));
                    assert_eq!(stored.body, parsed.job.body, "what is stored is what was read\n{text}");
                    assert_eq!(stored.schedules, parsed.job.schedules, "{text}");
                }
                Err(diagnostics) => {
                    refused += 1;
                    assert!(!diagnostics.is_empty(), "refused without a word:\n{text}");
                    if std::env::var_os("SHOW_REFUSED").is_some() {
                        println!("{}\n{text}", diagnostics[0]);
                    }
                }
            }
        }
    }
    let keys = JOB_FILE.iter().flat_map(|table| table.shape.keys.iter().map(move |key| (table.section, key)));
    let missing: Vec<String> = keys
        .filter(|(_, key)| !found.contains(key.name()))
        .map(|(section, key)| format!("{section}.{}", key.name()))
        .collect();
    assert!(missing.is_empty(), "the grammar draws no {missing:?}: teach it in sim/src/job_text/grammar.rs");
    println!("{accepted} accepted, {refused} refused");
    assert!(accepted > 9 * refused, "too many drawn files are refused: {refused} of {}", accepted + refused);
    assert!(refused > 10, "no drawn file is bad: {refused}");
}
