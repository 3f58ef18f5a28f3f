// A parser with a mistake in it, so that a fuzz run which finds nothing means something: a count is believed without
// comparing it to what follows. The seed in corpus/ is well formed; the fuzz run has to get from there to the mistake.
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

// "values COUNT: BYTES"
void parse(std::string_view text) {
  constexpr std::string_view kOpening = "values ";
  if (!text.starts_with(kOpening)) return;
  text.remove_prefix(kOpening.size());
  const size_t colon = text.find(": ");
  if (colon == 0 || colon == std::string_view::npos) return;
  size_t count = 0;
  for (const char digit : text.substr(0, colon)) {
    if (digit < '0' || digit > '9') return;
    count = count * 10 + static_cast<size_t>(digit - '0');
  }
  text.remove_prefix(colon + 2);
  if (count > text.size()) std::abort();  // stands for the read past the end
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  parse({reinterpret_cast<const char*>(data), size});
  return 0;
}
