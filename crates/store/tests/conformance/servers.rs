use crate::backend::Fixture;

pub(crate) async fn every_server_has_a_number_of_its_own_for_good(fixture: &Fixture) {
    let store = &fixture.store;
    assert_eq!(store.enlist("one", 1).await.unwrap(), 0);
    assert_eq!(store.enlist("two", 2).await.unwrap(), 1);
    assert_eq!(store.enlist("one", 3).await.unwrap(), 0);
    let names: Vec<String> = (0..20).map(|no| format!("server {no}")).collect();
    let mut numbers = Vec::new();
    let all = names.iter().map(|name| store.enlist(name, 4));
    for number in futures::future::join_all(all).await {
        numbers.push(number.unwrap());
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (2..22).collect::<Vec<u16>>(), "also when they start at once");
}
