#include "core/documents/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/files.h"
#include "core/base/index.h"
#include "core/documents/job_fields.h"
#include "job.pb.h"

namespace millrace {
namespace text {
namespace {

constexpr std::string_view kPins = "pins";
constexpr std::string_view kCuts = "cuts";

// Every element of a repeated message, read and checked by itself: once in a map, its place in the text is forgotten.
template <typename Entry, typename Visit>
void read_entries(const Message& message, std::string_view name, const Path& where, Visit visit) {
  const FieldDescriptor& field = field_of(message, name);
  for (int i = 0; i < size_of(message, field); ++i) {
    const Path here(where, name, to_size(i));
    Entry entry;
    Codec<Entry>::read(get_message(message, field, i), entry, here);
    Codec<Entry>::check(entry, here);
    visit(entry, here);
  }
}

}  // namespace

void Codec<Job>::read(const Message& message, Job& job, const Path& where) {
  FieldReader<Job> reader(message, job, where);
  Fields<Job>::visit(reader);
  read_entries<Pin>(message, kPins, where, [&](const Pin& pin, const Path& here) {
    if (!job.pins.emplace(pin.layer, pin.device).second) Path(here, "layer").fail("\"{}\" is pinned twice", pin.layer);
  });
  read_entries<Cut>(message, kCuts, where, [&](const Cut& cut, const Path& here) {
    const bool added = job.cuts.emplace(cut.link, FixedCut{cut.layer, cut.channel, cut.outputs}).second;
    if (!added) Path(here, "link").fail("{} is given twice; a link cuts once", cut.link);
  });
}

void Codec<Job>::write(const Job& job, Message& message) {
  FieldWriter<Job> writer(job, message);
  Fields<Job>::visit(writer);
  for (const auto& [layer, device] : job.pins) Codec<Pin>::write({layer, device}, put_message(message, field_of(message, kPins)));
  for (const auto& [link, cut] : job.cuts)
    Codec<Cut>::write({link, cut.layer, cut.channel, cut.outputs}, put_message(message, field_of(message, kCuts)));
}

// Names of fields that a saved job always has and this one has not.
class AbsentFields {
 public:
  explicit AbsentFields(const Message& message) : message_(message) {}

  template <typename Member, typename Rule = int>
  void field(std::string_view name, Member, Presence presence, const Rule& = {}) {
    if (presence == Presence::kRecorded && !is_set(message_, field_of(message_, name))) names.emplace_back(name);
  }

  std::vector<std::string> names;

 private:
  const Message& message_;
};

}  // namespace text

namespace {

// A text that is cut between two fields is still one: what is missing would be taken at its default. So a saved job says where it ends.
constexpr std::string_view kOpening = "# The job of a run, whole only with the line that says: end of the job\n";
constexpr std::string_view kEnd = "# end of the job";

bool has_line(std::string_view text, std::string_view line) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (text.substr(begin, end - begin) == line) return true;
    begin = end + 1;
  }
  return false;
}

// Those of earlier versions have neither opening nor end, but fields that are always there.
std::string what_is_missing(std::string_view text, const text::Message& message) {
  if (has_line(text, kEnd)) return "";
  if (text.starts_with(kOpening)) return fmt::format("its line \"{}\"", kEnd);
  text::AbsentFields absent(message);
  text::Fields<Job>::visit(absent);
  return fmt::format("{}", fmt::join(absent.names, ", "));
}

}  // namespace

Job parse_job(std::string_view text, std::string_view origin) {
  const text::Path document(origin, ErrorCode::kMalformed);
  documents::Job message;
  text::parse_text(text, document, text::job_steps(), message);
  Job job;
  text::Codec<Job>::read(message, job, document);
  text::Codec<Job>::check(job, document);
  return job;
}

std::string text_of(const Job& job) {
  documents::Job message;
  message.set_version(text::current_version(text::job_steps()));
  text::Codec<Job>::write(job, message);
  return text::print_text(message);
}

Job load_job(const std::filesystem::path& path) { return parse_job(text::read_document(path), path.string()); }

Job load_whole_job(const std::filesystem::path& path) {
  const std::string text = text::read_document(path);
  Job job = parse_job(text, path.string());
  documents::Job message;
  text::parse_text(text, text::Path(path.string(), ErrorCode::kMalformed), text::job_steps(), message);
  const std::string missing = what_is_missing(text, message);
  if (!missing.empty())
    fail(ErrorCode::kMalformed,
         "{}: is cut short: it lacks {}, and what was lost would be taken at its default; put it back from a copy of the run, or write "
         "what it lacks and the line \"{}\" at the end",
         path.string(), missing, kEnd);
  return job;
}

void save(const Job& job, const std::filesystem::path& path) {
  write_atomically(path, fmt::format("{}{}{}\n", kOpening, text_of(job), kEnd));
}

}  // namespace millrace
