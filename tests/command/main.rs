//! The program, its commands and its settings: one file a property, one program, so that it is linked once.

#[path = "../support/bench.rs"]
mod bench;
#[path = "../support/fleet.rs"]
mod fleet;

mod bench_gate_fails_when_generator_is_late;
mod bench_gates;
mod bench_histogram_file;
mod bench_ingest_counts_every_block;
mod bench_leaves_nothing_behind;
mod bench_names_the_flag;
mod bench_query_detects_wrong_answer;
mod bench_schedule;
mod bench_silent_daemon;
mod bench_stopped;
mod bench_trace_agrees_with_truth;
mod bench_trace_reader;
mod bench_worker_cache;
mod command_demo;
mod command_output;
mod command_publish;
mod command_query;
mod config_file;
mod config_listen;
mod descriptors;
mod orderly_stop;
mod publish_faults;
mod settings_order;
