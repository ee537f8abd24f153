//! What next inside a run: steps, retries, handlers.
