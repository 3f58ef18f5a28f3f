#include "fpga/common/generator/text_template.h"

#include "core/base/check.h"

namespace millrace {

std::string filled(std::string_view text, const TemplateValues& values) {
  std::string result;
  for (;;) {
    const size_t begin = text.find('$');
    result += text.substr(0, begin);
    if (begin == std::string_view::npos) return result;
    const size_t end = text.find('$', begin + 1);
    const std::string_view name = end == std::string_view::npos ? std::string_view() : text.substr(begin + 1, end - begin - 1);
    const bool is_name = !name.empty() && name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789") ==
                                              std::string_view::npos;
    if (!is_name) {  // $readmemh and its kind
      result += '$';
      text.remove_prefix(begin + 1);
      continue;
    }
    const auto value = values.find(name);
    MILLRACE_CHECK(value != values.end(), "no value for ${}$", name);
    result += value->second;
    text.remove_prefix(end + 1);
  }
}

}  // namespace millrace
