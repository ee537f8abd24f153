//! The durable record: SQLite, PostgreSQL and memory behind one trait.
