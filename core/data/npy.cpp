#include "core/data/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/data/zip_file.h"

namespace millrace {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are copied as they are");

constexpr size_t kMostDimensions = 8;
constexpr size_t kLongestHeader = 1 << 16;
constexpr uint64_t kMostArrayBytes = uint64_t{64} << 30;

std::string_view name_of_kind(char kind) {
  switch (kind) {
    case 'f': return "float";
    case 'i': return "int";
    case 'u': return "uint";
    default: return "bool";
  }
}

// The header is a Python dictionary of three entries: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::string_view origin) : text_(text), origin_(origin) {}

  void read(NpyArray& array) {
    bool described = false, ordered = false, shaped = false;
    expect('{');
    while (!took('}')) {
      const std::string_view name = quoted();
      expect(':');
      if (name == "descr" && !described) {
        read_type(array);
        described = true;
      } else if (name == "fortran_order" && !ordered) {
        if (took_word("True")) fail(ErrorCode::kMalformed, "{}: in Fortran's order; save numpy.ascontiguousarray(x)", origin_);
        if (!took_word("False")) damaged("an order");
        ordered = true;
      } else if (name == "shape" && !shaped) {
        read_shape(array);
        shaped = true;
      } else {
        damaged("descr, fortran_order and shape, each once");
      }
      if (!took(',') && !peek('}')) damaged("a comma");
    }
    skip();
    if (at_ != text_.size() || !described || !ordered || !shaped) damaged("descr, fortran_order and shape, and nothing else");
  }

 private:
  [[noreturn]] void damaged(std::string_view expected) const {
    fail(ErrorCode::kMalformed, "{}: character {} of its header is not {}; the file is damaged", origin_, at_, expected);
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool peek(char c) {
    skip();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool took(char c) {
    const bool there = peek(c);
    at_ += there ? 1 : 0;
    return there;
  }
  bool took_word(std::string_view word) {
    skip();
    const bool there = text_.substr(at_).starts_with(word);
    at_ += there ? word.size() : 0;
    return there;
  }
  void expect(char c) {
    if (!took(c)) damaged(std::string_view(&c, 1));
  }
  std::string_view quoted() {
    const char quote = peek('"') ? '"' : '\'';
    if (!took(quote)) damaged("a quoted word");
    const size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) damaged("a closed quote");
    const std::string_view word = text_.substr(at_, end - at_);
    at_ = end + 1;
    return word;
  }
  void read_type(NpyArray& array) {
    if (peek('[')) fail(ErrorCode::kMalformed, "{}: an array of records, only plain numbers are read", origin_);
    const std::string_view type = quoted();
    const auto refuse = [&](std::string_view why) {
      fail(ErrorCode::kMalformed, "{}: elements of type \"{}\"{}; numbers of 1 to 8 bytes, little-endian, are read", origin_, type, why);
    };
    if (type.size() != 3) refuse("");
    if (type[0] == '>' && type[2] != '1') refuse(", which is big-endian: save x.astype(x.dtype.newbyteorder('<'))");
    array.kind = type[1];
    array.width = type[2] - '0';
    const bool whole = array.kind == 'i' || array.kind == 'u';
    const bool known = (whole && (array.width == 1 || array.width == 2 || array.width == 4 || array.width == 8)) ||
                       (array.kind == 'f' && (array.width == 2 || array.width == 4 || array.width == 8)) ||
                       (array.kind == 'b' && array.width == 1);
    if (!known) refuse("");
  }
  void read_shape(NpyArray& array) {
    expect('(');
    while (!took(')')) {
      skip();
      int64_t value = 0;
      const auto [end, reason] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
      if (reason != std::errc{} || value < 0) damaged("an extent");
      at_ = to_size(end - text_.data());
      array.dimensions.push_back(value);
      if (array.dimensions.size() > kMostDimensions) fail(ErrorCode::kMalformed, "{}: more than {} dimensions", origin_, kMostDimensions);
      if (!took(',') && !peek(')')) damaged("a comma");
    }
  }

  std::string_view text_, origin_;
  size_t at_ = 0;
};

float half(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const auto fraction = static_cast<float>(bits & 1023);
  const float size = exponent == 31  ? (fraction == 0 ? INFINITY : NAN)
                     : exponent == 0 ? std::ldexp(fraction, -24)
                                     : std::ldexp(fraction + 1024, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

template <typename Stored>
Stored at(const NpyArray& array, size_t index) {
  Stored value;
  std::memcpy(&value, array.bytes.data() + index * sizeof(Stored), sizeof(Stored));
  return value;
}

// One element as a number of the wanted type.
template <typename Value>
Value element(const NpyArray& array, size_t i) {
  if (array.kind == 'f') {
    if (array.width == 2) return static_cast<Value>(half(at<uint16_t>(array, i)));
    return array.width == 4 ? static_cast<Value>(at<float>(array, i)) : static_cast<Value>(at<double>(array, i));
  }
  const bool is_signed = array.kind == 'i';
  switch (array.width) {
    case 1: return is_signed ? static_cast<Value>(at<int8_t>(array, i)) : static_cast<Value>(at<uint8_t>(array, i));
    case 2: return is_signed ? static_cast<Value>(at<int16_t>(array, i)) : static_cast<Value>(at<uint16_t>(array, i));
    case 4: return is_signed ? static_cast<Value>(at<int32_t>(array, i)) : static_cast<Value>(at<uint32_t>(array, i));
    default: return is_signed ? static_cast<Value>(at<int64_t>(array, i)) : static_cast<Value>(at<uint64_t>(array, i));
  }
}

}  // namespace

int64_t NpyArray::elements() const {
  int64_t product = 1;
  for (const int64_t dimension : dimensions) product *= dimension;
  return product;
}

std::string text_of(const NpyArray& array) {
  return fmt::format("{}{} [{}]", name_of_kind(array.kind), 8 * array.width, fmt::join(array.dimensions, ", "));
}

NpyArray parse_npy(std::span<const std::byte> bytes, std::string_view origin) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic) || bytes.size() < 12) fail(ErrorCode::kMalformed, "{}: no .npy file; numpy.save writes them", origin);
  const auto byte_at = [&](size_t i) { return std::to_integer<size_t>(bytes[i]); };
  const size_t version = byte_at(6), length_bytes = version == 1 ? 2 : 4;
  if (version < 1 || version > 3) fail(ErrorCode::kMalformed, "{}: version {} of the format, 1 to 3 are read", origin, version);
  size_t length = 0;
  for (size_t i = length_bytes; i-- > 0;) length = length << 8 | byte_at(8 + i);
  const size_t begin = 8 + length_bytes;
  if (length > kLongestHeader || length > bytes.size() - begin)
    fail(ErrorCode::kMalformed, "{}: a header of {} bytes in a file of {}; it is damaged", origin, length, bytes.size());
  NpyArray array;
  HeaderReader(text.substr(begin, length), origin).read(array);
  const std::span<const std::byte> content = bytes.subspan(begin + length);
  uint64_t wanted = static_cast<uint64_t>(array.width);
  for (const int64_t dimension : array.dimensions)
    if (__builtin_mul_overflow(wanted, static_cast<uint64_t>(dimension), &wanted) || wanted > kMostArrayBytes)
      fail(ErrorCode::kMalformed, "{}: {} takes more than {} bytes", origin, text_of(array), kMostArrayBytes);
  if (content.size() != wanted)
    fail(ErrorCode::kMalformed, "{}: {} takes {} bytes, the file has {}; it is {}", origin, text_of(array), wanted, content.size(),
         content.size() < wanted ? "cut short" : "longer than it says");
  array.bytes.assign(content.begin(), content.end());
  return array;
}

std::vector<float> floats_of(const NpyArray& array, std::string_view origin) {
  std::vector<float> values(to_size(array.elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = element<float>(array, i);
    if (!std::isfinite(values[i])) fail(ErrorCode::kNumeric, "{}: element {} is {}, numbers are expected", origin, i, values[i]);
  }
  return values;
}

std::vector<int64_t> wholes_of(const NpyArray& array, std::string_view origin) {
  if (!array.is_whole()) fail(ErrorCode::kMalformed, "{}: {}, whole numbers are expected", origin, text_of(array));
  std::vector<int64_t> values(to_size(array.elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = element<int64_t>(array, i);
    if (array.kind == 'u' && values[i] < 0)
      fail(ErrorCode::kMalformed, "{}: element {} is {}, numbers below 2^63 are expected", origin, i, at<uint64_t>(array, i));
  }
  return values;
}

NpzFile parse_npz(std::span<const std::byte> bytes, std::string_view origin, const std::vector<std::string>& wanted) {
  const ZipFile zip(bytes, origin);
  NpzFile arrays;
  for (const ZipEntry& entry : zip.entries()) {
    const std::string name = entry.name.ends_with(".npy") ? entry.name.substr(0, entry.name.size() - 4) : entry.name;
    if (!wanted.empty() && std::ranges::find(wanted, name) == wanted.end()) continue;
    arrays.emplace(name, parse_npy(zip.read(entry.name), fmt::format("{}: {}", origin, entry.name)));
  }
  return arrays;
}

}  // namespace millrace
