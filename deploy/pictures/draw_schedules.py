#!/usr/bin/env python3
"""Draws schedules.svg, the timeline in the guide, from the action lists in schedules.txt.

  deploy/pictures/draw_schedules.py < deploy/pictures/schedules.txt > deploy/pictures/schedules.svg

One line per device: the alignment, the device, and text_of(actions_of(spec)) of core/plan/schedule.h for 4 devices and 4
mini-batches of 4 micro-batches, with the default windows; tests/deploy/readme holds the file to them. Each F, E and G takes one
unit, U and messages none; an action starts once the one before it on its device is done and what it needs from a neighbour is
there. The figures are those of device 0 from U1 to U2, where the pipeline is in its stride. Standard library alone.
"""
import sys

DEVICES, MICRO_BATCHES = 4, 4
SHOWN, CELL, ROW = 41, 20, 22  # units of time, and pixels
LEFT, TOP, PANEL = 110, 96, 4 * ROW + 46
TEXTS = {
    "flush": "all forward, then all back; drained before every update",
    "1f1b": "one forward, one back: as long as flush, but device d holds 4 − d micro-batches, not 4",
    "zero-bubble": "each G waits, so that E goes upstream earlier; every device holds up to 4 micro-batches",
    "fpdeep": "never drained; dashed F run on weights one update old",
}


def read_lists(lines):
    lists = {}
    for line in lines:
        alignment, device, *words = line.split()
        lists.setdefault(alignment, {})[int(device)] = [(word[0], int(word[1:])) for word in words]
    return lists


def times_of(devices):
    """Start of every action: {(device, kind, index): time}. Actions of one device run in their order."""
    start, position, free = {}, [0] * DEVICES, [0] * DEVICES
    while any(position[d] < len(devices[d]) for d in range(DEVICES)):
        moved = False
        for d in range(DEVICES):
            while position[d] < len(devices[d]):
                kind, index = devices[d][position[d]]
                neighbour = {"F": d - 1, "E": d + 1}.get(kind, -1)
                ready = free[d]
                if 0 <= neighbour < DEVICES:
                    if (neighbour, kind, index) not in start:
                        break
                    ready = max(ready, start[neighbour, kind, index] + 1)
                start[d, kind, index] = ready
                free[d] = ready + (kind != "U")
                position[d] += 1
                moved = True
        if not moved:
            sys.exit("these lists wait for each other")
    return start


def updates_seen(devices, device):
    """{index of F: updates done on this device when it runs}"""
    seen, updates = {}, 0
    for kind, index in devices[device]:
        if kind == "F":
            seen[index] = updates
        updates += kind == "U"
    return seen


def panel(name, devices, top):
    start = times_of(devices)
    between = start[0, "U", 2] - start[0, "U", 1]
    idle = 1 - 3 * MICRO_BATCHES / between
    out = [f'<text class="name" x="16" y="{top}">{name}</text>',
           f'<text class="note" x="{LEFT}" y="{top}">{TEXTS[name]}</text>',
           f'<text class="figure" x="{LEFT + SHOWN * CELL}" y="{top}" text-anchor="end">{between} units per update, idle {100 * idle:.0f}%</text>']
    for d in range(DEVICES):
        y = top + 12 + d * ROW
        out.append(f'<text class="device" x="16" y="{y + 15}">device {d}</text>')
        out.append(f'<rect class="idle" x="{LEFT}" y="{y}" width="{SHOWN * CELL}" height="{ROW - 3}"/>')
        seen = updates_seen(devices, d)
        for (device, kind, index), time in sorted(start.items(), key=lambda item: item[1]):
            if device != d or time + (kind != "U") > SHOWN:
                continue
            x = LEFT + time * CELL
            if kind == "U":
                out.append(f'<path class="update" d="M{x} {y - 3}v{ROW + 3}"/>')
                continue
            old = kind == "F" and seen[index] < index // MICRO_BATCHES
            odd = index // MICRO_BATCHES % 2
            out.append(f'<rect class="{kind}{" odd" if odd else ""}{" old" if old else ""}" x="{x + 1}" y="{y + .5}" width="{CELL - 2}" '
                       f'height="{ROW - 4}" rx="2"/><text class="cell" x="{x + CELL / 2:g}" y="{y + 14}">{index}</text>')
    return out


STYLE = """
text{font-family:system-ui,-apple-system,"Segoe UI","DejaVu Sans",Helvetica,Arial,sans-serif;font-size:13px;fill:#1f2328}
.card{fill:#fff;stroke:#d0d7de}.name,.title{font-weight:600}.title{font-size:15px}.note,.device,.figure{fill:#59636e}.device{font-size:12px}
.cell{font-size:11px;text-anchor:middle}.idle{fill:#f0f2f4}.update{stroke:#1f2328;stroke-width:2.5}
.F{fill:#b6d7ff}.F.odd{fill:#8cbcf5}.E{fill:#ffd3b0}.E.odd{fill:#f7b588}.G{fill:#bfe8c5}.G.odd{fill:#97d3a1}
.old{stroke:#1f2328;stroke-width:1.2;stroke-dasharray:3 2}
@media (prefers-color-scheme:dark){
text{fill:#f0f6fc}.card{fill:#151b23;stroke:#3d444d}.note,.device,.figure{fill:#9ea7b3}.idle{fill:#212830}.update{stroke:#f0f6fc}
.F{fill:#1b4a80}.F.odd{fill:#2a66a8}.E{fill:#7a3f12}.E.odd{fill:#9c5420}.G{fill:#1f5a2b}.G.odd{fill:#2f7a3e}.old{stroke:#f0f6fc}
}"""


def main():
    lists = read_lists(sys.stdin)
    width, height = LEFT + SHOWN * CELL + 20, TOP + PANEL * len(TEXTS) - 12
    legend = [("F", "FP, forward"), ("E", "EB, error back-propagation"), ("G", "PG, parameter gradient")]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
           'aria-labelledby="title">', '<title id="title">Four devices under the alignments flush, 1f1b, zero-bubble and fpdeep: which '
           'micro-batch each device works on at each time, and when it updates its weights</title>',
           '<!-- drawn by deploy/pictures/draw_schedules.py -->', f"<style>{STYLE}</style>",
           f'<rect class="card" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>',
           '<text class="title" x="16" y="28">Four devices, mini-batches of four micro-batches, each F, E and G one unit long</text>']
    x = 16
    for kind, text in legend:
        out.append(f'<rect class="{kind}" x="{x}" y="42" width="16" height="16" rx="2"/><text class="note" x="{x + 22}" y="55">{text}</text>')
        x += 44 + 7.2 * len(text)
    out.append(f'<path class="update" d="M{x + 4} 41v18"/><text class="note" x="{x + 14}" y="55">WU, weight update</text>')
    out.append(f'<text class="note" x="{LEFT + SHOWN * CELL}" y="55" text-anchor="end">time →</text>')
    for row, name in enumerate(TEXTS):
        out += panel(name, lists[name], TOP + row * PANEL)
    print("\n".join(out + ["</svg>"]))


if __name__ == "__main__":
    main()
