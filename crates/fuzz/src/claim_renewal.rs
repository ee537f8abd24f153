//! A claim kept alive while its work goes on.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::{Claim, FuzzError, Pipeline};

/// Renews a claim in the background, at a third of its lease. Dropping it stops the renewals.
#[derive(Debug)]
pub struct ClaimRenewal {
    lost: watch::Receiver<Option<String>>,
    task: JoinHandle<()>,
}

impl ClaimRenewal {
    /// Waits until the claim is lost, and says why: the work must be stopped then, because somebody else may start it.
    /// It is called lost before the lease can have ended, so also when the store cannot be reached for too long.
    pub async fn lost(&mut self) -> String {
        match self.lost.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => "its renewal has stopped".into(),
        }
    }

    /// Whether it is.
    pub fn is_lost(&self) -> bool {
        self.lost.borrow().is_some() || self.task.is_finished()
    }
}

impl Drop for ClaimRenewal {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How much of a lease may pass without a renewal before the work must stop: the rest is for stopping it.
const STOP_AT: f64 = 0.8;

impl Pipeline {
    /// Keeps a claim alive until the answer is dropped.
    pub fn keep(&self, claim: &Claim) -> ClaimRenewal {
        let (tell, lost) = watch::channel(None);
        let (pipeline, mut claim) = (self.clone(), claim.clone());
        let lease = self.target().lease;
        let task = tokio::spawn(async move {
            let why = loop {
                let stop_at = Instant::now() + lease.mul_f64(STOP_AT);
                sleep(lease / 3).await;
                let renewed = tokio::select! {
                    renewed = renew(&pipeline, &mut claim, lease) => renewed,
                    () = sleep_until(stop_at) => Err("the store did not answer in time".into()),
                };
                if let Err(why) = renewed {
                    break why;
                }
            };
            let _ = tell.send(Some(why));
        });
        ClaimRenewal { lost, task }
    }
}

/// Tries until it is renewed or certainly lost.
async fn renew(pipeline: &Pipeline, claim: &mut Claim, lease: Duration) -> Result<(), String> {
    loop {
        match pipeline.renew(claim).await {
            Ok(()) => return Ok(()),
            Err(error @ FuzzError::Stale(_)) => return Err(error.to_string()),
            Err(_) => sleep(lease / 20).await,
        }
    }
}
