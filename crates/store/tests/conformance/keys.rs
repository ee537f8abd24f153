use cadran_core::{Batch, IdempotencyKey, Millis, RunId, TRIGGER_KEY_MS, TriggerKey};

use crate::backend::Fixture;

fn key(key: u128, run: u64, at: Millis) -> TriggerKey {
    // Hashes use all of their bits.
    TriggerKey { key: IdempotencyKey { key, request: u64::MAX - run }, run: RunId::from_raw(run), at }
}

pub(crate) async fn a_trigger_key_names_its_first_run_for_a_day(fixture: &Fixture) {
    let store = &fixture.store;
    let commit = async |keys: &[TriggerKey]| {
        store.commit(&Batch { trigger_keys: keys.to_vec(), ..Batch::default() }).await.unwrap();
    };
    let (first, second) = (key(u128::MAX, 1, 1_000), key(7, 2, 2_000));
    commit(&[first, second]).await;
    commit(&[first, second]).await;
    assert_eq!(store.trigger_keys(0).await.unwrap(), [first, second], "a batch may be written twice");
    commit(&[key(7, 3, 3_000)]).await;
    assert_eq!(store.trigger_keys(0).await.unwrap(), [first, second], "the first run stays");
    assert_eq!(store.trigger_keys(1_001).await.unwrap(), [second]);
    // A day after the first, new keys drive it out; the second has a second left.
    let third = key(9, 4, 1_001 + TRIGGER_KEY_MS);
    commit(&[third]).await;
    assert_eq!(store.trigger_keys(0).await.unwrap(), [second, third]);
}
