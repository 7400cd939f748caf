//! The fleet coordinator: one file a property, one program, so that it is linked once.

#[path = "../support/books.rs"]
mod books;
#[path = "../support/coordinator.rs"]
mod coordinator;
#[path = "../support/evictions.rs"]
mod evictions;
#[path = "../support/fleet_process.rs"]
mod fleet_process;
#[path = "../support/mp_server.rs"]
mod mp_server;
#[path = "../support/vault.rs"]
mod vault;
#[path = "../support/wire.rs"]
mod wire;

mod blend;
mod books_back_off;
mod books_chunks;
mod books_closed_loop;
mod books_eviction;
mod books_model;
mod books_pins;
mod books_quota;
mod books_resync;
mod books_salts;
mod books_steps;
mod books_usage;
mod contract_blend;
mod contract_commands;
mod contract_delete;
mod contract_events;
mod contract_hostile;
mod contract_large;
mod contract_members;
mod contract_openapi;
mod contract_pins;
mod contract_prefetch;
mod contract_quota;
mod contract_reference;
mod contract_transport;
mod courier_double;
mod courier_exchange;
mod form_bounds;
mod form_decisions;
mod form_events;
mod form_reference;
mod form_steps;
mod form_text;
mod form_tokens;
mod loop_arming;
mod loop_batches;
mod loop_failures;
mod loop_halving;
mod loop_memory;
mod loop_metrics;
mod loop_pins;
mod loop_settles;
mod loop_stop;
mod loop_timeout;
mod loop_unanswered;
mod membership;
mod registry;
mod relay;
mod relay_delete;
mod resync;
mod resync_live;
mod resync_pages;
mod settings;
mod state;
mod tokens;
mod vault_changes;
mod vault_crash;
mod vault_damage;
