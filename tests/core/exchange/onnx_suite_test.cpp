// The ONNX project's own test models (Debian's libonnx-testdata): what Millrace computes is right, what it does not is refused by name.
#ifdef MILLRACE_HAS_ONNX
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/exchange/onnx_graph.h"
#include "core/exchange/onnx_import.h"
#include "tests/core/exchange/run_onnx.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using testing::expect_close;
using testing::run_imported;

const fs::path kSuite = "/usr/share/libonnx-testdata/data";

template <typename Message>
Message parsed(const fs::path& path) {
  Message message;
  const std::vector<std::byte> bytes = read_bytes(path);
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) throw std::runtime_error(path.string());
  return message;
}

std::vector<double> values_of(const OnnxConstant& constant) {
  return constant.whole ? std::vector<double>(constant.wholes.begin(), constant.wholes.end())
                        : std::vector<double>(constant.floats.begin(), constant.floats.end());
}

// Nothing where the network is refused with kUsage; `why` says why.
enum class Outcome { kRight, kRefused, kSkipped };

Outcome try_case(const fs::path& folder, std::string& why) {
  auto model = parsed<onnx::ModelProto>(folder / "model.onnx");
  const fs::path set = folder / "test_data_set_0";
  OnnxConstant x, y;
  try {
    // Weights are inputs in this suite: all but the first become constants.
    auto* const graph = model.mutable_graph();
    for (int i = 1; i < graph->input_size() && fs::exists(set / ("input_" + std::to_string(i) + ".pb")); ++i) {
      auto tensor = parsed<onnx::TensorProto>(set / ("input_" + std::to_string(i) + ".pb"));
      tensor.set_name(graph->input(i).name());
      *graph->add_initializer() = tensor;
    }
    if (!fs::exists(set / "input_0.pb")) return Outcome::kSkipped;
    // An input called as a weight is one of the file's own.
    x = read_onnx_tensor(parsed<onnx::TensorProto>(set / "input_0.pb"), "input", {});
    y = read_onnx_tensor(parsed<onnx::TensorProto>(set / "output_0.pb"), "output", {});
  } catch (const Error& error) {  // elements that are no numbers
    why = error.what();
    return Outcome::kSkipped;
  } catch (const std::runtime_error&) {  // not a tensor
    return Outcome::kSkipped;
  }
  const std::string bytes = model.SerializeAsString();
  Imported imported;
  try {
    imported = import_onnx(std::as_bytes(std::span(bytes)), "model.onnx");
  } catch (const Error& error) {
    why = error.what();
    EXPECT_TRUE(error.code() == ErrorCode::kUsage || error.code() == ErrorCode::kMismatch || error.code() == ErrorCode::kNumeric)
        << folder << ": " << why;
    return Outcome::kRefused;
  }
  std::vector<double> found = run_imported(imported, values_of(x), x.dimensions);
  for (const std::string& note : imported.notes)
    if (note.find("oftmax") != std::string::npos)
      found = testing::softmax_along_channels(imported, found, y.dimensions, note.find("LogSoftmax") != std::string::npos);
  SCOPED_TRACE(folder.filename().string());
  expect_close(found, values_of(y));
  return Outcome::kRight;
}

struct Tally {
  int right = 0, refused = 0, skipped = 0;
  std::set<std::string> names;
};

Tally try_all(const fs::path& folder) {
  Tally tally;
  std::vector<fs::path> cases;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (fs::exists(entry.path() / "model.onnx")) cases.push_back(entry.path());
  std::ranges::sort(cases);
  for (const fs::path& one : cases) {
    std::string why;
    const Outcome outcome = try_case(one, why);
    (outcome == Outcome::kRight ? tally.right : outcome == Outcome::kRefused ? tally.refused : tally.skipped) += 1;
    if (outcome == Outcome::kRight) tally.names.insert(one.filename().string());
    if (std::getenv("MILLRACE_TELL_ONNX") != nullptr)
      std::printf("%s %s %s\n", one.filename().c_str(),
                  outcome == Outcome::kRight     ? "right"
                  : outcome == Outcome::kRefused ? "refused"
                                                 : "skipped",
                  why.c_str());
  }
  return tally;
}

TEST(OnnxSuite, NodeModelsAreRightOrRefused) {
  if (!fs::exists(kSuite / "node")) GTEST_SKIP() << "libonnx-testdata is not installed";
  const Tally tally = try_all(kSuite / "node");
  std::printf("%d right, %d refused, %d without numbers to compare\n", tally.right, tally.refused, tally.skipped);
  EXPECT_GE(tally.right, 78);
  for (const char* const name :
       {"test_lstm_defaults", "test_gru_seq_length", "test_rnn_seq_length", "test_basic_conv_with_padding", "test_lrn"})
    EXPECT_TRUE(tally.names.contains(name)) << name;
}

TEST(OnnxSuite, ModelsConvertedFromPyTorchAreRightOrRefused) {
  if (!fs::exists(kSuite / "pytorch-converted")) GTEST_SKIP() << "libonnx-testdata is not installed";
  const Tally tally = try_all(kSuite / "pytorch-converted");
  std::printf("%d right, %d refused, %d without numbers to compare\n", tally.right, tally.refused, tally.skipped);
  EXPECT_GE(tally.right, 38);
}

TEST(OnnxSuite, OperatorModelsAreRightOrRefused) {
  if (!fs::exists(kSuite / "pytorch-operator")) GTEST_SKIP() << "libonnx-testdata is not installed";
  const Tally tally = try_all(kSuite / "pytorch-operator");
  std::printf("%d right, %d refused, %d without numbers to compare\n", tally.right, tally.refused, tally.skipped);
}

}  // namespace
}  // namespace millrace
#endif
