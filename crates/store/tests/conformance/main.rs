//! What every backend answers, whichever it is. A case is written once and run on memory, SQLite and PostgreSQL.
#![allow(missing_docs)]

mod backend;
mod history;
mod jobs;
mod keys;
mod prune;
mod rows;
mod runs;
mod servers;

use backend::{Fixture, Kind};

/// Runs each case on each backend, as tests of their own.
macro_rules! suite {
    ($($module:ident: $($case:ident),+ $(,)?;)+) => {
        suite! { @backend memory Memory $($module: $($case),+;)+ }
        suite! { @backend sqlite Sqlite $($module: $($case),+;)+ }
        suite! { @backend postgres Postgres $($module: $($case),+;)+ }
    };
    (@backend $backend:ident $kind:ident $($module:ident: $($case:ident),+;)+) => {
        mod $backend {
            $(mod $module {
                $(
                    #[test]
                    fn $case() {
                        $crate::check($crate::Kind::$kind, async |fixture| $crate::$module::$case(fixture).await);
                    }
                )+
            })+
        }
    };
}

suite! {
    jobs:
        a_new_store_is_empty,
        jobs_come_back_as_they_were_put,
        the_last_state_of_a_job_counts,
        a_removed_job_stays_and_may_return,
        earlier_definitions_stay_readable,
        a_name_belongs_to_one_job,
        jobs_are_found_by_name_and_text,
        equal_definitions_are_shared_after_a_load,
        text_of_every_kind_survives,
        a_nul_is_refused_or_shown,
        a_reopened_store_has_everything;
    runs:
        a_run_comes_back_as_it_was_written,
        a_batch_written_twice_is_a_batch_written_once,
        a_due_belongs_to_one_run,
        manual_runs_share_a_due,
        the_last_update_of_a_run_counts,
        promise_and_end_in_one_batch,
        a_grown_batch_is_written_again,
        an_ended_run_opens_again,
        open_runs_are_loaded,
        open_runs_are_found_after_every_restart,
        the_last_success_is_found,
        large_batches_are_written_again,
        a_batch_of_100_000_is_one_batch,
        readers_see_whole_batches;
    history:
        runs_are_paged_newest_first,
        runs_are_filtered,
        children_are_found_by_their_run,
        shares_survive_a_restart,
        skips_are_paged_and_replaced,
        counts_follow_the_runs,
        a_closed_store_says_so;
    keys:
        a_trigger_key_names_its_first_run_for_a_day;
    prune:
        days_are_counted_from_the_end,
        counts_keep_the_newest,
        open_runs_are_never_forgotten,
        slices_are_bounded_and_go_on,
        old_definitions_go_with_their_runs,
        one_pass_forgets_all_of_a_long_history,
        the_limits_of_a_pass_are_for_all_jobs;
    servers:
        every_server_has_a_number_of_its_own_for_good,
        a_record_is_one_servers_at_a_time,
        a_claim_that_was_lost_is_told;
}

/// One case on one backend, in a store of its own.
fn check<F>(kind: Kind, case: F)
where
    F: AsyncFnOnce(&Fixture),
{
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let Some(fixture) = Fixture::new(kind).await else { return };
        case(&fixture).await;
        fixture.end().await;
    });
}
