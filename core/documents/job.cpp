#include "core/documents/job.h"

#include "core/base/files.h"
#include "core/documents/job_fields.h"
#include "job.pb.h"

namespace millrace {
namespace text {
namespace {

constexpr std::string_view kPins = "pins";

}  // namespace

void Codec<Job>::read(const Message& message, Job& job, const Path& where) {
  FieldReader<Job> reader(message, job, where);
  Fields<Job>::visit(reader);
  const FieldDescriptor& field = field_of(message, kPins);
  for (int i = 0; i < size_of(message, field); ++i) {
    const Path here(where, kPins, static_cast<size_t>(i));
    Pin pin;
    Codec<Pin>::read(get_message(message, field, i), pin, here);
    Codec<Pin>::check(pin, here);
    if (!job.pins.emplace(pin.layer, pin.device).second) Path(here, "layer").fail("\"{}\" is pinned twice", pin.layer);
  }
}

void Codec<Job>::write(const Job& job, Message& message) {
  FieldWriter<Job> writer(job, message);
  Fields<Job>::visit(writer);
  for (const auto& [layer, device] : job.pins) Codec<Pin>::write({layer, device}, put_message(message, field_of(message, kPins)));
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
