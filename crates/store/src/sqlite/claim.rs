use super::Sqlite;
use crate::StoreError;
use crate::claim::{Claim, Hold, TRIES_MAX, TRY_PAUSE};
use crate::error::Failure;

impl Sqlite {
    pub(crate) async fn claim(&self, _name: &str) -> Result<Claim, StoreError> {
        let path = format!("{}-server", self.path);
        let failure = |detail: String| Failure { operation: "claim", key: self.path.clone(), detail };
        let file = cadran_files::options().create(true).append(true).open(&path);
        let file = file.map_err(|error| StoreError::Refused(failure(format!("{path}: {error}"))))?;
        let mut tries = 0;
        while let Err(error) = file.try_lock() {
            tries += 1;
            if tries > TRIES_MAX {
                let held = matches!(error, std::fs::TryLockError::WouldBlock);
                let why = if held { "another server works on it".to_owned() } else { error.to_string() };
                return Err(StoreError::Taken(failure(why)));
            }
            tokio::time::sleep(TRY_PAUSE).await;
        }
        Ok(Claim::new(Hold::File(file)))
    }
}
