// The text form of the five documents: parsing with places, printing for people, versions. The only header here that
// includes protobuf. Internal to core/documents: for .cpp files and fields.h alone.
//
//   documents::Cluster message;
//   const Path document(origin, ErrorCode::kMalformed);
//   parse_text(text, document, kClusterSteps, message);       // of the current version afterwards
//   std::string text = print_text(message);
//
// Versions: a document says which version of its format it follows, counting from 1. Its kind has a list of steps, the
// k-th of which turns version k into k+1, so that the current version is one more than there are steps. A step acts on
// the parsed message; fields that went away stay in the .proto, marked deprecated, for the steps to read.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/field_rules.h"

namespace millrace::text {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

using MigrationStep = std::function<void(Message&)>;
using MigrationSteps = std::vector<MigrationStep>;

inline constexpr size_t kMostTextBytes = size_t{256} << 20;

// The steps of every kind of document, in versions.cpp.
const MigrationSteps& model_steps();
const MigrationSteps& cluster_steps();
const MigrationSteps& plan_steps();
const MigrationSteps& job_steps();
const MigrationSteps& catalogue_steps();

inline uint32_t current_version(const MigrationSteps& steps) { return static_cast<uint32_t>(steps.size()) + 1; }

// Fails naming file, line, column and field on anything that does not follow the message's definition.
void parse_text(std::string_view text, const Path& document, const MigrationSteps& steps, Message& message);
// For a document inside another one; parse_text does it for the outer one. No version means the current one.
void migrate(Message& message, const Path& document, const MigrationSteps& steps);

// One line per element where that stays readable, fields in the order of their numbers. Numbers come back exactly.
std::string print_text(const Message& message);

// The file's text, which must not be larger than a document may be.
std::string read_document(const std::filesystem::path& path);

// Single fields by name. `index` is the place in a repeated field, kSingle elsewhere.
inline constexpr int kSingle = -1;
const FieldDescriptor& field_of(const Message& message, std::string_view name);
bool is_set(const Message& message, const FieldDescriptor& field);
int size_of(const Message& message, const FieldDescriptor& field);
void get(const Message& message, const FieldDescriptor& field, int index, int64_t& value);
void get(const Message& message, const FieldDescriptor& field, int index, uint64_t& value);
void get(const Message& message, const FieldDescriptor& field, int index, double& value);
void get(const Message& message, const FieldDescriptor& field, int index, bool& value);
void get(const Message& message, const FieldDescriptor& field, int index, std::string& value);
// Fails when the number is none of the enumeration's.
int get_enumerator(const Message& message, const FieldDescriptor& field, int index, const Path& where);
const Message& get_message(const Message& message, const FieldDescriptor& field, int index);
// Sets a single field, appends to a repeated one.
void put(Message& message, const FieldDescriptor& field, int64_t value);
void put(Message& message, const FieldDescriptor& field, uint64_t value);
void put(Message& message, const FieldDescriptor& field, double value);
void put(Message& message, const FieldDescriptor& field, bool value);
void put(Message& message, const FieldDescriptor& field, const std::string& value);
void put_enumerator(Message& message, const FieldDescriptor& field, int number);
Message& put_message(Message& message, const FieldDescriptor& field);
// Which field of a oneof is set; nullptr: none.
const FieldDescriptor* chosen(const Message& message, std::string_view oneof);

}  // namespace millrace::text
