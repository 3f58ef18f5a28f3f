"""AdamW, label smoothing, the best checkpoint and early stopping on rings: the same bits on any number of ranks.

    python3 training_options_test.py MPIRUN MILLRACE
"""

import hashlib
import json
import pathlib
import sys
import tempfile
import unittest

import evaluation_test as ring

RING = ["train", "--model", "digits-cnn", "--data", "digits", "--cluster", "cpux4", "--micro-batch", "8", "--json"]


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


class TrainingOptions(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def train(self, ranks, out, *more):
        end = ring.run(ranks, *RING, "--out", out, *more, cwd=self.folder.name)
        self.assertEqual(end.returncode, 0, end.stderr)
        records = [json.loads(line) for line in end.stdout.splitlines()]
        return records[-1], [record for record in records if record["event"] == "evaluation"], pathlib.Path(self.folder.name) / out

    def test_optimizer_and_loss(self):
        for alignment in ("flush", "fpdeep", "stash"):
            found = []
            for ranks in (0, 2, 4):
                done, evaluations, out = self.train(ranks, f"{alignment}{ranks}", "--steps", "30", "--optimizer", "adamw", "--weight-decay", "0.05",
                                                    "--label-smoothing", "0.1", "--evaluate-every", "0.5",
                                                    "--alignment", alignment)
                checkpoint = digests(out / "checkpoints" / "step-00000030")
                found.append((done["weights_digest"], checkpoint, [record["loss"] for record in evaluations]))
            self.assertEqual(found[0], found[1], alignment)
            self.assertEqual(found[0], found[2], alignment)
            self.assertEqual(len(found[0][2]), 2)

    def test_early_stop_and_the_best(self):
        for alignment in ("1f1b", "fpdeep"):
            found = []
            for ranks in (0, 3):
                done, evaluations, out = self.train(ranks, f"{alignment}{ranks}", "--epochs", "40", "--learning-rate", "0.15", "--early-stop", "2",
                                                    "--early-stop-metric", "accuracy", "--keep-best", "accuracy", "--evaluate-every", "0.25",
                                                    "--alignment", alignment)
                self.assertEqual(done["reason"], "early stop")
                best = list((out / "best").iterdir())
                self.assertEqual(len(best), 1)
                found.append((done["step"], done["weights_digest"], best[0].name, digests(best[0])["weights.safetensors"]))
                accuracies = {record["step"]: record["accuracy"] for record in evaluations}
                highest = max(accuracies, key=accuracies.get)  # the first of equal ones
                self.assertEqual(best[0].name, f"step-{highest:08}")
            self.assertEqual(found[0], found[1], alignment)


if __name__ == "__main__":
    ring.MPIRUN, ring.MILLRACE = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main()
