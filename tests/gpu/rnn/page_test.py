"""The page of the benchmark's results, from results made up here: every table and picture is there, and nothing that was not measured."""

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "gpu/rnn/bench"))
import page  # noqa: E402


def case(name, group, **more):
    base = {"case": name, "group": group, "recurrence": "LSTM", "precision": "fp32", "hidden": 256, "batch": 1, "steps": 100, "layers": 1, "training": False,
            "ours": {"what": "ours", "microseconds": 100.0}, "right": True,
            "peers": [{"what": "standard", "microseconds": 400.0}, {"what": "persist static", "microseconds": 250.0}, {"what": "x", "refused": "no"}]}
    return {**base, **more}


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def main():
    alone = {"steps": [100, 1000], "forward_microseconds": [80, 700], "forward_microseconds_per_step": 0.689}
    cases = [case("a", "grid", recurrence_alone=alone), case("b", "grid", batch=2, right=False), case("c", "grid", batch=4, ours={"refused": "it <hung>"}, right=False),
             {"case": "d", "broken": "the program ended while this case ran"},
             case("e", "persistent-rnns-figure-1", recurrence="ReLU", training=True), case("f", "persistent-rnns-figure-1", recurrence="ReLU", training=True, batch=64),
             case("char-rnn (3 layers)", "char-rnn")]
    results = {"gpu": "A <GPU>", "commit": "c", "cudnn": "cuDNN 9", "runs": 51, "cases_left": True, "cases": cases}
    text = page.page_of(results)
    for part in ("A &lt;GPU&gt;", "cases are left", "Table 1", "Figure 11", "Figure 1)", "Figure 15", "<td>0.100</td><td>0.250</td><td>2.50</td><td>0.689</td>",
                 'title="wrong"', "it &lt;hung&gt;", "char-rnn (3 layers)"):
        check(part in text, f"the page has no {part}")
    check(text.count("<svg") == 2, "two pictures")
    check("nan" not in text and "None" not in text, "a number that is none")
    # 2 x 2 operations for each of 256 x 256 weights, 64 samples and 100 steps, three times for training, in 100 microseconds.
    check(">50.3</text>" in text, "the throughput of a batch of 64")
    with tempfile.TemporaryDirectory() as folder:
        wrong = Path(folder) / "wrong.json"
        wrong.write_text("{}", encoding="utf-8")
        done = subprocess.run([sys.executable, page.__file__, str(wrong), str(Path(folder) / "page.html")], capture_output=True, text=True, check=False)
        check(done.returncode == 1 and "is no result of millrace-bench-rnn" in done.stderr, "what is no result is refused")
    print("the page is complete")


if __name__ == "__main__":
    main()
