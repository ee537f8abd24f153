//! Job files to jobs, with diagnostics that point at line and column.
