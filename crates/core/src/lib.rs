//! Cadran's vocabulary: job, schedule, run, policy, order, report.
