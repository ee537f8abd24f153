/// How much of the disk a store takes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The database's files, with those beside it.
    pub disk: u64,
    /// What is in use of the database: files less pages that the next rows fill.
    pub used: u64,
    /// Free pages of the database.
    pub free: u64,
}
