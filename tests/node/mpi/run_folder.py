"""A run's folder as its user sees it: which checkpoints it holds, and whether they are those of another run to the byte."""

import json
from pathlib import Path

from ring_job import require

MEASURED = ("images_per_second", "seconds", "data_wait_seconds", "peak_memory_bytes")


def checkpoints_of(run):
    """Whole ones by their name: step -> folder."""
    root = Path(run) / "checkpoints"
    found = {}
    for entry in root.iterdir() if root.is_dir() else []:
        number = entry.name.removeprefix("step-")
        if entry.name.startswith("step-") and number.isdigit():
            found[int(number)] = entry
    return found


def leftovers_of(run):
    root = Path(run) / "checkpoints"
    whole = set(checkpoints_of(run).values())
    return sorted(entry.name for entry in root.iterdir() if entry not in whole) if root.is_dir() else []


def content_of(folder):
    return {entry.name: entry.read_bytes() for entry in sorted(folder.iterdir())}


def require_same_folder(one, other):
    mine, theirs = content_of(one), content_of(other)
    different = sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name))
    require(not different, f"{one} and {other} differ in {', '.join(different)}")


def require_part_of(run, reference):
    """Every checkpoint by its name is the reference's of that step to the byte: none is half-written, none of another course."""
    expected = checkpoints_of(reference)
    for step, folder in checkpoints_of(run).items():
        require(step in expected, f"{folder}: the uninterrupted run has no step {step}")
        require_same_folder(folder, expected[step])


def history_of(run):
    """What metrics.jsonl tells but for what is measured; which checkpoints there were differs with how often they were asked for."""
    history = []
    for line in (Path(run) / "metrics.jsonl").read_text().splitlines():
        record = {key: value for key, value in json.loads(line).items() if key not in MEASURED}
        if record["event"] != "checkpoint":
            history.append(record)
    return history


def weights_digest_of(folder):
    return json.loads((Path(folder) / "manifest.json").read_text())["weights_digest"]
