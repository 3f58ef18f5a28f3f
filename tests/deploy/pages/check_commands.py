"""Every command that a page shows is one that there is, and transcripts of README and guide say what the commands print.

    check_commands.py SOURCE_DIR MILLRACE [--long]

Words, of every page: `millrace X --flag` must name a subcommand and flags of its --help, `--flag` alone a flag of some subcommand or of
a script that the page names, `ctest -R X` a test of this build, `cmake --preset X` a preset, tests/benchmarks/x.py and
build/release/bin/x something that is there, MILLRACE_X a word of the build or of a source.

Transcripts, of README.md and deploy/guide: a block's lines that begin with `$ ` run in one folder, in the order of the README's table; the
lines below are what they print, `...` any text. Numbers are compared, but for those that depend on the machine: of train, eval and predict,
and of lines that say "measured". A comment before a block says what is different about it:

    <!-- test: commands alone -->     they run, what they print is not compared
    <!-- test: words alone -->        they need files of the reader's, and do not run
    <!-- test: long -->               they run with --long alone
    <!-- test: long, needs PATH -->   and where PATH is
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(r"(?:^<!-- test: (?P<how>.+?) -->\n+)?^```(?P<language>\w*)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`]+)`")
FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*|[0-9a-f]{32}")
INSTRUCTION_SET = re.compile(r"\b(?:sse4|avx)\w*")  # of the machine, as oneDNN names it
OF_LOG = re.compile(r"(?:debug|info|warning|error) \[rank ")
PROGRESS = re.compile(r"\w+: \d+/\d+ \(\d+%\)")  # on a machine that takes its time
OF_THE_MACHINE = {"train", "eval", "predict", "tune", "profile"}
SECONDS_PER_COMMAND = 300
# Of programs that are not ours; and of our scripts whose names a page leaves out.
FOREIGN = {"--oversubscribe", "--bind-to", "--mca", "--logdir", "--install", "--prefix", "--build", "--target", "--preset", "--help", "--version"}


def pages(root):
    skipped = {"build", "runs", ".git"}
    return [path for path in sorted(root.rglob("*.md")) if not skipped & set(path.relative_to(root).parts)]


def guide(root):
    """README.md and the pages its table lists, in that order."""
    readme = root / "README.md"
    names = re.findall(r"\]\((deploy/guide/[\w-]+\.md)\)", readme.read_text(encoding="utf-8"))
    return [readme] + [root / name for name in dict.fromkeys(names)]


def commands_of(text):
    """The commands that a block shows, their continuations joined."""
    return re.findall(r"^(?:\$ )?((?:[A-Z_]+=\S+ )*(?:mpirun|millrace|build/release/bin/\w+|ctest|cmake|deploy/\w+\.sh)\b.*)$",
                      text.replace("\\\n", " "), re.MULTILINE)


class Words:
    """What subcommands, flags, tests, presets and scripts there are."""

    def __init__(self, root, millrace):
        self.root = root
        text = self.output([millrace, "--help"])
        self.subcommands = re.findall(r"^  (\w+) {3,}", text.split("Subcommands:")[1].split("\n\n\n")[0], re.MULTILINE)
        self.flags = {name: set(FLAG.findall(self.output([millrace, name, "--help"]))) for name in self.subcommands}
        self.flags[""] = set(FLAG.findall(text))
        self.all_flags = set().union(*self.flags.values())
        self.presets = {preset["name"] for kind in ("configurePresets", "buildPresets", "testPresets")
                        for preset in json.loads((root / "CMakePresets.json").read_text(encoding="utf-8")).get(kind, [])}
        self.build_files = "\n".join(path.read_text(encoding="utf-8") for top in ("deploy", "tests", "gpu", "core", "node", "fpga")
                                     for path in (root / top).rglob("CMakeLists.txt"))
        self.tests = None

    @staticmethod
    def output(command):
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def problems_of_command(self, text):
        """Of `millrace X --flag ... -- Y --flag`, the words before millrace belonging to others."""
        found = []
        for part in re.split(r"\bmillrace\b(?= +[a-z-])", text)[1:]:
            part = re.split(r" \| | && |; | 2>", part)[0]
            pieces = re.split(r" -- ", " " + part)
            for piece in pieces:
                words = piece.split()
                name = next((word for word in words if not word.startswith("-")), "")
                if name not in self.subcommands:
                    found.append(f"millrace has no command {name}")
                    continue
                found += [f"millrace {name} has no {flag}" for flag in FLAG.findall(piece) if flag not in self.flags[name] | self.flags[""]]
        return found

    def problems_of_page(self, page):
        text = page.read_text(encoding="utf-8")
        found = []
        prose = BLOCK.sub("", text)
        spans = [" ".join(span.split()) for span in SPAN.findall(prose)]
        shown = [command for match in BLOCK.finditer(text) if match["language"] in ("", "sh") for command in commands_of(match["text"])]
        for command in shown + spans:
            found += self.problems_of_command(command)
            for pattern in re.findall(r"ctest [^|]*-R '?([\w.|*-]+)'?", command):
                found += [] if self.has_test(pattern) else [f"no test is called {pattern}"]
            for preset in re.findall(r"--preset ([\w-]+)", command):
                found += [] if preset in self.presets else [f"no preset is called {preset}"]
            for program in re.findall(r"build/release/bin/(\w+)", command):
                if program != "millrace" and not re.search(rf"\b{program}\b", self.build_files):
                    found.append(f"nothing builds {program}")
        scripts = set(re.findall(r"(?:\.\./)*((?:deploy|tests|gpu)/[\w/-]+\.(?:sh|py))", text))
        script_words = "".join((self.root / name).read_text(encoding="utf-8") for name in scripts if (self.root / name).exists())
        known = self.all_flags | FOREIGN
        for span in spans:
            words = span.split()
            if words[0] in self.subcommands and len(words) > 1 and words[1].startswith("--"):
                found += self.problems_of_command("millrace " + span)
            elif span.startswith("--") or "/" in words[0]:
                found += [f"nothing knows {flag}" for flag in FLAG.findall(span) if flag not in known and flag not in script_words]
        for name in re.findall(r"(?<![\w$])MILLRACE_[A-Z][A-Z_]+[A-Z]", text):
            found += [] if self.has_variable(name) else [f"nothing reads {name}"]
        return [f"{page.relative_to(self.root)}: {problem}" for problem in dict.fromkeys(found)], len(shown)

    def has_test(self, pattern):
        if self.tests is None:
            listed = self.output(["ctest", "--test-dir", os.environ["MILLRACE_BUILD"], "-N"])
            self.tests = re.findall(r"Test +#\d+: (\S+)", listed)
        return any(re.search(pattern, name) for name in self.tests)

    def has_variable(self, name):
        return subprocess.run(["grep", "-rqw", name, "--include=*.cpp", "--include=*.h", "--include=*.cmake", "--include=CMakeLists.txt",
                               "--include=*.py", "--include=*.sh", "core", "node", "transport", "fpga", "gpu", "deploy", "tests"],
                              cwd=self.root, check=False).returncode == 0


def compiled_line(line, exact):
    """The line as a pattern: `...` is any text; where numbers depend on the machine, one is as good as another."""
    exact = exact and "measured" not in line
    line = INSTRUCTION_SET.sub("(instruction set)", line)
    pattern = "".join(".*" if part == "..." else re.escape(part) if exact else NUMBER_PATTERN.join(re.escape(rest) for rest in NUMBER.split(part))
                      for part in re.split(r"(\.\.\.)", re.sub(r" +", " ", line.rstrip())))
    return re.compile(pattern + " *")


NUMBER_PATTERN = r"(?:\d+(?:[.,]\d+)*|[0-9a-f]{32})"


def missing_line(expected, actual, exact):
    """The first expected line that is not there in its order; `...` alone stands for any lines."""
    at, anywhere = 0, False
    for line in expected:
        if not line.strip():
            continue
        if line == "...":
            anywhere = True
            continue
        pattern = compiled_line(line, exact)
        places = range(at, len(actual)) if anywhere else range(at, min(at + 1, len(actual)))
        found = next((i for i in places if pattern.fullmatch(re.sub(r" +", " ", INSTRUCTION_SET.sub("(instruction set)", actual[i].rstrip())))), None)
        if found is None:
            return line
        at, anywhere = found + 1, False
    return None if anywhere or at == len(actual) else f"nothing more, and not {actual[at]}"


def missing_line_of_ranks(expected, actual, exact):
    """As missing_line, where mpirun passes standard output and standard error on each for itself: in which order they arrive is chance."""
    for of_log in (True, False):
        chosen = [[line for line in lines if line == "..." or bool(OF_LOG.match(line)) == of_log] for lines in (expected, actual)]
        missing = missing_line(*chosen, exact)
        if missing:
            return missing
    return None


def environment(millrace):
    return dict(os.environ, PATH=os.pathsep.join([str(Path(millrace).resolve().parent), os.environ["PATH"]]), LC_ALL="C.UTF-8", NO_COLOR="1",
                PYTHONDONTWRITEBYTECODE="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none")


def steps_of(text):
    """(command, lines that it prints); lines before the first command belong to nobody."""
    steps = []
    for line in text.replace("\\\n", "").splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        elif steps:
            steps[-1][1].append(line)
    return steps


def run_page(page, root, folder, millrace, long):
    failures, done = [], 0
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        how = match["how"] or ""
        if match["language"] == "textproto":  # its name is the last one that the text before it says
            (folder / re.findall(r"`([\w-]+\.textproto)`", text[: match.start()])[-1]).write_text(match["text"], encoding="utf-8")
            continue
        needs = re.fullmatch(r"long, needs (\S+)", how)
        if match["language"] or how == "words alone" or (how.startswith("long") and not long) or (needs and not Path(needs[1]).exists()):
            continue
        for command, expected in steps_of(match["text"]):
            result = subprocess.run(["bash", "-c", command], cwd=folder, env=environment(millrace), stdin=subprocess.DEVNULL, text=True, check=False,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS_PER_COMMAND)
            done += 1
            said = f"{page.relative_to(root)}: $ {command}\n"
            if result.returncode != 0:
                failures.append(f"{said}ends with {result.returncode}\n{result.stdout[-1500:]}")
            elif how != "commands alone":
                actual = [line for line in result.stdout.splitlines() if line.strip() and not PROGRESS.match(line)]
                subcommand = re.search(r"\bmillrace (\w+)", command)
                find_missing = missing_line_of_ranks if command.startswith("mpirun ") else missing_line
                missing = find_missing(expected, actual, exact=subcommand is not None and subcommand[1] not in OF_THE_MACHINE)
                if missing:
                    failures.append(f"{said}does not print: {missing}\n{result.stdout[-3000:]}")
    return failures, done


def main(arguments):
    root, millrace, long = Path(arguments[0]).resolve(), Path(arguments[1]).resolve(), "--long" in arguments
    failures, shown, done = [], 0, 0
    words = Words(root, millrace)
    for page in pages(root):
        problems, commands = words.problems_of_page(page)
        failures += problems
        shown += commands
    with tempfile.TemporaryDirectory(prefix="millrace-guide-") as name:
        folder = Path(name)
        (folder / "build/release").mkdir(parents=True)
        (folder / "build/release/bin").symlink_to(millrace.parent)
        for page in guide(root):
            problems, commands = run_page(page, root, folder, millrace, long)
            failures += problems
            done += commands
    print(f"{shown} commands shown, {done} run")
    print("\n".join(failures))
    return 1 if failures or done == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
