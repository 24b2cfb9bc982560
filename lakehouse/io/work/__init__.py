"""Work beside other work: bounded fan-out, batches of keys and ranges, threads, background tasks,
progress."""
