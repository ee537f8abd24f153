use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut};
use object_store::path::Path;
use object_store::{
    Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload, RetryConfig, UpdateVersion, WriteMultipart,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{
    BucketOptions, Condition, LISTED_MAX, Listed, Meter, OBJECT_MAX, Object, Put, Transfer, Version,
};
use crate::error::{Failure, FuzzError};

/// An S3 bucket. Versions are its ETags.
#[derive(Clone, Debug)]
pub(super) struct S3 {
    store: AmazonS3,
    /// Ends with a slash, or is empty.
    prefix: String,
    /// The server compares ETags without their quotes (Ceph RGW before 17). Found out by itself.
    unquoted: Arc<AtomicBool>,
}

/// A server that does not answer for this long is not there.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);

/// Parts of an upload that are under way at once.
const PARTS_AT_ONCE: usize = 4;

const CHUNK: usize = 256 << 10;

impl S3 {
    /// `place` is `bucket/prefix?endpoint=…&region=…`.
    pub(super) fn open(place: &str, options: &BucketOptions) -> Result<S3, FuzzError> {
        // The client of an https endpoint needs a provider; the one that is there already stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (path, query) = place.split_once('?').unwrap_or((place, ""));
        let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
        if bucket.is_empty() {
            return Err(FuzzError::Url("there is no bucket in it".into()));
        }
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_retry(RetryConfig {
                max_retries: options.retries as usize,
                retry_timeout: RETRY_TIMEOUT,
                ..RetryConfig::default()
            });
        let mut endpoint = options.endpoint.clone();
        let mut region = options.region.clone();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("endpoint", value)) => endpoint = Some(value.to_string()),
                Some(("region", value)) => region = Some(value.to_string()),
                _ => return Err(FuzzError::Url(format!("{pair}: only endpoint= and region= are known"))),
            }
        }
        if let Some(endpoint) = endpoint {
            builder = builder.with_allow_http(endpoint.starts_with("http://")).with_endpoint(endpoint);
        }
        if let Some(region) = region {
            builder = builder.with_region(region);
        }
        if let Some((key, secret)) = &options.credentials {
            builder = builder.with_access_key_id(key).with_secret_access_key(secret);
        }
        let store = builder.build().map_err(|error| FuzzError::Url(error.to_string()))?;
        let prefix = prefix.trim_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(S3 { store, prefix, unquoted: Arc::new(AtomicBool::new(false)) })
    }

    pub(super) async fn get(&self, key: &str) -> Result<Option<Object>, FuzzError> {
        let got = match self.store.get(&self.path(key)).await {
            Ok(got) => got,
            Err(error) => return self.absent_or(error, "get", key).map(|()| None),
        };
        if got.meta.size > OBJECT_MAX {
            return Err(FuzzError::Refused(Failure::new("get", key, "larger than any state object")));
        }
        let version = version_of(got.meta.e_tag.clone(), "get", key)?;
        let bytes = got.bytes().await.map_err(|error| failed(error, "get", key))?;
        Ok(Some(Object { bytes: bytes.to_vec(), version }))
    }

    pub(super) async fn put(&self, key: &str, bytes: &[u8], condition: &Condition) -> Result<Put, FuzzError> {
        let put = |mode: PutMode| async {
            let payload = PutPayload::from(bytes.to_vec());
            match self.store.put_opts(&self.path(key), payload, mode.into()).await {
                Ok(put) => version_of(put.e_tag, "put", key).map(Put::Written),
                Err(error @ (Error::Precondition { .. } | Error::AlreadyExists { .. })) => {
                    // If-Match on a missing bucket and on a missing object look alike to the client.
                    if is_bucket_gone(&error) { Err(failed(error, "put", key)) } else { Ok(Put::Conflict) }
                }
                Err(error) => Err(failed(error, "put", key)),
            }
        };
        let update = |e_tag: String| PutMode::Update(UpdateVersion { e_tag: Some(e_tag), version: None });
        let Version(e_tag) = match condition {
            Condition::Always => return put(PutMode::Overwrite).await,
            Condition::Absent => return put(PutMode::Create).await,
            Condition::Matches(version) => version.clone(),
        };
        let bare = e_tag.trim_matches('"').to_string();
        if self.unquoted.load(Ordering::Relaxed) {
            return put(update(bare)).await;
        }
        let answer = put(update(e_tag.clone())).await?;
        // Some servers compare the header with its quotes against an ETag without. When the object is the one we
        // named, the refusal can have no other reason.
        if answer == Put::Conflict && self.current(key).await?.as_deref() == Some(e_tag.as_str()) {
            let answer = put(update(bare)).await?;
            if matches!(answer, Put::Written(_)) {
                self.unquoted.store(true, Ordering::Relaxed);
            }
            return Ok(answer);
        }
        Ok(answer)
    }

    pub(super) async fn delete(&self, key: &str) -> Result<(), FuzzError> {
        match self.store.delete(&self.path(key)).await {
            Ok(()) => Ok(()),
            Err(error) => self.absent_or(error, "delete", key),
        }
    }

    pub(super) async fn size(&self, key: &str) -> Result<Option<u64>, FuzzError> {
        match self.store.head(&self.path(key)).await {
            Ok(meta) => Ok(Some(meta.size)),
            Err(error) => {
                self.absent_or(error, "size", key)?;
                // A HEAD has no body to say that the bucket is missing, not the object.
                self.check_bucket("size", key).await.map(|()| None)
            }
        }
    }

    pub(super) async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<Listed>, FuzzError> {
        let below = self.path(prefix.rsplit_once('/').map_or("", |(folder, _)| folder));
        let mut found = match after {
            Some(after) => self.store.list_with_offset(Some(&below), &self.path(after)),
            None => self.store.list(Some(&below)),
        };
        let mut listed = Vec::new();
        while let Some(one) = found.next().await {
            let one = one.map_err(|error| failed(error, "list", prefix))?;
            let Some(key) = one.location.as_ref().strip_prefix(&self.prefix) else { continue };
            if !key.starts_with(prefix) {
                continue;
            }
            let modified_at = one.last_modified.timestamp_millis();
            listed.push(Listed { key: key.to_string(), size: one.size, modified_at });
            if listed.len() > LISTED_MAX {
                let detail = format!("more than {LISTED_MAX} objects");
                return Err(FuzzError::Refused(Failure::new("list", prefix, detail)));
            }
        }
        Ok(listed)
    }

    pub(super) async fn send(&self, file: &FilePath, key: &str) -> Result<Transfer, FuzzError> {
        let local = |error| FuzzError::Input(format!("cannot read {}: {error}", file.display()));
        let mut source = tokio::fs::File::open(file).await.map_err(local)?;
        let upload =
            self.store.put_multipart(&self.path(key)).await.map_err(|error| failed(error, "upload", key))?;
        let mut writer = WriteMultipart::new(upload);
        let mut meter = Meter::default();
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = source.read(&mut chunk).await.map_err(local)?;
            let Some(bytes) = chunk.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
            meter.take(bytes);
            writer.wait_for_capacity(PARTS_AT_ONCE).await.map_err(|error| failed(error, "upload", key))?;
            writer.write(bytes);
        }
        writer.finish().await.map_err(|error| failed(error, "upload", key))?;
        Ok(meter.transfer())
    }

    pub(super) async fn receive(
        &self,
        key: &str,
        file: Option<&FilePath>,
    ) -> Result<Option<Transfer>, FuzzError> {
        let got = match self.store.get(&self.path(key)).await {
            Ok(got) => got,
            Err(error) => return self.absent_or(error, "download", key).map(|()| None),
        };
        let local = |error| FuzzError::Input(format!("cannot write a file for {key}: {error}"));
        let mut target = match file {
            Some(file) => Some(tokio::fs::File::create(file).await.map_err(local)?),
            None => None,
        };
        let mut stream = got.into_stream();
        let mut meter = Meter::default();
        while let Some(bytes) = stream.next().await {
            let bytes = bytes.map_err(|error| failed(error, "download", key))?;
            meter.take(&bytes);
            if let Some(target) = &mut target {
                target.write_all(&bytes).await.map_err(local)?;
            }
        }
        if let Some(mut target) = target {
            target.flush().await.map_err(local)?;
        }
        Ok(Some(meter.transfer()))
    }

    pub(super) async fn copy(&self, from: &str, to: &str) -> Result<(), FuzzError> {
        let copied = self.store.copy(&self.path(from), &self.path(to)).await;
        copied.map_err(|error| failed(error, "upload", to))
    }

    fn path(&self, key: &str) -> Path {
        Path::from(format!("{}{key}", self.prefix))
    }

    async fn current(&self, key: &str) -> Result<Option<String>, FuzzError> {
        Ok(self.get(key).await?.map(|object| object.version.0))
    }

    /// An object that is not there is an answer; a bucket that is not there is a failure.
    fn absent_or(&self, error: Error, operation: &'static str, key: &str) -> Result<(), FuzzError> {
        match error {
            Error::NotFound { .. } if !is_bucket_gone(&error) => Ok(()),
            other => Err(failed(other, operation, key)),
        }
    }

    async fn check_bucket(&self, operation: &'static str, key: &str) -> Result<(), FuzzError> {
        let below = self.path("");
        match self.store.list(Some(&below)).next().await {
            Some(Err(error)) => Err(failed(error, operation, key)),
            _ => Ok(()),
        }
    }
}

fn is_bucket_gone(error: &Error) -> bool {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    text.contains("NoSuchBucket")
}

fn version_of(e_tag: Option<String>, operation: &'static str, key: &str) -> Result<Version, FuzzError> {
    let missing = || FuzzError::Refused(Failure::new(operation, key, "the server gave no ETag"));
    e_tag.map(Version).ok_or_else(missing)
}

fn failed(error: Error, operation: &'static str, key: &str) -> FuzzError {
    let failure = Failure::new(operation, key, &error);
    match error {
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => FuzzError::Refused(failure),
        _ => FuzzError::Unavailable(failure),
    }
}
