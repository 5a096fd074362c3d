"""A run on many processes: Dask distributes chunks, this process holds all shared state.

| module | |
|---|---|
| `engine` | the driver's side: chunks of samples as Dask tasks |
| `coordinator` | the driver's side: in-flight limit, answer cache, budgets, journal |
| `worker_session` | a worker's side: one event loop and one graph per process |
| `channel` | the messages between the two |
| `job` | what a worker needs to start |
"""
