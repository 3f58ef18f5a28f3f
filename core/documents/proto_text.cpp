#include "core/documents/proto_text.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "core/base/files.h"
#include "core/base/index.h"
#include "core/base/log.h"

namespace millrace::text {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::TextFormat;

constexpr std::string_view kPackage = "millrace.documents.";
constexpr int kMostNesting = 32;

// The text between the first pair of quotes after `opening`; empty when there is none.
std::string_view quoted_after(std::string_view message, std::string_view opening) {
  const size_t at = message.find(opening);
  if (at == std::string_view::npos) return {};
  const size_t begin = at + opening.size();
  const size_t end = message.find('"', begin);
  return end == std::string_view::npos ? std::string_view{} : message.substr(begin, end - begin);
}

// Every message type inside `root`, itself included.
void collect_types(const Descriptor& root, std::set<const Descriptor*>& types) {
  if (!types.insert(&root).second) return;
  for (int i = 0; i < root.field_count(); ++i)
    if (const Descriptor* inner = root.field(i)->message_type()) collect_types(*inner, types);
}

// What protobuf says, in our words: without its package, and with the nearest name for a misspelt field or value.
std::string in_our_words(std::string message, const Descriptor& root) {
  const std::string type(quoted_after(message, "Message type \""));
  const std::string field(quoted_after(message, "has no field named \""));
  const std::string value(quoted_after(message, "enumeration value of \""));
  const std::string holder(quoted_after(message, "for field \""));
  std::set<const Descriptor*> types;
  collect_types(root, types);
  std::vector<std::string> known;
  for (const Descriptor* candidate : types)
    for (int i = 0; i < candidate->field_count(); ++i) {
      const FieldDescriptor& own = *candidate->field(i);
      if (!field.empty() && candidate->full_name() == type) known.push_back(own.name());
      if (!value.empty() && own.name() == holder && own.enum_type() != nullptr)
        for (int k = 0; k < own.enum_type()->value_count(); ++k) known.push_back(own.enum_type()->value(k)->name());
    }
  while (message.ends_with('.')) message.pop_back();
  for (size_t at; (at = message.find(kPackage)) != std::string::npos;) message.erase(at, kPackage.size());
  return message + suggestion(field.empty() ? value : field, known);
}

// Keeps the first complaint: those that follow are mostly its consequences.
class FirstComplaint : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (!message_.empty()) return;
    line_ = line;
    column_ = column;
    message_ = message;
  }
  [[noreturn]] void raise(std::string_view text, const Path& document, const Descriptor& root) const {
    const std::string what = message_.empty() ? "cannot be read as text format" : in_our_words(message_, root);
    const std::string place = line_ < 0 ? std::string() : fmt::format("{}:{}:", line_ + 1, column_in(text) + 1);
    const std::string name = document.text();
    throw Error(document.code(), name.empty() ? what : fmt::format("{}:{} {}", name, place, what));
  }

 private:
  // Protobuf notices an unknown word when it is past it; the word itself is where people should look.
  int column_in(std::string_view text) const {
    std::string_view word = quoted_after(message_, "has no field named \"");
    if (word.empty()) word = quoted_after(message_, "enumeration value of \"");
    if (word.empty()) return column_;
    for (int line = 0; line < line_; ++line) {
      const size_t end = text.find('\n');
      text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    }
    const std::string_view before = text.substr(0, std::min(text.find('\n'), to_size(column_)));
    const size_t at = before.rfind(word);
    return at == std::string_view::npos ? column_ : static_cast<int>(at);
  }

  int line_ = -1;
  int column_ = 0;
  std::string message_;
};

[[noreturn]] void fail_as_newer(const Path& document, uint64_t version, uint32_t current) {
  document.fail("written by a newer Millrace (version {}, this one reads up to {}); update Millrace, or write the document again", version,
                current);
}

// The version when the text opens with it, as every document we write does; else 0. Looked at before parsing, so that
// an unknown field of a newer version is not taken for a misspelling.
uint64_t leading_version(std::string_view text) {
  const auto blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  const auto skip = [&] {
    while (!text.empty() && (blank(text.front()) || text.front() == '#')) {
      text.remove_prefix(text.front() == '#' ? std::min(text.find('\n'), text.size()) : 1);
    }
  };
  constexpr std::string_view kWord = "version";
  skip();
  if (!text.starts_with(kWord)) return 0;
  text.remove_prefix(kWord.size());
  skip();
  if (!text.starts_with(':')) return 0;
  text.remove_prefix(1);
  skip();
  uint64_t version = 0;
  for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1)) {
    if (version > UINT32_MAX) return 0;  // no number a version may have: the parser says so
    version = version * 10 + static_cast<uint64_t>(text.front() - '0');
  }
  return version <= UINT32_MAX ? version : 0;
}

class Printer {
 public:
  Printer() { scalars_.SetUseUtf8StringEscaping(true); }

  void print(const Message& message, size_t indent, std::string& out) const {
    for_each_field(message, [&](const FieldDescriptor& field, int index) {
      out.append(indent, ' ');
      const size_t start = out.size();
      if (field.message_type() == nullptr || fits(message, field, index, indent)) {
        print_inline(message, field, index, out);
      } else {
        out += field.name() + " {\n";
        print(get_message(message, field, index), indent + 2, out);
        out.append(indent, ' ');
        out += '}';
      }
      if (out.size() > start) out += '\n';
    });
  }

 private:
  static constexpr size_t kWidth = 140;

  // Each set field; the elements of a repeated one singly when they are messages, else together.
  template <typename Visit>
  static void for_each_field(const Message& message, Visit visit) {
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      if (!field->is_repeated() || field->message_type() == nullptr) {
        visit(*field, kSingle);
        continue;
      }
      for (int i = 0; i < size_of(message, *field); ++i) visit(*field, i);
    }
  }

  // Whether the field, on one line, stays within the width. Looks no further than that width.
  bool fits(const Message& message, const FieldDescriptor& field, int index, size_t indent) const {
    if (!is_small(get_message(message, field, index), 2)) return false;
    std::string line;
    print_inline(message, field, index, line);
    return indent + line.size() <= kWidth;
  }

  // Few enough parts that trying to print it on one line costs little.
  static bool is_small(const Message& message, int depth) {
    constexpr int kMostParts = 16;
    if (depth < 0) return false;
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      if (field->is_repeated() && size_of(message, *field) > kMostParts) return false;
      if (field->message_type() == nullptr) continue;
      const int count = field->is_repeated() ? size_of(message, *field) : 1;
      for (int i = 0; i < count; ++i)
        if (!is_small(get_message(message, *field, field->is_repeated() ? i : kSingle), depth - 1)) return false;
    }
    return true;
  }

  void print_inline(const Message& message, const FieldDescriptor& field, int index, std::string& out) const {
    out += field.name();
    if (field.message_type() != nullptr) {
      const Message& inner = get_message(message, field, index);
      out += " {";
      bool empty = true;
      for_each_field(inner, [&](const FieldDescriptor& own, int at) {
        out += ' ';
        print_inline(inner, own, at, out);
        empty = false;
      });
      out += empty ? "}" : " }";
      return;
    }
    out += ": ";
    std::string value;
    if (!field.is_repeated()) {
      scalars_.PrintFieldValueToString(message, &field, kSingle, &value);
      out += value;
      return;
    }
    const int count = size_of(message, field);
    if (count != 1) out += '[';
    for (int i = 0; i < count; ++i) {
      if (i > 0) out += ", ";
      scalars_.PrintFieldValueToString(message, &field, i, &value);
      out += value;
    }
    if (count != 1) out += ']';
  }

  TextFormat::Printer scalars_;
};

}  // namespace

void parse_text(std::string_view text, const Path& document, const MigrationSteps& steps, Message& message) {
  if (text.size() > kMostTextBytes) document.fail("{} bytes of text; a document has at most {}", text.size(), kMostTextBytes);
  if (const uint64_t version = leading_version(text); version > current_version(steps))
    fail_as_newer(document, version, current_version(steps));
  FirstComplaint complaint;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&complaint);
  parser.SetRecursionLimit(kMostNesting);
  google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  if (!parser.Parse(&stream, &message)) complaint.raise(text, document, *message.GetDescriptor());
  migrate(message, document, steps);
}

void migrate(Message& message, const Path& document, const MigrationSteps& steps) {
  const FieldDescriptor& field = field_of(message, "version");
  const auto& reflection = *message.GetReflection();
  uint32_t version = reflection.GetUInt32(message, &field);
  const uint32_t current = current_version(steps);
  if (version == 0) {
    log::debug("{}: no version given, taken as {}", document.text(), current);
    version = current;
  }
  if (version > current) fail_as_newer(document, version, current);
  for (; version < current; ++version) {
    log::debug("{}: brought from version {} to {}", document.text(), version, version + 1);
    steps[version - 1](message);
  }
  reflection.SetUInt32(&message, &field, current);
}

std::string print_text(const Message& message) {
  std::string out;
  Printer().print(message, 0, out);
  return out;
}

std::string read_document(const std::filesystem::path& path) {
  std::error_code unknown;  // what cannot be asked for its size is read, and fails there with the reason
  const auto bytes = std::filesystem::file_size(path, unknown);
  if (!unknown && bytes > kMostTextBytes)
    fail(ErrorCode::kMalformed, "{}: {} bytes of text; a document has at most {}", path.string(), bytes, kMostTextBytes);
  return read_text(path);
}

}  // namespace millrace::text
