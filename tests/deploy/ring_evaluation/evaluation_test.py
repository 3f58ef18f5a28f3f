"""eval and predict on rings: the same bits for the same plan on any number of ranks, and those of the trainer's own evaluation.

    python3 evaluation_test.py MPIRUN MILLRACE
"""

import json
import subprocess
import sys
import tempfile
import unittest

MPIRUN, MILLRACE = None, None
ADVICE = ["--oversubscribe", "--bind-to", "none"]


def run(ranks, *arguments, cwd):
    """Ranks 0: without mpirun."""
    launch = [MPIRUN, "-n", str(ranks), *ADVICE] if ranks > 0 else []
    return subprocess.run([*launch, MILLRACE, "--no-progress", *arguments], cwd=cwd, capture_output=True, text=True, timeout=300)


class RingEvaluation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.done = {}
        for name, more in (("alone", []), ("ring", ["--cluster", "cpux4", "--alignment", "fpdeep", "--micro-batch", "8"])):
            trained = run(0, "train", "--model", "digits-cnn", "--data", "digits", "--epochs", "2", "--out", name, "--json", *more, cwd=cls.folder.name)
            if trained.returncode != 0:
                raise AssertionError(trained.stderr)
            cls.done[name] = json.loads(trained.stdout.splitlines()[-1])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def succeed(self, ranks, *arguments):
        end = run(ranks, *arguments, cwd=self.folder.name)
        self.assertEqual(end.returncode, 0, end.stderr)
        return end.stdout

    def evaluation(self, ranks, *arguments):
        line = json.loads(self.succeed(ranks, "eval", "--json", *arguments))
        line.pop("seconds")
        return line

    def test_same_bits_on_any_number_of_ranks(self):
        alone = self.evaluation(0, "--checkpoint", "alone")
        expected = self.evaluation(0, "--checkpoint", "alone", "--cluster", "cpux4")
        self.assertEqual(expected["samples"], 360)
        self.assertEqual(expected["accuracy"], alone["accuracy"])
        self.assertAlmostEqual(expected["loss"], alone["loss"], places=5)
        for ranks in (2, 4):
            self.assertEqual(self.evaluation(ranks, "--checkpoint", "alone", "--cluster", "cpux4"), expected)

    def test_the_bits_of_the_trainers_evaluation(self):
        """Its plan has parameters that live on other devices than those that use them, or not, as the planner found best."""
        for ranks in (0, 1, 3):
            found = self.evaluation(ranks, "--checkpoint", "ring", "--plan", "ring/plan.textproto")
            self.assertEqual((found["loss"], found["accuracy"]), (self.done["ring"]["loss"], self.done["ring"]["accuracy"]))
        found = self.evaluation(0, "--checkpoint", "alone", "--plan", "alone/plan.textproto")
        self.assertEqual(found["loss"], self.done["alone"]["loss"])

    def test_predictions(self):
        arguments = ["predict", "--checkpoint", "alone", "--count", "0", "--cluster", "cpux3"]
        expected = self.succeed(0, *arguments)
        self.assertEqual(len(expected.splitlines()), 362)
        self.assertRegex(expected.splitlines()[-1], r"^\d+ of 360 right$")
        for ranks in (1, 2, 3):
            self.assertEqual(self.succeed(ranks, *arguments), expected)
        lines = [json.loads(line) for line in self.succeed(2, *arguments, "--json").splitlines()]
        self.assertEqual([line["sample"] for line in lines], list(range(360)))

    def test_the_last_device_may_have_no_work(self):
        self.succeed(0, "plan", "--model", "digits-cnn", "--cluster", "cpux3", "--pin", "fc2=1", "--allow-empty", "--mini-batch", "16", "--out", "short.textproto")
        with open(f"{self.folder.name}/short.textproto", encoding="utf-8") as plan:
            self.assertNotIn("device: 2", plan.read(), "no shard is there")
        digests, told = set(), set()
        for ranks in (0, 1, 2, 3):
            lines = self.succeed(ranks, "train", "--plan", "short.textproto", "--steps", "12", "--checkpoint-every", "5", "--out", f"short{ranks}", "--json").splitlines()
            digests.add(json.loads(lines[-1])["weights_digest"])
            told.add(self.succeed(ranks, "predict", "--checkpoint", "short0", "--plan", "short.textproto"))
        self.assertEqual((len(digests), len(told)), (1, 1))
        self.assertIn("right", told.pop())

    def test_other_samples_and_other_devices(self):
        self.assertEqual(self.evaluation(2, "--checkpoint", "alone", "--cluster", "cpux2", "--split", "train")["samples"], 1437)
        # More samples at a time than there are.
        self.assertEqual(self.evaluation(0, "--checkpoint", "alone", "--micro-batch", "1000000")["samples"], 360)
        end = run(2, "eval", "--checkpoint", "alone", "--cluster", "vc709x2", cwd=self.folder.name)
        self.assertEqual(end.returncode, 0, end.stderr)
        self.assertEqual(end.stderr.count("2 devices of kind vc709 are computed by the CPU engine"), 1)

    def test_refusals(self):
        end = run(5, "eval", "--checkpoint", "alone", "--cluster", "cpux4", cwd=self.folder.name)
        self.assertEqual(end.returncode, 2, end.stderr)
        end = run(2, "eval", "--checkpoint", "nowhere", "--cluster", "cpux2", cwd=self.folder.name)
        self.assertEqual(end.returncode, 1)
        self.assertEqual(end.stderr.count("nowhere"), 1, end.stderr)
        planned = run(0, "plan", "--model", "lenet5", "--cluster", "cpux2", "--out", "other.textproto", cwd=self.folder.name)
        self.assertEqual(planned.returncode, 0, planned.stderr)
        end = run(0, "eval", "--checkpoint", "alone", "--plan", "other.textproto", cwd=self.folder.name)
        self.assertEqual(end.returncode, 1)
        self.assertIn('a plan for model "lenet5", but the checkpoint is one of "digits-cnn"', end.stderr)
        end = run(0, "predict", "--checkpoint", "alone", "--plan", "alone/plan.textproto", "--cluster", "cpux2", cwd=self.folder.name)
        self.assertEqual(end.returncode, 2, end.stderr)
        self.assertIn("--cluster has 2 devices and the plan 1", end.stderr)


if __name__ == "__main__":
    MPIRUN, MILLRACE = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main()
