"""AdamW, label smoothing, the best checkpoint and early stopping on rings: the same bits on any number of ranks.

    python3 training_options_test.py MPIRUN MILLRACE
"""

import array
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


def tensors_of(path):
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return {name: array.array({"F32": "f", "F64": "d"}[entry["dtype"]], data[8 + length:][slice(*entry["data_offsets"])])
            for name, entry in header.items()}


def combined(a, x, b, y):
    return {name: [a * u + b * v for u, v in zip(x[name], y[name])] for name in y}


def furthest(x, y):
    return max(abs(u - v) for name in y for u, v in zip(x[name], y[name]))


def averages_in(folder):
    weights, slots = tensors_of(folder / "weights.safetensors"), tensors_of(folder / "optimizer.safetensors")
    return combined(1, weights, 1, {name: slots[f"{name}#average"] for name in weights})


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

    def test_average_of_weights(self):
        decay = 0.9
        for alignment, more in (("flush", []), ("fpdeep", []), ("stash", ["--optimizer", "adam", "--learning-rate", "0.002"])):
            found = []
            for ranks in (0, 3):
                done, evaluations, out = self.train(ranks, f"{alignment}{ranks}", "--steps", "12", "--ema", str(decay), "--evaluate-every", "0.1",
                                                    "--checkpoint-every", "1", "--keep", "100", "--alignment", alignment, *more)
                found.append((done["weights_digest"], digests(out / "checkpoints" / "step-00000012"), [(e["step"], e["loss"]) for e in evaluations]))
            self.assertEqual(found[0], found[1], alignment)
            # The definition, from the weights of every step.
            checkpoints = out / "checkpoints"
            average = averages_in(checkpoints / "step-00000001")
            for step in range(2, 13):
                average = combined(decay, average, 1 - decay, tensors_of(checkpoints / f"step-{step:08}" / "weights.safetensors"))
            kept = averages_in(checkpoints / "step-00000012")
            self.assertLess(furthest(kept, average), 1e-6)
            # Evaluations in training are of the averages, and so is what comes after: with the training's plan, the same bits.
            by_step = dict(found[0][2])
            for ranks in (0, 2):
                ask = ["eval", "--checkpoint", str(out), "--plan", str(out / "plan.textproto"), "--json"]
                end = ring.run(ranks, *ask, cwd=self.folder.name)
                self.assertEqual(json.loads(end.stdout)["loss"], by_step[12])
                raw = ring.run(ranks, *ask, "--last-weights", cwd=self.folder.name)
                self.assertNotEqual(json.loads(raw.stdout)["loss"], by_step[12])
            self.assertEqual(ring.run(0, "export", "--checkpoint", str(out), "--safetensors", "average.safetensors", cwd=self.folder.name).returncode, 0)
            exported = tensors_of(pathlib.Path(self.folder.name) / "average.safetensors")
            self.assertLess(furthest(exported, kept), 1e-7)

    def test_average_resumes_and_changes_no_weight(self):
        for alignment in ("1f1b", "fpdeep"):
            whole, _, out = self.train(2, f"whole.{alignment}", "--steps", "9", "--ema", "0.8", "--alignment", alignment)
            without, _, _ = self.train(2, f"without.{alignment}", "--steps", "9", "--alignment", alignment)
            self.assertEqual(whole["weights_digest"], without["weights_digest"])
            _, _, halves = self.train(2, f"halves.{alignment}", "--steps", "4", "--ema", "0.8", "--alignment", alignment)
            end = ring.run(3, "train", "--resume", str(halves), "--steps", "9", "--json", cwd=self.folder.name)
            self.assertEqual(end.returncode, 0, end.stderr)
            step = "checkpoints/step-00000009"
            self.assertEqual(digests(out / step), digests(halves / step))

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
