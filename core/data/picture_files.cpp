#include "core/data/picture_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>
#include <thread>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/data/name_settings.h"
#include "core/data/picture.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPicturesForm =
    "pictures:FOLDER,size=CxHxW[,resize=SHORTER_SIDE][,fit=crop|stretch][,hold-out=SHARE][,seed=N][,threads=N]"
    "[,normalise=measured|imagenet|none][,damaged=skip|fail]";
constexpr uint64_t kMostFileBytes = uint64_t{1} << 30;

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.is_directory() && !is_hidden(entry.path())) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

struct Part {
  std::vector<PictureFiles::Entry> entries;
  int64_t others = 0;  // files that are no pictures by their names
};

// The pictures below root/part/class, in the order of classes and names. Links to folders inside a class are not followed.
Part find_pictures(const fs::path& root, const std::string& part, const std::vector<std::string>& classes) {
  Part found;
  for (size_t c = 0; c < classes.size(); ++c) {
    const fs::path below = fs::path(part) / classes[c];
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / below)) {
      if (is_hidden(entry.path()) || entry.is_directory()) continue;
      if (is_picture_name(entry.path()) && entry.is_regular_file())
        names.push_back(fs::relative(entry.path(), root).string());
      else
        ++found.others;
    }
    std::ranges::sort(names);
    for (std::string& name : names) found.entries.push_back({std::move(name), static_cast<int32_t>(c)});
  }
  return found;
}

class OpenFile {
 public:
  explicit OpenFile(const fs::path& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) fail(ErrorCode::kIo, "{}: cannot be opened", path.string());
    struct stat facts {};
    if (::fstat(descriptor_, &facts) != 0) fail(ErrorCode::kIo, "{}: cannot be looked at", path.string());
    bytes_ = to_size(facts.st_size);
  }
  ~OpenFile() { ::close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  size_t bytes() const { return bytes_; }
  std::vector<std::byte> part(size_t begin, size_t count) const {
    std::vector<std::byte> read(std::min(count, bytes_ - std::min(begin, bytes_)));
    const ssize_t got = ::pread(descriptor_, read.data(), read.size(), static_cast<off_t>(begin));
    read.resize(got < 0 ? 0 : to_size(got));
    return read;
  }

 private:
  int descriptor_;
  size_t bytes_ = 0;
};

// Header and end, without what is between; why the picture is of no use, or "".
std::string obstacle_of(const fs::path& path) {
  constexpr size_t kBeginningBytes = 4096, kLongestBeginning = 1 << 20;  // cameras put whole thumbnails before the size
  try {
    const OpenFile file(path);
    PictureFacts facts;
    try {
      facts = read_picture_facts(file.part(0, kBeginningBytes), path.string(), file.bytes());
    } catch (const Error&) {
      facts = read_picture_facts(file.part(0, kLongestBeginning), path.string(), file.bytes());
    }
    const size_t end = std::min(kPictureEndBytes, file.bytes());
    if (!picture_is_complete(facts.kind, file.part(file.bytes() - end, end)))
      return fmt::format("{}: the file is cut short", path.string());
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// Why each entry is of no use, or "", looked up on several threads.
std::vector<std::string> obstacles_of(const fs::path& root, const std::vector<PictureFiles::Entry>& entries, int64_t threads) {
  std::vector<std::string> obstacles(entries.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < entries.size(); i = next++) obstacles[i] = obstacle_of(root / entries[i].path);
  };
  std::vector<std::thread> others;
  for (int64_t t = 1; t < threads; ++t) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  return obstacles;
}

struct Options {
  PictureForm form;
  int64_t threads = 1;
  double hold_out = 0.2;
  uint64_t seed = 1;
  bool damaged_is_fatal = false;
};

// Takes out what is of no use, and notes it.
void keep_pictures(const fs::path& root, Part& part, const Options& options, std::vector<std::string>& notes) {
  constexpr size_t kMostNamed = 10;
  const std::vector<std::string> obstacles = obstacles_of(root, part.entries, options.threads);
  std::vector<PictureFiles::Entry> kept;
  std::vector<std::string> named;
  size_t damaged = 0;
  for (size_t i = 0; i < obstacles.size(); ++i) {
    if (obstacles[i].empty()) {
      kept.push_back(std::move(part.entries[i]));
      continue;
    }
    if (options.damaged_is_fatal) fail(ErrorCode::kMalformed, "{}; leave out damaged=fail to go on without it", obstacles[i]);
    if (++damaged <= kMostNamed) named.push_back(obstacles[i]);
  }
  part.entries = std::move(kept);
  for (const std::string& name : named) notes.push_back("left out: " + name);
  if (damaged > named.size()) notes.push_back(fmt::format("left out: {} more damaged pictures", damaged - named.size()));
  if (damaged > 0) notes.push_back(fmt::format("{} of {} pictures are damaged and left out", damaged, obstacles.size()));
  if (part.others > 0) notes.push_back(fmt::format("{} files are no JPEG or PNG by their names and left out", part.others));
}

// Of each class a share, drawn by seed, at least one of two.
void hold_out(std::vector<PictureFiles::Entry>& entries, const std::vector<std::string>& classes, const Options& options,
              std::vector<PictureFiles::Entry>& held) {
  std::vector<PictureFiles::Entry> kept;
  for (size_t begin = 0; begin < entries.size();) {
    size_t end = begin;
    while (end < entries.size() && entries[end].label == entries[begin].label) ++end;
    const auto count = static_cast<int64_t>(end - begin);
    const auto share = static_cast<int64_t>(std::lround(options.hold_out * static_cast<double>(count)));
    const int64_t taken = count < 2 ? 0 : std::clamp<int64_t>(share, 1, count - 1);
    const std::vector<int64_t> order = shuffled_indices(count, options.seed, stream_id("hold-out", item(classes, entries[begin].label)));
    const std::set<int64_t> out(order.begin(), order.begin() + taken);
    for (int64_t i = 0; i < count; ++i) (out.contains(i) ? held : kept).push_back(std::move(entries[begin + to_size(i)]));
    begin = end;
  }
  entries = std::move(kept);
}

Normalisation normalisation_of(const std::string& word, const Dataset& train) {
  const auto channels = to_size(train.shape.channels);
  if (word == "measured") return measure_normalisation(train);
  if (word == "none") return {std::vector<double>(channels, 0.0), std::vector<double>(channels, 1.0)};
  if (channels == 1) return {{0.449}, {0.226}};           // the three of colour, averaged
  return {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};  // what torchvision's weights were trained with
}

Dataset dataset_of(const fs::path& root, std::vector<PictureFiles::Entry> entries, const std::vector<std::string>& classes,
                   const Options& options) {
  Dataset data;
  data.shape = options.form.shape;
  data.classes = static_cast<int64_t>(classes.size());
  data.class_names = classes;
  data.readers = options.threads;
  data.source = root.string();
  data.licence = "the files' own";
  for (const PictureFiles::Entry& entry : entries) data.labels.push_back(entry.label);
  data.images = std::make_shared<const PictureFiles>(root, std::move(entries), options.form, options.damaged_is_fatal);
  return data;
}

Options options_from(const NameSettings& settings, std::string_view what) {
  Options options;
  options.form.shape = settings.shape("size");
  options.form.fit = settings.word("fit", {"crop", "stretch"}) == "crop" ? PictureFit::kCrop : PictureFit::kStretch;
  options.form.shorter = settings.whole("resize", 0, 1, 1 << 16);
  const Shape& shape = options.form.shape;
  if (options.form.shorter > 0 && options.form.fit == PictureFit::kStretch)
    fail(ErrorCode::kUsage, "data \"{}\": resize has no effect beside fit=stretch; leave one out", what);
  if (options.form.shorter > 0 && options.form.shorter < std::max(shape.height, shape.width))
    fail(ErrorCode::kUsage, "data \"{}\": resize={} makes pictures smaller than size={}; give at least {}", what, options.form.shorter,
         text_of(shape), std::max(shape.height, shape.width));
  options.threads = settings.whole("threads", 1, 1, 256);
  options.hold_out = settings.number("hold-out", 0.2, 0, 0.9);
  options.seed = static_cast<uint64_t>(settings.whole("seed", 1, 0, INT64_MAX));
  options.damaged_is_fatal = settings.word("damaged", {"skip", "fail"}) == "fail";
  return options;
}

std::string validation_folder(const std::vector<std::string>& folders) {
  for (const char* const name : {"val", "validation", "valid", "test"})
    if (std::ranges::find(folders, name) != folders.end()) return name;
  return "";
}

}  // namespace

bool is_picture_name(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

std::string text_of(const PictureForm& form) {
  return fmt::format("size={}{}{}", text_of(form.shape), form.shorter > 0 ? fmt::format(",resize={}", form.shorter) : "",
                     form.fit == PictureFit::kStretch ? ",fit=stretch" : "");
}

void read_picture(std::span<const std::byte> bytes, std::string_view origin, const PictureForm& form, std::span<uint8_t> pixels,
                  const PictureDraw* draw) {
  thread_local PictureResizer resizer;
  const PictureFacts facts = read_picture_facts(bytes, origin);
  resizer.begin(facts.shape, form.shape,
                draw != nullptr ? drawn_box(facts.shape, form.shape, *draw) : crop_of(facts.shape, form.shape, form.fit, form.shorter));
  decode_picture(bytes, origin, facts, resizer);
  resizer.finish(pixels);
}

void read_picture(const fs::path& path, const PictureForm& form, std::span<uint8_t> pixels, const PictureDraw* draw) {
  const OpenFile file(path);
  if (file.bytes() > kMostFileBytes)
    fail(ErrorCode::kMalformed, "{}: {} bytes, pictures of at most {} are read", path.string(), file.bytes(), kMostFileBytes);
  read_picture(file.part(0, file.bytes()), path.string(), form, pixels, draw);
}

PictureFiles::PictureFiles(fs::path folder, std::vector<Entry> entries, PictureForm form, bool damaged_is_fatal)
    : folder_(std::move(folder)), entries_(std::move(entries)), form_(form), damaged_is_fatal_(damaged_is_fatal) {}

int64_t PictureFiles::damaged() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(damaged_.size());
}

bool PictureFiles::try_to_read(int64_t sample, std::span<uint8_t> pixels, const PictureDraw* draw) const {
  {
    const std::lock_guard lock(mutex_);
    if (damaged_.contains(sample)) return false;
  }
  try {
    read_picture(folder_ / name_of(sample), form_, pixels, draw);
    return true;
  } catch (const Error& error) {
    if (damaged_is_fatal_ || error.code() != ErrorCode::kMalformed) throw;
    const std::lock_guard lock(mutex_);
    if (damaged_.emplace(sample, error.what()).second)
      log::warning("{}; the next picture of its class stands in for it ({} so far)", error.what(), damaged_.size());
    return false;
  }
}

// The next of the same class, round and round.
int64_t PictureFiles::following(int64_t sample) const {
  const int32_t label = item(entries_, sample).label;
  if (sample + 1 < static_cast<int64_t>(entries_.size()) && item(entries_, sample + 1).label == label) return sample + 1;
  while (sample > 0 && item(entries_, sample - 1).label == label) --sample;
  return sample;
}

void PictureFiles::read(int64_t sample, std::span<uint8_t> pixels, const PictureDraw* draw) const {
  MILLRACE_CHECK(0 <= sample && sample < static_cast<int64_t>(entries_.size()), "picture {} of {}", sample, entries_.size());
  for (int64_t s = sample;;) {
    if (try_to_read(s, pixels, draw)) return;
    s = following(s);
    if (s == sample) {  // none of its class is left
      std::ranges::fill(pixels, uint8_t{0});
      return;
    }
  }
}

DataSplit load_pictures(std::string_view arguments, std::string_view what) {
  const NameSettings settings(arguments, what, {"size", "resize", "fit", "hold-out", "seed", "threads", "normalise", "damaged"},
                              kPicturesForm);
  const Options options = options_from(settings, what);
  const fs::path root = settings.path();
  if (!fs::is_directory(root)) fail(ErrorCode::kNotFound, "{}: no such folder; give one with a folder per class", root.string());
  const std::vector<std::string> folders = folders_in(root);
  const bool divided = std::ranges::find(folders, "train") != folders.end();
  const std::string validation = divided ? validation_folder(folders) : "";
  if (divided && validation.empty())
    fail(ErrorCode::kNotFound, "{}: a folder train, but none called val, validation, valid or test beside it", root.string());
  if (divided && (settings.find("hold-out") != nullptr || settings.find("seed") != nullptr))
    fail(ErrorCode::kUsage, "data \"{}\": {} has folders train and {}, so hold-out and seed have no effect; leave them out", what,
         root.string(), validation);

  const std::string part = divided ? "train" : "";
  const std::vector<std::string> classes = divided ? folders_in(root / "train") : folders;
  if (classes.size() < 2)
    fail(ErrorCode::kMismatch, "{}: {} folders for classes, at least two are needed; pictures lie in a folder per class",
         (root / part).string(), classes.size());
  Part found = find_pictures(root, part, classes);
  std::vector<std::string> notes, held_notes;
  keep_pictures(root, found, options, notes);
  Part held;
  if (divided) {
    const std::vector<std::string> of_validation = folders_in(root / validation);
    for (const std::string& name : of_validation)
      if (std::ranges::find(classes, name) == classes.end())
        fail(ErrorCode::kMismatch, "{}: class \"{}\" is not among the {} of {}", (root / validation).string(), name, classes.size(),
             (root / "train").string());
    if (of_validation.empty())
      fail(ErrorCode::kMismatch, "{}: no folder per class in it; put each picture into the folder of its class",
           (root / validation).string());
    std::vector<PictureFiles::Entry> all;
    for (size_t c = 0; c < classes.size(); ++c) {
      if (std::ranges::find(of_validation, classes[c]) == of_validation.end()) continue;
      Part of_class = find_pictures(root, validation, {classes[c]});
      for (PictureFiles::Entry& entry : of_class.entries) all.push_back({std::move(entry.path), static_cast<int32_t>(c)});
      held.others += of_class.others;
    }
    held.entries = std::move(all);
    keep_pictures(root, held, options, held_notes);
  } else {
    hold_out(found.entries, classes, options, held.entries);
  }
  if (found.entries.empty()) fail(ErrorCode::kMismatch, "{}: no picture in it that can be used", (root / part).string());
  std::vector<int64_t> counts(classes.size(), 0);
  for (const PictureFiles::Entry& entry : found.entries) ++item(counts, entry.label);
  for (size_t c = 0; c < classes.size(); ++c)
    if (counts[c] == 0) notes.push_back(fmt::format("class \"{}\" has no picture to train on", classes[c]));

  DataSplit data{dataset_of(root, std::move(found.entries), classes, options), dataset_of(root, std::move(held.entries), classes, options)};
  data.train.notes = std::move(notes);
  data.test.notes = std::move(held_notes);
  data.train.normalisation = data.test.normalisation =
      normalisation_of(settings.word("normalise", {"measured", "imagenet", "none"}), data.train);
  return data;
}

}  // namespace millrace
