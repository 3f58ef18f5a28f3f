// What a build without a format's library says.
#include <gmock/gmock.h>

#include "core/base/error.h"
#include "core/exchange/onnx_import.h"

namespace millrace {
namespace {

TEST(Exchange, SaysWhatToInstallOrWhatIsWrong) {
  try {
    import_onnx(std::span<const std::byte>{}, "empty.onnx");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                ::testing::AnyOf(::testing::HasSubstr("no ONNX file, or a damaged one"), ::testing::HasSubstr("install libonnx-dev")));
  }
}

}  // namespace
}  // namespace millrace
