"""Turns the benchmark's JSON into one page with the tables and pictures of the papers.

    python3 gpu/rnn/bench/page.py build/gpu-results/grid.json page.html

GRNN's Table 1 (milliseconds of a layer of 100 steps by hidden size and batch, ours and cuDNN's best, LSTM and GRU, each format), its speedup
figure (here over cuDNN's standard algorithm), the time of a step of the recurrence alone, GRNN's two networks, and Persistent RNNs' Figure 1
(teraflops by batch). Every number is measured and comes from the file, whose GPU and commit stand at the top; what was not measured, refused
or wrong is a dash with the reason. Standard library alone. Exit status 1 when the file is no result of millrace-bench-rnn.
"""

import html
import json
import sys
from pathlib import Path

COLOURS = ("#1b6ca8", "#c8553d", "#588b8b", "#f28f3b")
GATES = {"LSTM": 4, "GRU": 3, "canonical GRU": 3, "tanh": 1, "ReLU": 1}


def best_peer(case):
    times = [peer["microseconds"] for peer in case.get("peers", []) if peer.get("microseconds")]
    return min(times, default=None)


def standard_peer(case):
    return next((peer["microseconds"] for peer in case.get("peers", []) if peer.get("what") == "standard" and peer.get("microseconds")), None)


def own_time(case):
    """Microseconds of ours; None when there are none or they are wrong."""
    return case.get("ours", {}).get("microseconds") if case.get("right") else None


def why_not(case):
    if case is None:
        return "not measured"
    return case.get("broken") or case.get("ours", {}).get("refused") or ("wrong" if not case.get("right") else "")


def cell(value, form="{:.3f}", reason=""):
    return f"<td>{form.format(value)}</td>" if value is not None else f'<td title="{html.escape(reason)}">&ndash;</td>'


def table(heading, names, rows):
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    return f"<h3>{html.escape(heading)}</h3>\n<table><tr>{head}</tr>\n" + "\n".join(f"<tr>{row}</tr>" for row in rows) + "\n</table>\n"


def picture(heading, x_name, y_name, x_values, series):
    """Lines over categories: {name: [y or None]}."""
    width, height, left, bottom = 620, 300, 60, 50
    most = max((y for line in series.values() for y in line if y is not None), default=0) or 1
    x_at = [left + (width - left - 150) * (i + 0.5) / max(1, len(x_values)) for i in range(len(x_values))]

    def y_at(y):
        return height - bottom - (height - bottom - 20) * y / (1.1 * most)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">']
    parts.append(f'<line x1="{left}" y1="{height - bottom}" x2="{width - 150}" y2="{height - bottom}" stroke="black"/>')
    parts.append(f'<line x1="{left}" y1="20" x2="{left}" y2="{height - bottom}" stroke="black"/>')
    for step in range(5):
        y = most * step / 4
        parts.append(f'<text x="{left - 6}" y="{y_at(y) + 4:.1f}" text-anchor="end">{y:.3g}</text>')
    for at, value in zip(x_at, x_values):
        parts.append(f'<text x="{at:.1f}" y="{height - bottom + 18}" text-anchor="middle">{html.escape(str(value))}</text>')
    parts.append(f'<text x="{(left + width - 150) / 2}" y="{height - 10}" text-anchor="middle">{html.escape(x_name)}</text>')
    parts.append(f'<text x="6" y="14">{html.escape(y_name)}</text>')
    for number, (name, line) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = [(x, y_at(y)) for x, y in zip(x_at, line) if y is not None]
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        parts.append(f'<text x="{width - 140}" y="{30 + 18 * number}" fill="{colour}">{html.escape(name)}</text>')
    parts.append("</svg>")
    return f"<h3>{html.escape(heading)}</h3>\n" + "\n".join(parts) + "\n"


def grids(cases):
    out = []
    keys = sorted({(c["recurrence"], c["precision"], c["training"]) for c in cases if c.get("group") == "grid"})
    for recurrence, precision, training in keys:
        mine = {(c["hidden"], c["batch"]): c for c in cases if c.get("group") == "grid" and (c["recurrence"], c["precision"], c["training"]) == (recurrence, precision, training)}
        hidden_sizes, batches = sorted({h for h, _ in mine}), sorted({b for _, b in mine})
        what = f"{recurrence} {precision}, {'forward and backward' if training else 'inference'}"
        rows = []
        for hidden in hidden_sizes:
            for batch in batches:
                case = mine.get((hidden, batch))
                ours, peer = (own_time(case), best_peer(case)) if case else (None, None)
                alone = case.get("recurrence_alone", {}) if case else {}
                rows.append(
                    f"<td>{hidden}</td><td>{batch}</td>"
                    + cell(ours and ours / 1000, reason=why_not(case))
                    + cell(peer and peer / 1000, reason="no algorithm accepts it")
                    + cell(peer / ours if ours and peer else None, "{:.2f}", why_not(case))
                    + cell(alone.get("forward_microseconds_per_step"), "{:.3f}", alone.get("refused", "not measured"))
                    + cell(alone.get("backward_microseconds_per_step"), "{:.3f}", alone.get("refused", "not measured"))
                )
        names = ["hidden", "batch", "ours, ms", "cuDNN's best, ms", "ratio", "forward alone, us a step", "backward alone, us a step"]
        out.append(table(f"Layers of 100 steps (GRNN, Table 1): {what}", names, rows))
        series = {}
        for hidden in hidden_sizes[:4]:
            line = []
            for batch in batches:
                case = mine.get((hidden, batch))
                ours, peer = (own_time(case), standard_peer(case)) if case else (None, None)
                line.append(peer / ours if ours and peer else None)
            series[f"hidden {hidden}"] = line
        out.append(picture(f"Speedup over cuDNN's standard algorithm (GRNN, Figure 11): {what}", "batch", "times faster", batches, series))
    return out


def batch_sweep(cases):
    mine = sorted((c for c in cases if c.get("group") == "persistent-rnns-figure-1"), key=lambda c: c["batch"])
    if not mine:
        return []

    def teraflops(case, microseconds):
        # Two operations per weight, sample and step of the recurrent and the input's product; training three times as many.
        operations = 2 * 2 * GATES[case["recurrence"]] * case["hidden"] ** 2 * case["batch"] * case["steps"] * (3 if case["training"] else 1)
        return operations / microseconds / 1e6 if microseconds else None

    lines = {"ours": [teraflops(c, own_time(c)) for c in mine], "cuDNN's best": [teraflops(c, best_peer(c)) for c in mine]}
    return [picture("Throughput by batch (Persistent RNNs, Figure 1)", "batch", "TFLOP/s", [c["batch"] for c in mine], lines)]


def networks(cases):
    rows = []
    for case in cases:
        if case.get("group") in ("char-rnn", "text-classification"):
            ours, peer = own_time(case), best_peer(case)
            rows.append(f"<td>{html.escape(case['case'])}</td>" + cell(ours and ours / 1000, reason=why_not(case)) + cell(peer and peer / 1000))
    return [table("Networks (GRNN, Figure 15)", ["network", "ours, ms", "cuDNN's best, ms"], rows)] if rows else []


def page_of(results):
    cases = results["cases"]
    left = "; cases are left" if results.get("cases_left") else ""
    head = f"{results['gpu']}, commit {results['commit']}, {results.get('cudnn') or 'no cuDNN'}, medians of {results['runs']} runs{left}"
    body = grids(cases) + batch_sweep(cases) + networks(cases)
    style = "body{font-family:sans-serif}td,th{padding:2px 10px;text-align:right}table{border-collapse:collapse}tr:nth-child(even){background:#eee}"
    return (
        f'<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>Recurrent kernels</title><style>{style}</style></head><body>\n'
        f"<h1>Recurrent kernels, measured</h1>\n<p>{html.escape(head)}</p>\n" + "".join(body) + "</body></html>\n"
    )


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        results = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
        page = page_of(results)
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"{sys.argv[1]} is no result of millrace-bench-rnn: {error!r}")
    Path(sys.argv[2]).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
