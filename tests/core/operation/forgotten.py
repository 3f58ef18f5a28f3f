"""Whatever decides by operation, activation or alignment does not compile until a new one has its place there.

    forgotten.py SOURCE_DIR GENERATED_DIR COMPILER

Each case plants something into a copy of one header, lets the compiler read sources that know it, and looks for its complaints. A source
that gets none has a silent default: the test fails and names it. The sources of a case are read together, for they share their headers,
which take the compiler longest; where that hides a complaint (of two sources that instantiate one template, the first alone gets it), those
without one are read again, each alone.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE, GENERATED, COMPILER = Path(sys.argv[1]), sys.argv[2], sys.argv[3]

STATED = """
struct Forgotten {{
  bool operator==(const Forgotten&) const = default;
  static constexpr Role kRole = Role::{role};
  static constexpr bool kDivides = false;
  static std::vector<Forgotten> kinds() {{ return {{{{}}}}; }}
  Traits traits() const {{ return Add{{}}.traits(); }}
  Shape output_shape(const ShapeRules& rules) const {{ return rules.only_input(); }}
  std::vector<ParameterSpec> parameters(std::span<const Shape>) const {{ return {{}}; }}
  int64_t weight_uses(const Shape&) const {{ return 0; }}
  int64_t sum_channels(const Shape& output) const {{ return output.channels; }}
  static void fields(auto&) {{}}
}};
"""
OPERATION = "core/operation/operation.h"
LIST = "template <typename... T>\nstd::variant<T...> one_of("


def operation(body):
    """The header of all operations, with one more."""
    return lambda text: text.replace("one_of(Convolutions() + ", "one_of(Convolutions() + Operations<Forgotten>() + ").replace(LIST, body + LIST)


def enumerator(after):
    return lambda text: text.replace(after, after + ", kForgotten", 1)


# What is planted, into which header, how; the sources that must complain, by the end of their path; and what of.
CASES = [
    ("an operation that states nothing", OPERATION, operation("struct Forgotten {};\n"), ["operation/operation.cpp"], "IsOperation"),
    ("an operation that computes without weights", OPERATION,
     operation(STATED.format(role="kConvolution").replace("weight_uses", "other")), ["operation/operation.cpp"], "what its weights do"),
    ("an operation without blocks that divides", OPERATION,
     operation(STATED.format(role="kConvolution").replace("kDivides = false", "kDivides = true")), ["operation/operation.cpp"], "what its blocks are"),
    ("an operation without kernels or hardware", OPERATION, operation(STATED.format(role="kNormalisation")),
     ["reference_device.cpp", "cpu_device.cpp", "gpu_device.cpp", "special_function.cpp"], "Forgotten"),
    ("an operation that computes, without geometry", OPERATION, operation(STATED.format(role="kConvolution")), ["convolution_geometry.cpp"],
     "Forgotten"),
    ("an operation that leaves a trait out", "core/operation/embedding.h",
     lambda text: text.replace("Traits traits() const;", "Traits traits() const { return {.name = \"embedding\", .rows = Rows::kOwn}; }"),
     ["operation/embedding.cpp"], "Traits"),
    ("an activation", "core/operation/activation.h", enumerator("enum class ActivationKind { kRelu"), ["operation/activation.cpp", "reference/activation.cpp"],
     "kForgotten"),
    ("an alignment", "core/documents/plan.h", enumerator("enum class Alignment { kFpdeep"),
     ["vocabulary.cpp", "schedule.cpp", "retention.cpp"], "kForgotten"),
]


def source_of(name):
    found = [path for top in ("core", "fpga", "gpu") for path in (SOURCE / top).glob(f"**/{name}")]
    assert len(found) == 1, f"{name}: {len(found)} files end so"
    return found[0]


def complaints(overlay, paths):
    """What the compiler says when it reads these together; nothing where it accepts them."""
    command = [COMPILER, "-std=c++20", "-fsyntax-only", "-Werror=switch", "-DFMT_SHARED", "-x", "c++",
               f"-I{overlay}", f"-I{SOURCE}", f"-I{GENERATED}", "-"]
    included = "".join(f'#include "{path}"\n' for path in paths)
    done = subprocess.run(command, input=included, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr


def of_source(said, path, word):
    """Whether one of these complaints, with the lines before it that say where, names the source and the planted word."""
    found, complete = [""], False
    for line in said.splitlines():
        if complete and re.match(r"In file included from |\S+: (?:In|At) |\S+:\d+:\d+: error:", line):
            found.append("")
            complete = False
        found[-1] += line + "\n"
        complete = complete or ": error:" in line
    return any(str(path) in one and word in one for one in found)


def main():
    failures, found = [], 0
    for what, header, plant, names, word in CASES:
        original = (SOURCE / header).read_text(encoding="utf-8")
        planted = plant(original)
        assert planted != original, f"{what}: {header} is not what it was, nothing was planted"
        with tempfile.TemporaryDirectory() as overlay:
            copy = Path(overlay) / header
            copy.parent.mkdir(parents=True)
            copy.write_text(planted, encoding="utf-8")
            paths = [source_of(name) for name in names]
            together = complaints(overlay, paths) if len(paths) > 1 else ""
            for path in paths:
                if of_source(together, path, word):
                    found += 1
                    continue
                said = complaints(overlay, [path])
                if not said:
                    failures.append(f"{what}: {path.relative_to(SOURCE)} compiles all the same")
                elif word not in said:
                    failures.append(f"{what}: {path.relative_to(SOURCE)} does not compile, but not because of it:\n{said[:800]}")
                else:
                    found += 1
    print(f"{found} sources complain, {len(failures)} do not")
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
