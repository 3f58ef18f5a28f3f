"""The examples of .github/CONTRIBUTING.md, applied to a copy of the sources, and compiled or run as it says.

    check_examples.py SOURCE_DIR GENERATED_DIR COMPILER MILLRACE CMAKE [FLAG]...

An example is a block of changes (diff) followed by a block that begins with "compile" and names sources, or with "run" and has a command of
millrace. MOST_FILES says how many files an addition of a kind may touch. A change is a file, and lines
to find there; those with - go, those with + come. Without the change the compiler must complain about some of those sources, or the
example would show nothing: tests/core/operation/forgotten.py holds that. Sources are read, not translated; those of all examples together,
with all their changes, for they share their headers, which take the compiler longest; where the compiler complains, each example is read
alone, and says whose it is. What the build writes out of sources (kernels.h) is written out of the copy.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE, GENERATED, COMPILER, MILLRACE, CMAKE = Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4]).resolve(), sys.argv[5]
FLAGS = sys.argv[6:]
MOST_FILES = {"an activation": 3, "an operation": 6, "an alignment": 5, "a board": 1, "a kind of device": 2, "a command": 3}
EXAMPLE = re.compile(r"^### (.+?)$(?:(?!^### ).)*?^```diff\n(.*?)^```\n\n```\n(compile|run) (.*?)\n```", re.MULTILINE | re.DOTALL)


def changes(text):
    """(file, lines before, lines after) of every change; a new file has nothing before."""
    found = []
    for part in re.split(r"^--- ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        name, lines = lines[0], lines[1:]
        if name == "/dev/null":
            name, lines = lines[0].removeprefix("+++ "), lines[1:]
        before = [line[1:] for line in lines if line[:1] in " -"]
        after = [line[1:] for line in lines if line[:1] in " +"]
        found.append((name.split("/", 1)[1], before, after))
    return found


def apply(text, copy):
    for name, before, after in changes(text):
        path = copy / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not before:
            path.write_text("\n".join(after) + "\n", encoding="utf-8")
            continue
        if not path.exists():
            path.write_text((SOURCE / name).read_text(encoding="utf-8"), encoding="utf-8")
        content = path.read_text(encoding="utf-8")
        old, new = "\n".join(before) + "\n", "\n".join(after) + "\n"
        if content.count(old) != 1:
            return f"{name}: these lines are there {content.count(old)} times, not once:\n{old}"
        path.write_text(content.replace(old, new), encoding="utf-8")
    return ""


def declare_kernels(copy):
    """The kernels.h of every folder that the copy adds sources to."""
    for template in SOURCE.glob("*/*/kernels.h.in"):
        folder = template.parent.relative_to(SOURCE)
        if not any((copy / folder).glob("*.cpp")):
            continue
        subprocess.run([CMAKE, f"-DFOLDERS={SOURCE / folder};{copy / folder}", f"-DTEMPLATE={template}", f"-DHEADER={copy / folder / 'kernels.h'}",
                        "-P", SOURCE / "deploy/cmake/declare_kernels.cmake"], check=True)


def complaints(copy, names):
    """What the compiler says when it reads these of the copy together; nothing where it accepts them."""
    declare_kernels(copy)
    included = "".join(f'#include "{name}"\n' for name in names)
    done = subprocess.run([COMPILER, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror=switch", "-DFMT_SHARED", *FLAGS, "-x", "c++",
                           f"-I{copy}", f"-I{SOURCE}", f"-I{GENERATED}", "-"], input=included, cwd=copy, capture_output=True, text=True,
                          check=False)
    return "" if done.returncode == 0 else done.stderr


def problems_of(heading, text, verb, words):
    """Of one example, but for what the compiler says of it among the others."""
    touched = {name for name, *_ in changes(text)}
    if len(touched) > MOST_FILES.get(heading, 0):
        return f"{heading} touches {len(touched)} files, more than {MOST_FILES.get(heading, 0)}: {', '.join(sorted(touched))}"
    with tempfile.TemporaryDirectory() as copy:
        problem = apply(text, Path(copy))
        if problem:
            return f"{heading}: {problem}"
        if verb == "run":
            done = subprocess.run([MILLRACE, *words.split()[1:]], cwd=copy, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                return f"{heading}: {words} ends with {done.returncode}:\n{done.stderr[:1500]}"
    return ""


def compile_alone(heading, text, words):
    with tempfile.TemporaryDirectory() as folder:
        apply(text, Path(folder))
        said = complaints(Path(folder), words.split())
    return f"{heading}: these do not compile: {', '.join(words.split())}\n{said[:1500]}" if said else ""


def main():
    page = (SOURCE / ".github/CONTRIBUTING.md").read_text(encoding="utf-8")
    examples = EXAMPLE.findall(page)
    failures = [] if len(examples) == page.count("```diff") else [f"{page.count('```diff')} examples, {len(examples)} of them understood"]
    if [heading for heading, *_ in examples] != list(MOST_FILES):
        failures.append(f"the examples are not those of {', '.join(MOST_FILES)}")
    failures += [problem for example in examples if (problem := problems_of(*example))]
    compiled = [(heading, text, words) for heading, text, verb, words in examples if verb == "compile"]
    names = list(dict.fromkeys(name for *_, words in compiled for name in words.split()))
    if not failures:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder)
            if any([apply(text, copy) for _, text, _ in compiled]) or complaints(copy, names):
                failures += [problem for example in compiled if (problem := compile_alone(*example))]
    print(f"{len(examples)} examples, {len(names)} sources compiled")
    print("\n".join(failures))
    return 1 if failures or not examples else 0


if __name__ == "__main__":
    sys.exit(main())
