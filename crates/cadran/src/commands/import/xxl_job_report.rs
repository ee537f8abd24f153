//! What became of the jobs of XXL-JOB's tables, for people and for programs.

use std::path::Path;

use serde_json::{Value, json};

use super::output::{Written, write_files};
use super::xxl_job::Converted;

/// What became of an import.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Files that were written, or would be.
    written: Vec<String>,
    /// Files that were there already, just like this.
    unchanged: Vec<String>,
    /// Jobs that have no file: their name, and why.
    left_out: Vec<(String, String)>,
    /// What was not carried over of the others, or is worth a look.
    remarks: Vec<String>,
}

impl Report {
    /// Writes the files that are not there yet. Files that differ are left alone, and their jobs count as left out.
    pub(super) fn write(found: Converted, to: &Path, dry_run: bool) -> anyhow::Result<Report> {
        let Converted { files, left_out, remarks } = found;
        let states = write_files(to, &files, dry_run)?;
        let mut report = Report { left_out, remarks, ..Report::default() };
        for ((file, _), state) in files.into_iter().zip(states) {
            match state {
                Written::New => report.written.push(file),
                Written::Unchanged => report.unchanged.push(file),
                Written::Kept => {
                    let job = file.trim_end_matches(".yaml").to_owned();
                    let why = format!("{file} is there already and differs; it was left alone");
                    report.left_out.push((job, why));
                }
            }
        }
        Ok(report)
    }

    /// Whether every job has its file.
    pub(super) fn is_whole(&self) -> bool {
        self.left_out.is_empty()
    }

    pub(super) fn to_json(&self) -> Value {
        let left = |(job, why): &(String, String)| json!({ "job": job, "why": why });
        json!({
            "written": self.written,
            "unchanged": self.unchanged,
            "left_out": self.left_out.iter().map(left).collect::<Vec<_>>(),
            "remarks": self.remarks,
        })
    }

    pub(super) fn show(&self, to: &Path, dry_run: bool) {
        let verb = if dry_run { "would be written" } else { "written" };
        println!("{} files {verb} to {}", self.written.len(), to.display());
        if !self.unchanged.is_empty() {
            println!("{} are there already, unchanged", self.unchanged.len());
        }
        if !self.left_out.is_empty() {
            println!("\nLeft out:");
            self.left_out.iter().for_each(|(job, why)| println!("  {job}: {why}"));
        }
        if !self.remarks.is_empty() {
            println!("\nNot carried over, or worth a look:");
            self.remarks.iter().for_each(|remark| println!("  {remark}"));
        }
        if !dry_run {
            println!("\nNext: `cadran check {}`, and a token for executors.", to.display());
        }
    }
}
