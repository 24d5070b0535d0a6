"""Finished records in files, so that an interrupted comparison resumes."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flowbert.errors import FlowbertWarning, UserError
from flowbert.experiments.environment import changed_entries
from flowbert.experiments.plan import Experiment
from flowbert.io import as_json, load_tensors, save_tensors
from flowbert.tasks import Record

_KIND = "record of an experiment"


class KeptRecords:
    """A file for each record, beside the file of results.

    Args:
        output: The file of results; None to keep nothing.
        environment: Versions, source, device and threads of this process.
    """

    def __init__(self, output: str | Path | None, environment: dict[str, Any]) -> None:
        self.folder = (
            None if output is None else Path(output).with_suffix(".experiments")
        )
        self.environment = environment

    def _file(self, experiment: Experiment) -> Path | None:
        """File of an experiment's record; None where nothing is kept."""
        if self.folder is None or not experiment.lasting:
            return None
        return self.folder / f"{experiment.key}.safetensors"

    def write(self, experiment: Experiment, record: Record) -> None:
        """Keep a record."""
        file = self._file(experiment)
        if file is None:
            return
        scores = [
            [*metric, as_json(value), record.reasons.get(metric, "")]
            for metric, value in record.scores.items()
        ]
        tensors: dict[str, Any] = {"items": record.items}
        if record.sample is not None:
            tensors["sample"] = record.sample
        save_tensors(
            file,
            _KIND,
            tensors,
            key=experiment.key,
            scores=scores,
            invalid_reason=record.invalid_reason,
            settings=as_json(experiment.settings()),
            environment=self.environment,
        )

    def read(
        self, experiments: Sequence[Experiment], sampled: Any
    ) -> dict[str, Record]:
        """Records by key, of experiments that were finished with the same settings, code and so on.

        What was computed in another environment is said.

        Args:
            experiments: The experiments.
            sampled: Keys of those whose record must have a sample of vectors.
        """
        records: dict[str, Record] = {}
        changed: dict[str, None] = {}
        count = 0
        for experiment in experiments:
            file = self._file(experiment)
            if file is None or not file.is_file():
                continue
            tensors, metadata = load_tensors(file, _KIND)
            if metadata.get("key") != experiment.key:
                raise UserError(f"{file}: holds another experiment than its name says")
            other = changed_entries(metadata["environment"], self.environment)
            if other:
                count += 1
                changed |= dict.fromkeys(other)
                continue
            reason = metadata["invalid_reason"]
            if experiment.key in sampled and reason is None and "sample" not in tensors:
                continue
            scores, reasons = {}, {}
            for metric, aggregation, value, why in metadata["scores"]:
                scores[metric, aggregation] = np.nan if value is None else value
                if why:
                    reasons[metric, aggregation] = why
            records[experiment.key] = Record(
                tensors["items"].numpy(),
                scores,
                reasons,
                key=experiment.key,
                columns=experiment.columns(),
                settings=experiment.settings(),
                environment=self.environment,
                invalid_reason=reason,
                sample=tensors.get("sample") if experiment.key in sampled else None,
            )
        if count:
            warnings.warn(
                f"{self.folder}: {count} finished experiments are recomputed, because they were "
                f"computed with another {', '.join(changed)}",
                FlowbertWarning,
                stacklevel=3,
            )
        return records
