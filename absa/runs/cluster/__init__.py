"""A run on many processes: Dask hands out chunks, this process keeps all that must be one.

| module | |
|---|---|
| `engine` | the driver's side: chunks of samples as Dask tasks |
| `desk` | the driver's side: places, answers, budget, records |
| `station` | a worker's side: one event loop and one graph per process |
| `line` | what they say to each other |
| `job` | what a worker has to know |
"""
