#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hdf5.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/exchange/hdf5_file.h"

namespace millrace {
namespace {

constexpr hsize_t kMostElements = hsize_t{1} << 31;
constexpr size_t kMostTexts = 1 << 20, kLongestText = size_t{256} << 20;
// Deflate's best; what a data set declares beyond that of what is stored is not there.
constexpr uint64_t kMostExpansion = 1032;

// Closes what it holds.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

// The library prints its errors, and looks for plug-ins, unless told not to.
void quiet_library() {
  static const bool once = [] {
    H5open();
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    H5PLset_loading_state(0);
    return true;
  }();
  (void)once;
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t more = lead < 0x80                   ? 0
                        : lead >= 0xc2 && lead < 0xe0 ? 1
                        : lead >= 0xe0 && lead < 0xf0 ? 2
                        : lead >= 0xf0 && lead < 0xf5 ? 3
                                                      : 9;
    if (more == 9 || i + more >= text.size()) return false;
    for (size_t k = 1; k <= more; ++k)
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    i += more + 1;
  }
  return true;
}

// Of a path, each beginning: /a, /a/b, /a/b/c.
std::vector<std::string> beginnings(const std::string& path) {
  std::vector<std::string> all;
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    all.push_back(path.substr(0, end));
    if (end == std::string::npos) return all;
  }
}

class LibraryFile final : public Hdf5File {
 public:
  LibraryFile(std::span<const std::byte> bytes, std::string_view origin);
  ~LibraryFile() override;

  bool has(const std::string& path) const override;
  std::vector<std::string> members(const std::string& group) const override;
  std::optional<std::string> text(const std::string& object, const std::string& attribute) const override;
  std::optional<std::vector<std::string>> texts(const std::string& object, const std::string& attribute) const override;
  Hdf5Array array(const std::string& path) const override;

 private:
  std::optional<std::vector<std::string>> texts_of_one(hid_t object, const std::string& attribute, const std::string& where) const;

  std::string origin_;
  hid_t file_ = -1;
};

LibraryFile::LibraryFile(std::span<const std::byte> bytes, std::string_view origin) : origin_(origin) {
  quiet_library();
  static constexpr unsigned char kMagic[] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  if (bytes.size() < sizeof(kMagic) || std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0)
    fail(ErrorCode::kMalformed, "{}: no HDF5 file", origin_);
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_fapl_core(access, 1 << 20, 0);
  // The library copies the image.
  if (H5Pset_file_image(access, const_cast<std::byte*>(bytes.data()), bytes.size()) >= 0)
    file_ = H5Fopen("in-memory", H5F_ACC_RDONLY, access);
  if (file_ < 0) fail(ErrorCode::kMalformed, "{}: an HDF5 file that was cut short or damaged", origin_);
}

LibraryFile::~LibraryFile() {
  if (file_ >= 0) H5Fclose(file_);
}

bool LibraryFile::has(const std::string& path) const {
  if (path == "/") return true;
  for (const std::string& part : beginnings(path)) {
    if (H5Lexists(file_, part.c_str(), H5P_DEFAULT) <= 0) return false;
    H5L_info_t link;
    if (H5Lget_info(file_, part.c_str(), &link, H5P_DEFAULT) < 0) fail(ErrorCode::kMalformed, "{}: {} cannot be looked at", origin_, part);
    if (link.type != H5L_TYPE_HARD) fail(ErrorCode::kMalformed, "{}: {} is a soft or external link; links are not followed", origin_, part);
  }
  return true;
}

std::vector<std::string> LibraryFile::members(const std::string& group) const {
  if (!has(group)) fail(ErrorCode::kNotFound, "{}: no group {}", origin_, group);
  const Handle opened(H5Gopen2(file_, group.c_str(), H5P_DEFAULT), H5Gclose);
  H5G_info_t facts;
  if (opened < 0 || H5Gget_info(opened, &facts) < 0) fail(ErrorCode::kMalformed, "{}: {} is no group", origin_, group);
  std::vector<std::string> names;
  for (hsize_t i = 0; i < facts.nlinks && i < kMostTexts; ++i) {
    const ssize_t length = H5Lget_name_by_idx(opened, ".", H5_INDEX_NAME, H5_ITER_INC, i, nullptr, 0, H5P_DEFAULT);
    if (length < 0) fail(ErrorCode::kMalformed, "{}: {} is damaged", origin_, group);
    std::string name(to_size(length) + 1, '\0');
    H5Lget_name_by_idx(opened, ".", H5_INDEX_NAME, H5_ITER_INC, i, name.data(), name.size(), H5P_DEFAULT);
    name.resize(to_size(length));
    names.push_back(std::move(name));
  }
  std::ranges::sort(names);
  return names;
}

std::optional<std::vector<std::string>> LibraryFile::texts_of_one(hid_t object, const std::string& attribute,
                                                                  const std::string& where) const {
  if (H5Aexists(object, attribute.c_str()) <= 0) return std::nullopt;
  const auto damaged = [&] { fail(ErrorCode::kMalformed, "{}: attribute {} of {} is no text, or damaged", origin_, attribute, where); };
  const Handle opened(H5Aopen(object, attribute.c_str(), H5P_DEFAULT), H5Aclose);
  const Handle type(opened < 0 ? -1 : H5Aget_type(opened), H5Tclose), space(opened < 0 ? -1 : H5Aget_space(opened), H5Sclose);
  if (opened < 0 || type < 0 || space < 0) damaged();
  if (H5Tget_class(type) == H5T_FLOAT && H5Sget_simple_extent_npoints(space) == 0) return std::vector<std::string>{};  // Keras's empty list
  if (H5Tget_class(type) != H5T_STRING) damaged();
  const hssize_t signed_count = H5Sget_simple_extent_npoints(space);
  if (signed_count < 0 || to_size(signed_count) > kMostTexts) damaged();
  const auto count = to_size(signed_count);
  std::vector<std::string> result;
  if (H5Tis_variable_str(type) > 0) {
    std::vector<char*> texts(count, nullptr);
    const Handle memory(H5Tcopy(type), H5Tclose);
    if (count > 0 && H5Aread(opened, memory, texts.data()) < 0) damaged();
    for (char* const text : texts) result.emplace_back(text == nullptr ? "" : text);
    if (count > 0) H5Dvlen_reclaim(memory, space, H5P_DEFAULT, texts.data());
  } else {
    const size_t width = H5Tget_size(type);
    if (width == 0 || count > kLongestText / width || H5Aget_storage_size(opened) < count * width) damaged();
    std::string all(count * width, '\0');
    if (count > 0 && H5Aread(opened, type, all.data()) < 0) damaged();
    for (size_t i = 0; i < count; ++i) {
      std::string one = all.substr(i * width, width);
      one.resize(std::min(one.find('\0'), one.size()));
      result.push_back(std::move(one));
    }
  }
  for (const std::string& one : result)
    if (!is_utf8(one)) fail(ErrorCode::kMalformed, "{}: attribute {} of {} is not UTF-8", origin_, attribute, where);
  return result;
}

std::optional<std::vector<std::string>> LibraryFile::texts(const std::string& object, const std::string& attribute) const {
  if (!has(object)) fail(ErrorCode::kNotFound, "{}: no {}", origin_, object);
  const Handle opened(H5Oopen(file_, object.c_str(), H5P_DEFAULT), H5Oclose);
  if (opened < 0) fail(ErrorCode::kMalformed, "{}: {} is damaged", origin_, object);
  if (std::optional<std::vector<std::string>> whole = texts_of_one(opened, attribute, object)) return whole;
  std::optional<std::vector<std::string>> joined;
  for (int i = 0;; ++i) {
    const std::optional<std::vector<std::string>> part = texts_of_one(opened, fmt::format("{}{}", attribute, i), object);
    if (!part) return joined;
    if (!joined) joined.emplace();
    joined->insert(joined->end(), part->begin(), part->end());
  }
}

std::optional<std::string> LibraryFile::text(const std::string& object, const std::string& attribute) const {
  const std::optional<std::vector<std::string>> all = texts(object, attribute);
  if (!all) return std::nullopt;
  if (all->size() != 1)
    fail(ErrorCode::kMalformed, "{}: attribute {} of {} holds {} texts, one was expected", origin_, attribute, object, all->size());
  return all->front();
}

Hdf5Array LibraryFile::array(const std::string& path) const {
  if (!has(path)) fail(ErrorCode::kNotFound, "{}: no array {}", origin_, path);
  const Handle opened(H5Dopen2(file_, path.c_str(), H5P_DEFAULT), H5Dclose);
  if (opened < 0) fail(ErrorCode::kMalformed, "{}: {} is no array", origin_, path);
  const Handle type(H5Dget_type(opened), H5Tclose), space(H5Dget_space(opened), H5Sclose), layout(H5Dget_create_plist(opened), H5Pclose);
  const H5T_class_t kind = H5Tget_class(type);
  if (kind != H5T_FLOAT && kind != H5T_INTEGER) fail(ErrorCode::kMalformed, "{}: {} holds no numbers", origin_, path);
  if (H5Pget_external_count(layout) > 0 || H5Pget_layout(layout) == H5D_VIRTUAL)
    fail(ErrorCode::kMalformed, "{}: {} lies in another file; only what is in this one is read", origin_, path);
  constexpr int kMostDimensions = 8;
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 0 || rank > kMostDimensions) fail(ErrorCode::kMalformed, "{}: {} has {} dimensions", origin_, path, rank);
  std::vector<hsize_t> extents(to_size(rank));
  H5Sget_simple_extent_dims(space, extents.data(), nullptr);
  Hdf5Array array;
  hsize_t elements = 1;
  for (const hsize_t extent : extents) {
    if (extent != 0 && elements > kMostElements / extent)
      fail(ErrorCode::kMalformed, "{}: {} declares [{}]", origin_, path, fmt::join(extents, ", "));
    elements *= extent;
    array.dimensions.push_back(static_cast<int64_t>(extent));
  }
  const uint64_t declared = elements * H5Tget_size(type), stored = H5Dget_storage_size(opened);
  if (declared / kMostExpansion > stored)
    fail(ErrorCode::kMalformed, "{}: {} declares {} bytes and stores {}; the file is damaged", origin_, path, declared, stored);
  array.values.resize(elements);
  if (elements > 0 && H5Dread(opened, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, array.values.data()) < 0)
    fail(ErrorCode::kMalformed, "{}: {} cannot be read; it is damaged, or packed by a filter that is not here", origin_, path);
  for (const float value : array.values)
    if (!std::isfinite(value)) fail(ErrorCode::kNumeric, "{}: {} holds {}", origin_, path, value);
  return array;
}

}  // namespace
}  // namespace millrace

// What hdf5_file.cpp asks the module for. Errors cross as what they are: both sides were compiled together.
extern "C" __attribute__((visibility("default"))) millrace::Hdf5File* millrace_hdf5_open(const std::byte* bytes, size_t size,
                                                                                         const char* origin) {
  return new millrace::LibraryFile({bytes, size}, origin);
}
