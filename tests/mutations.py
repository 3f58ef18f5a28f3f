"""Breaks sources on purpose, one place at a time, and sees whether a test notices.

    from mutations import run_mutations
    sys.exit(run_mutations(__doc__, [(NAME, FILE, TEXT, INSTEAD, "test_hybrid", "*"), ...]))

Every mutation is one piece of text replaced in a copy of a source. What is compiled of it for a test program is compiled anew with the copy, put
in front of the libraries where that program is linked, and the tests named run until the first fails. Nothing in the tree or in the build
changes. Needs a build by Ninja of the test programs, up to date. The exit status is 1 where a mutation goes unnoticed, its text is no longer
there, or the tests fail without one. Standard library alone.
"""

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def ninja(build, *arguments):
    return subprocess.run(["ninja", "-C", str(build), "-t", *arguments], capture_output=True, text=True, check=True).stdout


def compiled_of(flags, source, objects):
    """Entries of the compilation database whose objects are among those named and read the source."""
    entries = []
    for entry in json.loads((flags.build / "compile_commands.json").read_text()):
        made = entry.get("output") or re.search(r" -o (\S+)", entry["command"]).group(1)
        if made in objects and str(source) in ninja(flags.build, "deps", made):
            entries.append((entry, made))
    return entries


def compile_with(entry, made, overlay, source, copy, folder):
    """The object, compiled with the copy in place of the source."""
    main = Path(entry["file"])
    body = main.read_text() if main != source else f'#include "{source}"\n'
    mutated = folder / f"{len(list(folder.iterdir()))}_{main.name}"
    mutated.write_text(body.replace(str(source), str(copy)) if source.suffix == ".cpp" else f'#include "{main}"\n')
    out = mutated.with_suffix(".o")
    command = [part for part in shlex.split(entry["command"]) if part not in (str(main), "-MD", "-c")]
    for flag in ("-MF", "-MT"):
        if flag in command:
            del command[command.index(flag):command.index(flag) + 2]
    command[command.index("-o") + 1] = str(out)
    if source.suffix == ".h":  # before all other folders
        command.insert(1, f"-I{overlay}")
    done = subprocess.run([*command, "-c", str(mutated), "-Wno-error"], cwd=entry["directory"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{source} does not compile with its mutation:\n{done.stderr[-3000:]}")
    return made, out


def run(flags, name, file, old, new, program, tests):
    """One mutation's row: whether one of the tests noticed it, and which."""
    row = {"mutation": name, "file": file, "tests": f"{program} {tests}"}
    source = ROOT / file
    text = source.read_text()
    if text.count(old) != 1:
        return {**row, "verdict": "its text is not there once"}
    if flags.look:
        return {**row, "verdict": "its text is there"}
    with tempfile.TemporaryDirectory() as name_of_folder:
        overlay, folder = Path(name_of_folder) / "overlay", Path(name_of_folder) / "made"
        copy = overlay / file
        copy.parent.mkdir(parents=True)
        folder.mkdir()
        copy.write_text(text.replace(old, new))
        lines = ninja(flags.build, "commands", program).splitlines()
        link = next(line for line in reversed(lines) if f" -o bin/{program}" in line)
        libraries = [part for part in shlex.split(link) if part.endswith(".a") and not part.startswith("/")]
        members = [f"{match.group(1)}" for line in lines for match in [re.search(r" -o (\S+\.o)\b", line)] if match]
        made = [compile_with(entry, made, overlay, source, copy, folder) for entry, made in compiled_of(flags, source, set(members))]
        if not made:
            return {**row, "verdict": "nothing is compiled of it"}
        link = link.replace(f" -o bin/{program}", f" -o {folder / program}")
        front = []
        for old_object, new_object in made:
            if f" {old_object} " in link:
                link = link.replace(f" {old_object} ", f" {new_object} ")
            else:
                front.append(str(new_object))
        link = link.replace(libraries[0], " ".join([*front, libraries[0]]), 1)
        done = subprocess.run(link, shell=True, cwd=flags.build, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{program} is not linked with {file}:\n{done.stderr[-3000:]}")
        try:
            done = subprocess.run([str(folder / program), "--gtest_fail_fast", "--gtest_brief=1", f"--gtest_filter={tests}"], capture_output=True,
                                  text=True, timeout=flags.seconds, check=False)
        except subprocess.TimeoutExpired:
            return {**row, "verdict": "noticed", "by": "no end within the limit"}
    failed = re.findall(r"\[  FAILED  \] (\S+\.\S+?)[ ,\n]", done.stdout)
    return {**row, "verdict": "noticed" if done.returncode != 0 else "unnoticed", "by": failed[0] if failed else ""}


def run_mutations(purpose, mutations):
    parser = argparse.ArgumentParser(description=purpose, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--only", default="", help="a part of a mutation's name")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--look", action="store_true", help="whether the texts are there, without a build: a change of a source must not lose one")
    parser.add_argument("--out", type=Path)
    flags = parser.parse_args()
    flags.build = flags.build.resolve()
    rows = []
    for mutation in mutations:
        if flags.only not in mutation[0]:
            continue
        rows.append(run(flags, *mutation))
        print(f'{rows[-1]["verdict"]:<10} {mutation[0]:<50} {rows[-1].get("by", "")}', flush=True)
        if flags.out:
            flags.out.write_text(json.dumps({"origin": "measured", "mutations": rows}, indent=1) + "\n")
    if flags.look:
        return 1 if any(row["verdict"] != "its text is there" for row in rows) else 0
    # Unbroken, the same tests pass.
    for program, tests in sorted({mutation[4:] for mutation in mutations if flags.only in mutation[0]}):
        done = subprocess.run([str(flags.build / "bin" / program), "--gtest_brief=1", f"--gtest_filter={tests}"], capture_output=True, check=False)
        if done.returncode != 0:
            rows.append({"mutation": "nothing", "tests": f"{program} {tests}", "verdict": "fails without one"})
            print(f"{program} {tests} fails as it is")
    return 1 if any(row["verdict"] != "noticed" for row in rows) else 0
