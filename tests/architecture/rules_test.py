"""Plants one violation of each rule in a small tree and requires that exactly that one is reported."""

import tempfile
import unittest
from pathlib import Path

import rules

HEADER = "// What it is for.\n#pragma once\n"
SOUND = {
    "core/base/error.h": HEADER,
    "core/graph/graph.h": HEADER + '#include "core/base/error.h"\n',
    "core/graph/graph.cpp": '#include "core/graph/graph.h"\n#include <dnnl.hpp>\n#include <vector>\n',
    "gpu/rnn/model.h": HEADER + "#include <vector>\n#include <cuda_runtime.h>\n",
    "node/trainer.cpp": '#include "core/graph/graph.h"\n#include "transport/stream.h"\n',
    "transport/mpi/wire.cpp": "#include <mpi.h>\n",
    "tests/benchmarks/raw.cpp": "#include <mpi.h>\n",
    "transport/stream.h": HEADER + '#include "core/base/error.h"\n',
    "README.md": "",
}


class Rules(unittest.TestCase):
    def violations(self, changes):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**SOUND, **changes}.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return rules.check(Path(folder))

    def expect(self, changes, words):
        found = self.violations(changes)
        self.assertEqual(len(found), 1, found)
        self.assertIn(words, found[0])

    def test_a_sound_tree_has_no_violations(self):
        self.assertEqual(self.violations({}), [])

    def test_core_includes_nothing_above_it(self):
        self.expect({"core/base/x.cpp": '#include "transport/stream.h"\n'}, "core/base/x.cpp:1: core includes transport")

    def test_node_never_includes_the_partitioner(self):
        self.expect({"partitioner/cut.h": HEADER, "node/x.cpp": '\n#include "partitioner/cut.h"\n'}, "node/x.cpp:2: node includes partitioner")

    def test_floors_of_core_point_downwards(self):
        self.expect({"core/base/x.cpp": '#include "core/graph/graph.h"\n'}, "not on a lower floor")

    def test_folders_of_one_floor_do_not_see_each_other(self):
        self.expect({"core/cpu/a.h": HEADER, "core/reference/x.cpp": '#include "core/cpu/a.h"\n'}, "not on a lower floor")

    def test_a_new_folder_of_core_needs_a_floor(self):
        self.expect({"core/novel/x.cpp": '#include "core/base/error.h"\n'}, "core/novel has no floor")

    def test_data_sees_documents_and_graph_only(self):
        self.expect({"core/plan/plan.h": HEADER, "core/data/x.cpp": '#include "core/plan/plan.h"\n'}, "core/data includes core/plan")

    def test_a_type_is_defined_once(self):
        one = "// What it is for.\n#pragma once\nnamespace millrace {\nstruct Stage {\n};\n}  // namespace millrace\n"
        self.expect({"core/base/a.h": one, "node/b.h": one}, "node/b.h: defines millrace::Stage, which core/base/a.h defines too")
        hidden = one.replace("namespace millrace {\n", "namespace millrace {\nnamespace {\n", 1).replace("}  //", "}  // namespace\n}  //", 1)
        self.assertEqual(self.violations({"core/base/a.h": one, "node/b.cpp": hidden}), [])
        self.assertEqual(self.violations({"core/base/a.h": one, "node/b.h": one.replace("millrace {", "millrace::node {")}), [])

    def test_gpu_rnn_stands_alone(self):
        self.expect({"gpu/rnn/x.cpp": '#include "core/base/error.h"\n'}, "gpu/rnn includes core/base")
        self.expect({"gpu/rnn/x.cpp": "#include <fmt/core.h>\n"}, "gpu/rnn includes fmt/core.h")

    def test_heavy_libraries_stay_out_of_headers(self):
        for name in ("dnnl.hpp", "oneapi/dnnl/dnnl.hpp", "spdlog/spdlog.h", "nlohmann/json.hpp", "google/protobuf/message.h", "plan.pb.h"):
            self.expect({"core/graph/x.h": HEADER + f"#include <{name}>\n"}, "keep that library in .cpp files")

    def test_a_header_may_be_internal_to_its_folder(self):
        internal = "// Kernels.\n// Internal to\n// core/cpu.\n#pragma once\n"
        sound = {
            "core/cpu/onednn.h": internal + "#include <dnnl.hpp>\n",
            "core/cpu/conv.h": internal + '#include "core/cpu/onednn.h"\n',
            "core/cpu/conv.cpp": '#include "core/cpu/conv.h"\n',
        }
        self.assertEqual(self.violations(sound), [])
        self.expect({**sound, "core/cpu/device.h": HEADER + '#include "core/cpu/conv.h"\n'}, "core/cpu/device.h: includes core/cpu/conv.h, which brings")
        self.expect({**sound, "core/train/x.cpp": '#include "core/cpu/conv.h"\n'}, "core/train/x.cpp: includes core/cpu/conv.h, which is internal")

    def test_what_is_installed_is_for_users(self):
        library = {"core/graph/CMakeLists.txt": "millrace_library(graph)\n", "core/graph/parts.h": HEADER}
        internal = "// Parts.\n// Internal to core/graph.\n#pragma once\n"
        self.expect(library, 'core/graph/parts.h: no other folder includes it; its opening says "Internal to core/graph"')
        self.assertEqual(self.violations({**library, "core/graph/parts.h": internal, "core/graph/x.cpp": '#include "core/graph/parts.h"\n'}), [])
        self.assertEqual(self.violations({**library, "core/graph/graph.h": HEADER + '#include "core/graph/parts.h"\n'}), [])
        self.assertEqual(self.violations({**library, "core/graph/CMakeLists.txt": ""}), [])
        self.expect({**library, "core/graph/parts.h": internal, "core/graph/graph.h": HEADER + '#include "core/graph/parts.h"\n'},
                    "core/graph/graph.h: includes core/graph/parts.h, which says that it is internal to core/graph and is not installed")
        self.expect({**library, "core/graph/parts.h": internal, "deploy/devices/x.cpp": '#include "core/graph/parts.h"\n'},
                    "deploy/devices/x.cpp: includes core/graph/parts.h, which says")

    def test_core_knows_no_mpi_cuda_or_xrt(self):
        for name in ("mpi.h", "cuda_runtime.h", "cudnn.h", "nccl.h", "xrt/xrt_device.h"):
            self.expect({"core/graph/x.cpp": f"#include <{name}>\n"}, "belong above it")

    def test_mpi_nccl_and_hdf5_have_one_folder_each(self):
        self.expect({"node/x.cpp": "#include <mpi.h>\n"}, "node/x.cpp:1: includes mpi.h; only transport/mpi does")
        self.expect({"transport/nccl/x.cpp": "#include <mpi.h>\n"}, "only transport/mpi does")
        self.expect({"gpu/cnn/x.cpp": "#include <nccl.h>\n"}, "only transport/nccl does")
        self.expect({"core/exchange/x.cpp": "#include <hdf5.h>\n"}, "only core/exchange/hdf5 does")
        self.assertEqual(self.violations({"core/exchange/hdf5/x.cpp": "#include <hdf5.h>\n"}), [])

    def test_hardware_is_not_compared_by_name(self):
        for line in ('if (device.kind == "fpga") f();', 'return kind != "gpu";', 'bool b = "cpu" == name;'):
            self.expect({"deploy/session/x.cpp": f"int a;\n{line}\n"}, "deploy/session/x.cpp:2: compares the name of a kind of hardware")
        self.assertEqual(self.violations({"deploy/session/x.cpp": 'auto b = f("fpga", x == "gpux");\n', "tests/deploy/x.cpp": 'a == "gpu";\n'}), [])

    def test_plans_read_no_environment(self):
        line = 'static const int steps = getenv("STEPS") ? 1 : 400;'
        self.expect({"partitioner/hybrid/x.cpp": f"int a;\n{line}\n"}, "partitioner/hybrid/x.cpp:2: reads the environment")
        self.assertEqual(self.violations({"core/base/x.cpp": f"{line}\n", "tests/partitioner/x.cpp": f"{line}\n"}), [])

    def test_results_name_tests_that_exist(self):
        written = {"tests/core/x_test.cpp": "TEST(Sums, AreExact) {}\nTEST_P(Rings, Train) {}\n"}
        for names in ('"Sums.AreExact", "core.sums", "a.JSON"', '"Rings.Train (twice)"', '"test_x Sums.Are*"'):
            self.assertEqual(self.violations({**written, "tests/results/x.json": f'{{"by": [{names}]}}\n'}), [])
        self.expect({**written, "tests/results/x.json": '{\n"by": "Sums.WereExact"}\n'},
                    "tests/results/x.json:2: names the test Sums.WereExact, which is not there")
        self.expect({**written, "tests/core/mutations.py": '"Rings.Learn*"\n'}, "names the test Rings.Learn*")

    def test_no_test_has_little_time(self):
        self.expect({"tests/core/CMakeLists.txt": "x(PROPERTIES\n TIMEOUT 120 LABELS rtl)\n"}, "tests/core/CMakeLists.txt:2: a test that a machine")
        self.assertEqual(self.violations({"tests/core/CMakeLists.txt": "x(PROPERTIES TIMEOUT 300)\n"}), [])

    def test_cycles(self):
        found = self.violations({"core/graph/a.h": HEADER + '#include "core/graph/b.h"\n', "core/graph/b.h": HEADER + '#include "core/graph/a.h"\n'})
        self.assertEqual(found, ["the includes form a cycle: core/graph/a.h -> core/graph/b.h -> core/graph/a.h"])

    def test_folders_form_no_circle(self):
        apart = {
            "fpga/common/one/a.h": HEADER,
            "fpga/common/one/b.cpp": '#include "fpga/common/two/b.h"\n',
            "fpga/common/two/a.cpp": '#include "fpga/common/one/a.h"\n',
            "fpga/common/two/b.h": HEADER,
        }
        self.expect(apart, "folders include each other in a circle: fpga/common/one -> fpga/common/two -> fpga/common/one")

    def test_floors_of_the_other_folders_point_downwards(self):
        self.expect({"node/ring/a.h": HEADER, "node/report/x.cpp": '#include "node/ring/a.h"\n'}, "node/report includes node/ring")
        self.expect({"fpga/cosim/a.h": HEADER, "fpga/emulated/x.cpp": '#include "fpga/cosim/a.h"\n'}, "fpga/emulated includes fpga/cosim")
        self.expect({"deploy/command/a.h": HEADER, "deploy/devices/x.cpp": '#include "deploy/command/a.h"\n'}, "deploy/devices includes deploy/command")
        self.expect({"transport/mpi/a.h": HEADER, "transport/local/x.cpp": '#include "transport/mpi/a.h"\n'}, "not on a lower floor")
        self.expect({"partitioner/novel/x.cpp": '#include "core/base/error.h"\n', "partitioner/hybrid/y.cpp": '#include "partitioner/novel/z.h"\n',
                     "partitioner/novel/z.h": HEADER}, "partitioner/novel has no floor")

    def test_includes_start_at_the_root(self):
        self.expect({"core/graph/x.cpp": '#include "graph.h"\n'}, "not written from the repository root")

    def test_includes_exist(self):
        self.expect({"core/graph/x.cpp": '#include "core/graph/gone.h"\n'}, "does not exist")

    def test_top_level_entries(self):
        self.expect({"scripts/run.sh": ""}, "scripts: not allowed at the top level")

    def test_headers_open_with_a_comment_and_guard_themselves(self):
        self.expect({"core/graph/x.h": "#pragma once\n// late\n"}, "opens with a comment")
        self.expect({"core/graph/x.h": "// What.\n"}, "no #pragma once")


if __name__ == "__main__":
    unittest.main()
