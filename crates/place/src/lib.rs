//! May it now, and where: overlap, waiters, roster.
