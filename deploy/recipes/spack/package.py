# A Spack package of Millrace for processors. UNTRIED: no Spack was at hand when it was written.
#
#   put it as packages/millrace/package.py into a repository of your own (spack repo create), give it a git = "...", spack install millrace
from spack.package import *


class Millrace(CMakePackage):
    """Trains CNNs and RNNs as one deep pipeline over a ring of FPGAs and GPUs, plans that pipeline offline, and simulates it."""

    license("Apache-2.0")
    version("main", branch="main")

    variant("tests", default=False, description="build the tests")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("mpi@3.1:")
    depends_on("protobuf")
    depends_on("fmt@9:")
    depends_on("spdlog")
    depends_on("cli11")
    depends_on("nlohmann-json")
    depends_on("onednn@2.6:2")
    depends_on("xxhash")
    depends_on("zlib-api")
    depends_on("opencl-icd-loader", type="build")
    depends_on("googletest", when="+tests")

    generator("ninja")

    def cmake_args(self):
        return [self.define_from_variant("MILLRACE_TESTS", "tests"), self.define("MILLRACE_BENCHMARKS", False),
                self.define("MILLRACE_WITH_CUDA", False)]
