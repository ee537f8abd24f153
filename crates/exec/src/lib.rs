//! Processes, logs and kill: the executor inside the server.
