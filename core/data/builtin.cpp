#include "core/data/builtin.h"

#include <fmt/format.h>

#include <cstdlib>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/data/idx.h"

namespace millrace {
namespace {

void tell_apart(DataSplit& data, const std::vector<std::string>& class_names, const std::string& source, const std::string& licence) {
  for (Dataset* part : {&data.train, &data.test}) {
    part->class_names = class_names;
    part->source = source;
    part->licence = licence;
  }
}

}  // namespace

std::filesystem::path shipped_data(const std::filesystem::path& name) {
  if (const char* chosen = std::getenv("MILLRACE_DATA_DIR"); chosen != nullptr && *chosen != '\0') {
    std::filesystem::path folder = std::filesystem::path(chosen) / name;
    if (std::filesystem::is_directory(folder)) return folder;
    fail(ErrorCode::kNotFound, "MILLRACE_DATA_DIR is \"{}\", which has no folder \"{}\"; correct or unset it", chosen, name.string());
  }
  std::error_code unreadable;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  std::filesystem::path installed = program.parent_path().parent_path() / MILLRACE_INSTALLED_DATA_DIR / name;
  if (!unreadable && std::filesystem::is_directory(installed)) return installed;
  std::filesystem::path source = std::filesystem::path(MILLRACE_DATA_SOURCE_DIR) / name;
  if (std::filesystem::is_directory(source)) return source;
  fail(ErrorCode::kNotFound, "the data \"{}\" is neither in {} nor in {}; set MILLRACE_DATA_DIR to the folder that holds it", name.string(),
       installed.string(), source.string());
}

DataSplit load_digits() {
  DataSplit data = load_idx(shipped_data("digits"), 10);
  tell_apart(data, {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"},
             "E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998", "CC BY 4.0");
  return data;
}

DataSplit load_fashion_mnist(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder))
    fail(ErrorCode::kNotFound,
         "Fashion-MNIST is not in {}; install the Debian package dataset-fashion-mnist (apt-get install dataset-fashion-mnist), or give "
         "a folder of your own as idx:FOLDER",
         folder.string());
  DataSplit data = load_idx(folder, 10);
  tell_apart(data, {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"},
             "H. Xiao, K. Rasul and R. Vollgraf, Fashion-MNIST, Zalando Research, 2017", "MIT");
  return data;
}

}  // namespace millrace
