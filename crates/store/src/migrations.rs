//! The migrations of each database, in order.
//!
//! They are listed here rather than found by `sqlx::migrate!`: that macro needs sqlx a second time for the compiler, with
//! all databases and the C code of SQLite, which doubled what a build from clean spends on them.

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// A file of `migrations/`: its name, and what is in it.
type File = (&'static str, &'static str);

macro_rules! files {
    ($database:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../migrations/", $database, "/", $name)))),*]
    };
}

const SQLITE: &[File] = files!("sqlite":
    "0001_record.sql",
    "0002_servers.sql",
    "0003_children.sql",
    "0004_trigger_keys.sql",
    "0005_program.sql",
);

const POSTGRES: &[File] = files!("postgres":
    "0001_record.sql",
    "0002_servers.sql",
    "0003_children.sql",
    "0004_trigger_keys.sql",
    "0005_program.sql",
);

pub(crate) fn sqlite() -> Migrator {
    migrator(SQLITE)
}

pub(crate) fn postgres() -> Migrator {
    migrator(POSTGRES)
}

fn migrator(files: &[File]) -> Migrator {
    let migration = |(number, (name, sql)): (usize, &File)| {
        let description = name.trim_end_matches(".sql").split_once('_').map_or(*name, |(_, rest)| rest);
        let description = description.replace('_', " ").into();
        Migration::new(number as i64 + 1, description, MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(files.iter().enumerate().map(migration).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_listed_in_order() {
        for (database, listed) in [("sqlite", SQLITE), ("postgres", POSTGRES)] {
            let directory =
                std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations").join(database);
            let entries = std::fs::read_dir(directory).expect("the migrations");
            let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
            let mut names: Vec<String> =
                entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
            names.sort();
            let listed: Vec<&str> = listed.iter().map(|(name, _)| *name).collect();
            assert_eq!(listed, names, "{database}");
            for (at, name) in listed.iter().enumerate() {
                assert!(name.starts_with(&format!("{:04}_", at + 1)), "{name} is number {}", at + 1);
            }
        }
    }
}
