#!/usr/bin/env python3
"""Draws the pictures of README.md and of the guide anew, or says which of them are stale.

  deploy/pictures/draw.py                     all of them; the programs are those of build/release
  deploy/pictures/draw.py --check             draws into memory and compares; ends with 1 where a picture is stale
  deploy/pictures/draw.py --build FOLDER      the programs of another build

  schedules.svg      draw_schedules.py, from schedules.txt, which a test holds to core/plan/schedule.h
  figure16.svg       draw_learning (a benchmark), from tests/benchmarks/results/ring_training.json
  plan-report.png    the top of the page that `millrace plan --report` writes for the tour's plan, by Chromium. A browser draws no
                     two pictures alike, so plan-report.digest says which page it shows

ring.svg is drawn by hand; a test (Readme.RingShowsTheFlowsOfItsPlan) says when its numbers are no longer those of its plan. A program that
was not built leaves its picture alone.
"""
import argparse
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PICTURES = pathlib.Path(__file__).resolve().parent
ROOT = PICTURES.parents[1]
RESULTS = ROOT / "tests/benchmarks/results/ring_training.json"
PLAN = ["plan", "--model", "vgg16", "--cluster", "vc709x15", "--accounting", "fpdeep", "--explain"]  # the tour's
WIDTH, HEIGHT = 1180, 1290


def schedules(_build, _folder):
    with open(PICTURES / "schedules.txt", encoding="utf-8") as lists:
        return subprocess.run([sys.executable, "-B", PICTURES / "draw_schedules.py"], stdin=lists, capture_output=True, check=True).stdout


def figure16(build, folder):
    program = build / "bin/draw_learning"
    if not program.exists():
        return None
    subprocess.run([program, RESULTS, folder / "figure16.svg", "--task", "figure16"], check=True)
    return (folder / "figure16.svg").read_bytes()


def report_page(build, folder):
    """Its path and its digest, without what the machine that plans has to do with."""
    program = build / "bin/millrace"
    if not program.exists():
        return None
    subprocess.run([program, *PLAN, "--report", folder / "report"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    page = folder / "report/index.html"
    text = page.read_text(encoding="utf-8").replace(str(folder), "")
    text = re.sub(r"(Planned in</dt><dd>)[^<]*", r"\1", text)
    return page, hashlib.sha256(text.encode()).hexdigest() + "\n"


def photograph(page, picture):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("draw.py: there is no Chromium to draw plan-report.png with; apt-get install chromium")
    subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                    f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={picture}", page.as_uri()],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="draw nothing: say what is stale")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="folder of the build [build/release]")
    arguments = parser.parse_args()
    stale, same = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for picture, draw in (("schedules.svg", schedules), ("figure16.svg", figure16)):
            drawn = draw(arguments.build, folder)
            if drawn is None:
                print(f"{picture}: its program was not built; left alone")
            elif drawn == (PICTURES / picture).read_bytes():
                same.append(picture)
            else:
                stale.append(picture)
                if not arguments.check:
                    (PICTURES / picture).write_bytes(drawn)
        page = report_page(arguments.build, folder)
        digest = PICTURES / "plan-report.digest"
        if page is None:
            print("plan-report.png: millrace was not built; left alone")
        elif digest.exists() and page[1] == digest.read_text(encoding="utf-8"):
            same.append("plan-report.png")
        else:
            stale.append("plan-report.png")
            if not arguments.check:
                photograph(page[0], PICTURES / "plan-report.png")
                digest.write_text(page[1], encoding="utf-8")
    if same:
        print(f"as they should be: {', '.join(same)}")
    for picture in stale:
        print(f"{picture} is stale: draw it with deploy/pictures/draw.py" if arguments.check else f"{picture}: drawn anew")
    return 1 if stale and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
