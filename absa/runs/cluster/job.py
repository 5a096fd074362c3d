"""What a worker has to know to work on a batch."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from absa.prices import prices
from absa.runs.identity import (
    READ_BY_WORKERS,
    differences,
    folder_hashes,
    named_file_hashes,
    versions,
)
from absa.runs.pool import Batch
from absa.schemas.errors import InputError
from absa.schemas.sample import Sample
from absa.schemas.settings import Settings

# Differences that are named; the rest is counted.
_SHOWN = 3


class VersionMismatch(RuntimeError):
    """A worker would not give the answers that the driver would."""


@dataclass(frozen=True)
class Job:
    """A batch as its workers see it. No key is in it: each takes them from its own environment."""

    host: str
    port: int
    # Whoever knows it may sit down at the desk.
    token: str
    settings: str
    seed: int
    run_id: str
    shared: bool
    fingerprint: dict[str, Any]


@dataclass(frozen=True)
class Item:
    """A sample with its position and its demos."""

    position: int
    sample: Sample
    demos: list[dict[str, Any]]


def job_of(batch: Batch, host: str, port: int, token: str) -> Job:
    """The job of a batch."""
    # The desk keeps the rate of requests: a worker's own limit would come on top of it.
    backend = batch.backend.model_copy(update={"requests_per_second": None})
    settings = batch.plan.settings.model_copy(update={"backend": backend})
    return Job(
        host=host,
        port=port,
        token=token,
        settings=settings.model_dump_json(),
        seed=batch.seed,
        run_id=batch.keys.run_id,
        shared=batch.keys.shared,
        fingerprint=fingerprint(settings),
    )


def settings_of(job: Job) -> Settings:
    """The settings of a job."""
    return Settings.model_validate_json(job.settings)


def fingerprint(settings: Settings) -> dict[str, Any]:
    """What has to be the same everywhere."""
    return {
        "python": ".".join(map(str, sys.version_info[:2])),
        "packages": versions(),
        "prompts": folder_hashes("prompts"),
        "resources": folder_hashes("resources"),
        "prices": prices(),
        "files": named_file_hashes(settings, READ_BY_WORKERS),
    }


def check_fingerprint(job: Job, worker: str) -> None:
    """Refuse to work where something is not the same; all of it is named."""
    try:
        found = differences(job.fingerprint, fingerprint(settings_of(job)))
    except InputError as error:
        raise VersionMismatch(
            f"on the worker {worker}, {error}; put the same files at the same path on every machine"
        ) from error
    if found:
        words = [
            line.replace(": was ", ": driver ").replace(", is ", ", worker ") for line in found
        ]
        more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
        raise VersionMismatch(
            f"the worker {worker} differs from this process: {'; '.join(words[:_SHOWN])}{more}; "
            "install the same absa-debate-graph on both, and start the worker anew"
        )
