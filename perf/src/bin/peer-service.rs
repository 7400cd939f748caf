//! The peer's standalone indexer as a process: what its crate offers behind `standalone-indexer`, nothing added.

use clap::Parser;
use dynamo_kv_router::services::indexer::{IndexerConfig, run_server};
use http::HeaderName;

#[derive(Parser)]
struct Arguments {
    /// Port of its HTTP server
    #[arg(long)]
    port: u16,
    /// Threads that apply events
    #[arg(long)]
    threads: usize,
}

fn main() -> Result<(), String> {
    let arguments = Arguments::parse();
    let config = IndexerConfig {
        block_size: None,
        port: arguments.port,
        threads: arguments.threads,
        workers: None,
        model_name: "model".into(),
        routing_group: "default".into(),
        peers: None,
        access_log: None,
        trace_id_header: HeaderName::from_static("x-trace-id"),
        access_log_local_time: false,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(run_server(config)).map_err(|error| error.to_string())
}
