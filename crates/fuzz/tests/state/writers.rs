//! Many writers of one file: nothing that was written is lost.

use cadran_fuzz::{BuildQueue, CommitHash, FileName, StateFile};

use crate::support::{Kind, World, hash};

const WRITERS: u32 = 8;
const APPENDS: u32 = 15;

/// Rounds in one run of the tests; `CADRAN_WRITERS_ROUNDS=20` looks longer.
fn rounds() -> u32 {
    std::env::var("CADRAN_WRITERS_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

async fn appends(kind: Kind) {
    for round in 0..rounds() {
        let Some(world) = World::on(kind).await else { return };
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let pipeline = world.pipeline(&format!("writer {writer}")).await;
            writers.push(tokio::spawn(async move {
                for append in 0..APPENDS {
                    pipeline.enqueue(&hash(writer * APPENDS + append), false).await.unwrap();
                }
            }));
        }
        for writer in writers {
            writer.await.unwrap();
        }
        let text = world.text(FileName::BuildQueue).await;
        let queue = BuildQueue::read(text.as_bytes()).unwrap().queue;
        let kept = (0..WRITERS * APPENDS).filter(|number| queue.contains(&hash(*number).to_string())).count();
        println!("{kind:?} round {round}: {kept} of {}", WRITERS * APPENDS);
        assert_eq!(kept as u32, WRITERS * APPENDS);
        assert_eq!(queue.len() as u32, WRITERS * APPENDS, "and none twice");
        assert!(queue.iter().all(|hash| CommitHash::full(hash).is_some()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rule_26_h31_eight_writers_keep_every_append_in_a_directory() {
    appends(Kind::Directory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rule_26_h31_eight_writers_keep_every_append_on_s3() {
    appends(Kind::S3).await;
}
