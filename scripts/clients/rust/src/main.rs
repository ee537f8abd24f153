//! An executor with the crate `xxljob-sdk-rs`, for the tests: the handlers `echo` and `hold`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use xxljob_sdk_rs::{AsyncJobHandler, JobContext, JobHandler, XxlClientBuilder};

struct Echo;

#[async_trait]
impl AsyncJobHandler for Echo {
    async fn process(&self, context: JobContext) -> anyhow::Result<JobContext> {
        Ok(context)
    }
}

struct Hold;

#[async_trait]
impl AsyncJobHandler for Hold {
    async fn process(&self, context: JobContext) -> anyhow::Result<JobContext> {
        tokio::time::sleep(Duration::from_secs(600)).await;
        Ok(context)
    }
}

fn main() -> anyhow::Result<()> {
    let door = std::env::var("CLIENT_DOOR")?;
    let client = XxlClientBuilder::new(format!("http://{door}/xxl-job-admin"))
        .set_access_token(std::env::var("CLIENT_TOKEN")?)
        .set_app_name(std::env::var("CLIENT_GROUP")?)
        .set_ip("127.0.0.1".to_owned())
        .set_port(std::env::var("CLIENT_PORT")?.parse()?)
        .set_log_path("logs".to_owned())
        .build()?;
    client.register(Arc::new("echo".to_owned()), JobHandler::Async(Arc::new(Echo)))?;
    client.register(Arc::new("hold".to_owned()), JobHandler::Async(Arc::new(Hold)))?;
    loop {
        std::thread::park();
    }
}
