// `millrace doctor` on machines made of stand-ins: what it finds, what it misses, and the JSON that scripts read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/build_info.h"
#include "core/base/error.h"
#include "deploy/command/information/doctor_command.h"
#include "deploy/session/catalogue_registry.h"
#include "deploy/session/cost_models.h"
#include "deploy/session/machine_report.h"

namespace millrace {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A PATH of our own, with only the programs that a test puts there.
class Doctor : public ::testing::Test {
 protected:
  Doctor() {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("millrace_doctor_" + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    if (const char* path = std::getenv("PATH"); path != nullptr) path_ = path;
    setenv("PATH", folder_.c_str(), 1);
  }
  ~Doctor() override {
    setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }

  void add_program(const std::string& name, const std::string& body) {
    std::ofstream(folder_ / name) << "#!/bin/sh\n" << body << "\n";
    std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_all);
  }

  static Finding finding(const std::string& name) {
    for (const Finding& found : inspect_machine().findings)
      if (found.name == name) return found;
    ADD_FAILURE() << "the report does not mention " << name;
    return {};
  }

  static nlohmann::json report(bool measure = false) {
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(doctor({.json = true, .measure = measure}), 0);
    return nlohmann::json::parse(::testing::internal::GetCapturedStdout());
  }

  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(Doctor, FindsAProgramAndItsVersion) {
  EXPECT_FALSE(finding("mpirun").present);
  EXPECT_EQ(finding("mpirun").package, "openmpi-bin");
  add_program("mpirun", "[ \"$1\" = --version ] && echo 'mpirun (Open MPI) 9.8.7' && echo 'more lines'");
  EXPECT_TRUE(finding("mpirun").present);
  EXPECT_EQ(finding("mpirun").detail, "mpirun (Open MPI) 9.8.7");
}

TEST_F(Doctor, AProgramThatSaysNothingIsStillThere) {
  add_program("yosys", "exit 3");
  EXPECT_TRUE(finding("yosys").present);
  EXPECT_EQ(finding("yosys").detail, "");
}

TEST_F(Doctor, OnlyExecutableFilesArePrograms) {
  std::ofstream(folder_ / "tool") << "text";
  std::filesystem::create_directories(folder_ / "folder");
  EXPECT_EQ(program_on_path("tool"), "");
  EXPECT_EQ(program_on_path("folder"), "");
  add_program("tool", "true");
  EXPECT_EQ(program_on_path("tool"), (folder_ / "tool").string());
  setenv("PATH", ("/nonexistent::" + folder_.string()).c_str(), 1);
  EXPECT_EQ(program_on_path("tool"), (folder_ / "tool").string());
  unsetenv("PATH");
  EXPECT_EQ(program_on_path("tool"), "");
}

TEST_F(Doctor, TheMachineIsThisOne) {
  const MachineReport machine = inspect_machine();
  EXPECT_GE(machine.cores, 1);
  EXPECT_GT(machine.memory_bytes, int64_t{100} << 20);
  EXPECT_GT(machine.memory_bytes, machine.memory_available_bytes);
  EXPECT_GT(machine.memory_available_bytes, 0);
  EXPECT_THAT(machine.system, HasSubstr("Linux"));
  EXPECT_THAT(machine.onednn, ::testing::MatchesRegex("[0-9]+[.][0-9]+[.][0-9]+"));
  EXPECT_FALSE(machine.isa.empty());
}

TEST_F(Doctor, PackagesAreNamedOnceAndOnlyForWhatIsMissing) {
  MachineReport machine;
  machine.findings = {{"a", false, "", "", "one"},
                      {"b", true, "", "", "two"},
                      {"c", false, "", "", ""},
                      {"d", false, "", "", "three"},
                      {"e", false, "", "", "one"}};
  EXPECT_THAT(machine.packages_to_install(), ElementsAre("one", "three"));
}

TEST_F(Doctor, JsonHoldsWhatItsContractSays) {
  add_program("verilator", "echo 'Verilator 5.006'");
  const nlohmann::json report = this->report();
  EXPECT_EQ(report.at("version"), std::string(kVersion));
  EXPECT_GE(report.at("cores").get<int>(), 1);
  EXPECT_GT(report.at("memory_bytes").get<int64_t>(), report.at("memory_available_bytes").get<int64_t>());
  std::vector<std::string> names;
  for (const nlohmann::json& finding : report.at("findings")) {
    names.push_back(finding.at("name"));
    EXPECT_TRUE(finding.at("present").is_boolean());
    EXPECT_FALSE(finding.at("enables").get<std::string>().empty()) << names.back();
    EXPECT_TRUE(finding.contains("detail") && finding.contains("package")) << names.back();
  }
  EXPECT_THAT(names, ElementsAre("mpirun", "verilator", "yosys", "iverilog", "CUDA devices", "GPUs at work", "NCCL links", "XRT",
                                 "XRT emulation", "FPGA boards", "Fashion-MNIST"));
  EXPECT_EQ(report.at("findings")[1].at("detail"), "Verilator 5.006");
  EXPECT_THAT(report.at("install").get<std::vector<std::string>>(), Contains("openmpi-bin"));
  EXPECT_THAT(report.at("install").get<std::vector<std::string>>(), Not(Contains("verilator")));
  EXPECT_EQ(report.at("build").at("parts").size(), kBuildParts.size());
  for (const nlohmann::json& part : report.at("build").at("parts"))
    EXPECT_EQ(part.at("found").get<bool>(), !part.at("version").get<std::string>().empty()) << part;
}

TEST_F(Doctor, MeasuresWhenAsked) {
  EXPECT_FALSE(report().contains("measured"));
  const nlohmann::json measured = report(/*measure=*/true).at("measured");
  // Any machine that builds this does a hundred million multiply-adds and moves a hundred megabytes in a second.
  EXPECT_GT(measured.at("macs_per_second").get<double>(), 1e8);
  EXPECT_GT(measured.at("bytes_per_second").get<double>(), 1e8);
  EXPECT_EQ(measured.at("threads"), 1);
  EXPECT_GT(measured.at("convolution").at("forward").get<double>(), 0);
}

TEST_F(Doctor, WritesWhatItMeasuredAsACatalogue) {
  const std::string path = (folder_ / "here.textproto").string();
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(doctor({.measure = true, .catalogue_out = path}), 0);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("use it with --catalogue " + path));
  const std::vector<std::string> files = {path};
  const Catalogue catalogue = catalogue_with(files);
  const CatalogueDevice& cpu = catalogue.find("cpu");
  EXPECT_EQ(cpu.entry("macs_per_second")->origin, "measured");
  EXPECT_NE(cpu.value("macs_per_second"), shipped_catalogue().find("cpu").value("macs_per_second"));
  EXPECT_THAT(cpu.summary, HasSubstr(inspect_machine().processor));
  const Cluster cluster = cluster_from("cpux2", catalogue);
  const CostModels models = models_for(cluster, catalogue, {});
  EXPECT_THAT(models.of_devices[0]->constants()[1].origin, ::testing::StartsWith("measured on "));
}

TEST_F(Doctor, ACatalogueNeedsAMeasurement) {
  try {
    doctor({.catalogue_out = (folder_ / "here.textproto").string()});
    ADD_FAILURE() << "nothing failed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("--catalogue-out"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "here.textproto"));
}

TEST_F(Doctor, TheTableNamesWhatToInstall) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(doctor({}), 0);
  const std::string text = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(text, HasSubstr("instruction set"));
  EXPECT_THAT(text, ::testing::ContainsRegex("apt-get install openmpi-bin verilator yosys iverilog"));
}

TEST(BuildInfo, EveryRequiredPartWasFound) {
  for (const BuildPart& part : kBuildParts) {
    EXPECT_TRUE(part.need != PartNeed::kRequired || !part.version.empty()) << part.name;
    EXPECT_FALSE(part.purpose.empty() || part.package.empty()) << part.name;
  }
}

}  // namespace
}  // namespace millrace
