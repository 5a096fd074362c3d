"""The description of a batch that is sent to its workers."""

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

# How many differences are listed; the others are only counted.
_SHOWN = 3


class VersionMismatch(RuntimeError):
    """A worker has other packages, prompts or files and could answer differently."""


@dataclass(frozen=True)
class Job:
    """A batch as sent to its workers. API keys are not in it: workers use their own environment."""

    host: str
    port: int
    # The coordinator admits connections that send this token.
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
    # The coordinator limits the request rate; a worker must not limit it a second time.
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
    """What must be equal in the driver and in all workers."""
    return {
        "python": ".".join(map(str, sys.version_info[:2])),
        "packages": versions(),
        "prompts": folder_hashes("prompts"),
        "resources": folder_hashes("resources"),
        "prices": prices(),
        "files": named_file_hashes(settings, READ_BY_WORKERS),
    }


def check_fingerprint(job: Job, worker: str) -> None:
    """Raise VersionMismatch if this worker differs from the driver; the message lists how."""
    try:
        mismatches = differences(job.fingerprint, fingerprint(settings_of(job)))
    except InputError as error:
        raise VersionMismatch(
            f"on the worker {worker}, {error}; put the same files at the same path on every machine"
        ) from error
    if mismatches:
        lines = [
            line.replace(": was ", ": driver ").replace(", is ", ", worker ") for line in mismatches
        ]
        more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
        raise VersionMismatch(
            f"the worker {worker} differs from this process: {'; '.join(lines[:_SHOWN])}{more}; "
            "install the same absa-debate-graph on both, and restart the worker"
        )
