"""The rules of the source tree: which folder may include which, what stays out of headers, how files open.

    violations = check(Path("."))      # a list of "file:line: what is wrong", empty when all is well

The rules are data at the top; check() reads every source once and applies them. Standard library alone.
Limits: includes inside #if blocks count whether the condition holds or not.
"""

import re
from pathlib import Path

# Top-level folder -> the other top-level folders that it may include.
EVERYTHING = {"core", "transport", "partitioner", "fpga", "gpu", "node", "deploy", "tests"}
MAY_INCLUDE = {
    "core": set(),
    "transport": {"core"},
    "partitioner": {"core"},
    "fpga": {"core"},
    "gpu": {"core"},
    "node": {"core", "transport"},
    "deploy": EVERYTHING - {"tests"},
    "tests": EVERYTHING,
}

# The floors inside a top-level folder, lowest first: a folder includes its own floor's folder and lower floors.
FLOORS = {
    "core": [
        {"base"},
        {"operation"},
        {"documents", "drawing", "decode"},
        {"graph"},
        {"plan"},
        {"device"},
        {"reference", "cpu", "data"},
        {"train"},
        {"exchange"},
    ],
    "transport": [{"streams"}, {"local", "shaping", "nccl"}, {"mpi"}],
    "partitioner": [{"planning"}, {"hybrid", "profile", "report"}, {"baseline"}, {"choice"}, {"study"}],
    "node": [{"report"}, {"ring", "simulate"}],
    "fpga": [
        {"common", "catalogue"},
        {"conv_ce", "recurrence"},
        {"sbe", "pe_chain", "calibration"},
        {"emulated"},
        {"cosim", "cost"},
        {"xrt"},
    ],
    "gpu": [{"rnn", "device", "catalogue"}, {"recurrence"}, {"cuda"}],
    "deploy": [{"launch", "devices", "examples"}, {"session"}, {"command"}],
}
# The one way back between folders that is left: the kernels and the model of their speed share the layouts of mapping.h, which the
# run-time compiler knows under that name.
WAYS_BACK = {("gpu/rnn/kernels", "gpu/rnn")}
# Folders held to less than their floor or their top level allows.
NARROWER = {
    "core/data": {"core/base", "core/documents", "core/graph"},
    "gpu/rnn": set(),  # the standard library and CUDA alone: it builds with nvcc and nothing else
}

# Heavy libraries: in .cpp files, and in headers that say "Internal to <their folder>" in their opening comment and that no
# other folder includes (nlohmann/json_fwd.hpp is light, and made for headers). Helpers of tests are free to use them.
HEAVY = re.compile(r"^(google/protobuf/|spdlog/|dnnl|oneapi/dnnl|nlohmann/(?!json_fwd)|CLI/|.*\.pb\.h$)")
# What core never includes, in any file.
FOREIGN_TO_CORE = re.compile(r"^(mpi\.h|cuda|cudnn|cublas|nccl|xrt)")
# Headers that one folder alone includes, so that everything else builds, starts and is tested without them; tests are free.
CONFINED = {
    re.compile(r"^mpi(-ext)?\.h$"): "transport/mpi",
    re.compile(r"^nccl.*\.h$"): "transport/nccl",
    re.compile(r"^CLI/"): "deploy/command",
    re.compile(r"^(hdf5|H5.*)\.h$"): "core/exchange/hdf5",
}
# What kind of hardware a device is asks hardware_of (deploy/devices/hardware.h), not the catalogue's word.
HARDWARE_BY_WORD = re.compile(r'[!=]=\s*"(?:fpga|gpu|cpu)"|"(?:fpga|gpu|cpu)"(?:sv?)?\s*[!=]=')
# Plans, hardware and simulations follow from what is asked alone, so nothing there reads the environment.
ENVIRONMENT = re.compile(r"\b(?:secure_)?getenv\b")
FREE_OF_ENVIRONMENT = ("core/graph/", "core/plan/", "core/device/", "partitioner/", "fpga/common/", "fpga/conv_ce/", "fpga/cost/", "fpga/sbe/",
                       "fpga/pe_chain/", "node/simulate/")
# What gpu/rnn may include from outside: standard headers have no dot and no slash; CUDA's start with cu or are cooperative groups
# or the run-time compiler; and the operating system's own (maps, locks, loading libraries).
FREE_OF_LIBRARIES = re.compile(
    r"^([a-z0-9_]+|cu[a-z_0-9/]*(\.h|\.cuh|\.hpp)?|(library_types|nvrtc)\.h|cooperative_groups(/.*|\.h)?|mma\.h|(dlfcn|fcntl|ucontext|unistd|sys/file|sys/mman)\.h)$"
)

TOP_LEVEL = EVERYTHING | {"CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE"}
UNTRACKED_TOP_LEVEL = {"build", "runs"}

SOURCE_SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
HEADER_SUFFIXES = {".h", ".cuh"}
# Less tells a test that hangs from a machine that is busy elsewhere no more.
SHORTEST_TIMEOUT = 300
TIMEOUT = re.compile(r"TIMEOUT +(\d+)")
# Tests that results and campaigns name, a suite and a test (or the beginning of one and a star), and where tests are written.
NAMED_TEST = re.compile(r'(?<![\w./])([A-Z]\w*[a-z]\w*)\.([A-Z]\w*[a-z]\w*)(\*?)(?![\w.(/])')
WRITTEN_TEST = re.compile(r"^(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def sources(root):
    for top in sorted(EVERYTHING):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SOURCE_SUFFIXES and path.is_file():
                yield path


def includes_of(path):
    """(line number, quoted?, name) of every include."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            found.append((number, match.group(1) == '"', match.group(2)))
    return found


def top_of(relative):
    return relative.split("/", 1)[0]


def module_of(relative):
    """core/graph/zoo.h -> core/graph"""
    return "/".join(relative.split("/")[:2])


def floor_of(module):
    top, _, name = module.partition("/")
    for floor, folders in enumerate(FLOORS[top]):
        if name in folders:
            return floor
    return None


def folder_violation(source, target):
    """Why `source` may not include `target` (both relative to the root), or None."""
    from_top, to_top = top_of(source), top_of(target)
    from_module, to_module = module_of(source), module_of(target)
    if from_module == to_module:
        return None
    if from_module in NARROWER:
        if to_module in NARROWER[from_module]:
            return None
        return f"{from_module} includes {to_module}; it may include {', '.join(sorted(NARROWER[from_module])) or 'nothing of ours'}"
    if from_top != to_top:
        if to_top in MAY_INCLUDE[from_top]:
            return None
        return f"{from_top} includes {to_top}; it may include {', '.join(sorted(MAY_INCLUDE[from_top])) or 'nothing of ours'}"
    if from_top in FLOORS:
        from_floor, to_floor = floor_of(from_module), floor_of(to_module)
        if from_floor is None or to_floor is None:
            unknown = from_module if from_floor is None else to_module
            return f"{unknown} has no floor; add it to FLOORS in tests/architecture/rules.py"
        if to_floor >= from_floor:
            return f"{from_module} includes {to_module}, which is not on a lower floor"
    return None


def cycle_in(graph):
    """Some cycle of the graph as a list of names, first one repeated at the end; None when there is none."""
    state = {}
    for start in sorted(graph):
        path = []
        stack = [(start, False)]
        while stack:
            node, done = stack.pop()
            if done:
                path.pop()
                state[node] = "closed"
            elif state.get(node) == "open":
                return path[path.index(node):] + [node]
            elif node not in state:
                state[node] = "open"
                path.append(node)
                stack.append((node, True))
                stack.extend((following, False) for following in sorted(graph.get(node, ())))
    return None


def folder_cycle_in(graph):
    """As cycle_in, of the folders that production sources lie in."""
    folder_of = lambda name: name.rsplit("/", 1)[0]
    folders = {}
    for name, below in graph.items():
        if top_of(name) != "tests":
            folders.setdefault(folder_of(name), set()).update(folder_of(other) for other in below)
    for folder, below in folders.items():
        below.discard(folder)
        below -= {back for start, back in WAYS_BACK if start == folder}
    return cycle_in(folders)


def check_heavy(root, heavy, graph):
    """Headers that bring a heavy library, themselves or through another, are internal to their folder."""
    headers = {name for name in graph if Path(name).suffix in HEADER_SUFFIXES}
    while True:
        drawn_in = {
            name: f"{name}: includes {below}, which brings a heavy library"
            for name in headers - heavy.keys()
            for below in sorted(graph[name])
            if below in heavy
        }
        if not drawn_in:
            break
        heavy = {**heavy, **drawn_in}
    violations = []
    for name, why in sorted(heavy.items()):
        module = module_of(name)
        if f"nternal to {module}" not in opening_of(root, name):
            violations.append(f'{why}; keep that library in .cpp files, or say "Internal to {module}" where the header opens')
        for user in sorted(graph):
            if name in graph[user] and module_of(user) != module and user not in heavy and top_of(user) != "tests":
                violations.append(f"{user}: includes {name}, which is internal to {module}")
    return violations


def opening_of(root, name):
    """A header's opening comment, in one line."""
    return " ".join((root / name).read_text(encoding="utf-8").split("#pragma once")[0].replace("//", " ").split())


def check_internal(root, graph):
    """What is installed is for users: a header that its own folder alone includes says "Internal to <its folder>", and stays behind."""
    production = {name: below for name, below in graph.items() if top_of(name) not in {"tests", "deploy"}}
    headers = {path.relative_to(root).as_posix() for path in sources(root) if path.suffix == ".h"}
    headers = {name for name in headers if top_of(name) not in {"tests", "deploy"}}
    internal = {name for name in headers if "nternal to " in opening_of(root, name)}
    folder_of = lambda name: (root / name).parent
    is_library = lambda folder: (folder / "CMakeLists.txt").exists() and "millrace_library(" in (folder / "CMakeLists.txt").read_text(encoding="utf-8")
    libraries = {folder for folder in {folder_of(name) for name in headers} if is_library(folder)}
    installed = {name for name in headers - internal if folder_of(name) in libraries}
    violations = []
    public = set()
    for name, below in graph.items():
        if top_of(name) == "tests":
            continue
        for other in sorted(below & headers):
            apart = module_of(other) != module_of(name)
            # A program uses the libraries beside it.
            if apart or (folder_of(name) != folder_of(other) and folder_of(name) not in libraries):
                public.add(other)
            if other in internal and (apart or name in installed):
                violations.append(f"{name}: includes {other}, which says that it is internal to {module_of(other)} and is not installed")
    reached = list(public)
    while reached:
        new = (production.get(reached.pop(), set()) & headers) - public
        public |= new
        reached.extend(new)
    for name in sorted(installed - public):
        violations.append(f'{name}: no other folder includes it; its opening says "Internal to {module_of(name)}", or it is installed for users')
    return violations


def check_file(root, path, graph, heavy):
    relative = path.relative_to(root).as_posix()
    header = path.suffix in HEADER_SUFFIXES
    violations = []
    for line, quoted, name in includes_of(path):
        ours = top_of(name) in EVERYTHING and "/" in name
        if quoted and not ours and not name.endswith(".pb.h"):
            violations.append(f'{relative}:{line}: "{name}" is not written from the repository root; our includes start with a top-level folder')
        if ours and (quoted or (root / name).exists()):
            if not (root / name).exists() and not (root / (name + ".in")).exists():
                violations.append(f"{relative}:{line}: includes {name}, which does not exist")
            graph.setdefault(relative, set()).add(name)
            why = folder_violation(relative, name)
            if why:
                violations.append(f"{relative}:{line}: {why}")
        if header and HEAVY.match(name) and top_of(relative) != "tests":
            heavy[relative] = f"{relative}:{line}: includes {name}"
        if top_of(relative) == "core" and FOREIGN_TO_CORE.match(name):
            violations.append(f"{relative}:{line}: core includes {name}; MPI, CUDA and XRT belong above it")
        for header_name, only in CONFINED.items():
            told = top_of(relative) == "core" and FOREIGN_TO_CORE.match(name)
            if header_name.match(name) and not relative.startswith(only + "/") and top_of(relative) != "tests" and not told:
                violations.append(f"{relative}:{line}: includes {name}; only {only} does")
        if module_of(relative) == "gpu/rnn" and not ours and not FREE_OF_LIBRARIES.match(name):
            violations.append(f"{relative}:{line}: gpu/rnn includes {name}; it builds with the standard library and CUDA alone")
    text = path.read_text(encoding="utf-8")
    if top_of(relative) != "tests" and module_of(relative) != "gpu/rnn":
        for number, words in enumerate(text.split("\n"), 1):
            if HARDWARE_BY_WORD.search(words):
                violations.append(f"{relative}:{number}: compares the name of a kind of hardware; ask hardware_of (deploy/devices/hardware.h)")
            if relative.startswith(FREE_OF_ENVIRONMENT) and ENVIRONMENT.search(words):
                violations.append(f"{relative}:{number}: reads the environment; what is planned follows from what is asked alone")
    if header:
        if not text.startswith("//"):
            violations.append(f"{relative}:1: a header opens with a comment: what it is for, an example, ownership, limits")
        if not re.search(r"^#pragma once$", text, re.MULTILINE):
            violations.append(f"{relative}:1: no #pragma once")
    return violations


NAMESPACE = re.compile(r"^(?:inline )?namespace ?([\w:]*) ?\{")
NAMESPACE_END = re.compile(r"^\}  // namespace")
TYPE = re.compile(r"^(?:struct|class|union|enum(?: class)?) (\w+)(?: final)?(?: : [^;]*)? \{")


def types_of(path):
    """The types that a source defines at namespace scope, as (namespace, name); what is hidden in one file is left out."""
    within = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if opened := NAMESPACE.match(line):
            if "}" not in line:
                within.append(opened[1])
        elif NAMESPACE_END.match(line) and within:
            within.pop()
        elif "" not in within and (found := TYPE.match(line)):
            yield "::".join(within), found[1]


def check_type_names(root):
    """One name, one type: two definitions of one class in one program need not be noticed by a compiler or linker."""
    defined = {}
    violations = []
    for path in sources(root):
        relative = path.relative_to(root).as_posix()
        if top_of(relative) == "tests":
            continue
        for name in dict.fromkeys(types_of(path)):
            first = defined.setdefault(name, relative)
            if first != relative:
                violations.append(f"{relative}: defines {'::'.join(filter(None, name))}, which {first} defines too")
    return violations


def check_named_tests(root):
    """What a result or a campaign says that a test has shown can be looked up only while the test has that name."""
    written = {test for path in sources(root) if top_of(path.relative_to(root).as_posix()) == "tests" for test in WRITTEN_TEST.findall(path.read_text())}
    violations = []
    for path in sorted((root / "tests").rglob("*.json")) + sorted((root / "tests").rglob("mutations.py")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for suite, test, star in NAMED_TEST.findall(line):
                if (suite, test) not in written and not (star and any(s == suite and t.startswith(test) for s, t in written)):
                    violations.append(f"{path.relative_to(root).as_posix()}:{number}: names the test {suite}.{test}{star}, which is not there")
    return violations


def check_timeouts(root):
    return [
        f"{path.relative_to(root).as_posix()}:{number}: a test that a machine which stands still for some minutes fails: TIMEOUT {seconds}"
        for path in sorted((root / "tests").rglob("CMakeLists.txt"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for seconds in TIMEOUT.findall(line)
        if int(seconds) < SHORTEST_TIMEOUT
    ]


def check_top_level(root):
    return [
        f"{entry.name}: not allowed at the top level; it holds {', '.join(sorted(TOP_LEVEL))} and dotfiles"
        for entry in sorted(root.iterdir())
        if entry.name not in TOP_LEVEL | UNTRACKED_TOP_LEVEL and not entry.name.startswith(".")
    ]


def check(root):
    root = Path(root)
    violations = check_top_level(root)
    graph = {}
    heavy = {}
    for path in sources(root):
        violations += check_file(root, path, graph, heavy)
    violations += check_heavy(root, heavy, graph)
    violations += check_type_names(root) + check_named_tests(root) + check_timeouts(root)
    violations = violations or check_internal(root, graph)
    cycle = cycle_in(graph)
    if cycle:
        violations.append("the includes form a cycle: " + " -> ".join(cycle))
    # A broken rule is a circle more often than not, and says more about it.
    folders = None if violations else folder_cycle_in(graph)
    if folders:
        violations.append("folders include each other in a circle: " + " -> ".join(folders))
    return violations
