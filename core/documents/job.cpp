#include "core/documents/job.h"

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

}  // namespace text

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

void save(const Job& job, const std::filesystem::path& path) { write_atomically(path, text_of(job)); }

}  // namespace millrace
