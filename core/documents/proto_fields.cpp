// Single fields of a message by name, through reflection; declared in proto_text.h.
#include <google/protobuf/descriptor.h>

#include "core/base/check.h"
#include "core/documents/proto_text.h"

namespace millrace::text {

using google::protobuf::EnumDescriptor;

const FieldDescriptor& field_of(const Message& message, std::string_view name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(std::string(name));
  MILLRACE_CHECK(field != nullptr, "{} has no field {}", message.GetDescriptor()->full_name(), name);
  return *field;
}

bool is_set(const Message& message, const FieldDescriptor& field) { return message.GetReflection()->HasField(message, &field); }
int size_of(const Message& message, const FieldDescriptor& field) { return message.GetReflection()->FieldSize(message, &field); }

// Protobuf aborts when a field is not of the type asked for; the tests go through every field.
void get(const Message& message, const FieldDescriptor& field, int index, int64_t& value) {
  const auto& reflection = *message.GetReflection();
  value = index == kSingle ? reflection.GetInt64(message, &field) : reflection.GetRepeatedInt64(message, &field, index);
}
void get(const Message& message, const FieldDescriptor& field, int index, uint64_t& value) {
  const auto& reflection = *message.GetReflection();
  value = index == kSingle ? reflection.GetUInt64(message, &field) : reflection.GetRepeatedUInt64(message, &field, index);
}
void get(const Message& message, const FieldDescriptor& field, int index, double& value) {
  const auto& reflection = *message.GetReflection();
  value = index == kSingle ? reflection.GetDouble(message, &field) : reflection.GetRepeatedDouble(message, &field, index);
}
void get(const Message& message, const FieldDescriptor& field, int index, bool& value) {
  const auto& reflection = *message.GetReflection();
  value = index == kSingle ? reflection.GetBool(message, &field) : reflection.GetRepeatedBool(message, &field, index);
}
void get(const Message& message, const FieldDescriptor& field, int index, std::string& value) {
  const auto& reflection = *message.GetReflection();
  value = index == kSingle ? reflection.GetString(message, &field) : reflection.GetRepeatedString(message, &field, index);
}

int get_enumerator(const Message& message, const FieldDescriptor& field, int index, const Path& where) {
  const auto& reflection = *message.GetReflection();
  const int number = index == kSingle ? reflection.GetEnumValue(message, &field) : reflection.GetRepeatedEnumValue(message, &field, index);
  const EnumDescriptor& known = *field.enum_type();
  // Text format also takes numbers, and proto3 keeps those it does not know.
  if (known.FindValueByNumber(number) == nullptr) {
    std::string names;
    for (int i = 0; i < known.value_count(); ++i) names += (i > 0 ? ", " : "") + known.value(i)->name();
    where.fail("{} is none of {}", number, names);
  }
  return number;
}

const Message& get_message(const Message& message, const FieldDescriptor& field, int index) {
  const auto& reflection = *message.GetReflection();
  return index == kSingle ? reflection.GetMessage(message, &field) : reflection.GetRepeatedMessage(message, &field, index);
}

void put(Message& message, const FieldDescriptor& field, int64_t value) {
  const auto& reflection = *message.GetReflection();
  field.is_repeated() ? reflection.AddInt64(&message, &field, value) : reflection.SetInt64(&message, &field, value);
}
void put(Message& message, const FieldDescriptor& field, uint64_t value) {
  const auto& reflection = *message.GetReflection();
  field.is_repeated() ? reflection.AddUInt64(&message, &field, value) : reflection.SetUInt64(&message, &field, value);
}
void put(Message& message, const FieldDescriptor& field, double value) {
  const auto& reflection = *message.GetReflection();
  field.is_repeated() ? reflection.AddDouble(&message, &field, value) : reflection.SetDouble(&message, &field, value);
}
void put(Message& message, const FieldDescriptor& field, bool value) {
  const auto& reflection = *message.GetReflection();
  field.is_repeated() ? reflection.AddBool(&message, &field, value) : reflection.SetBool(&message, &field, value);
}
void put(Message& message, const FieldDescriptor& field, const std::string& value) {
  const auto& reflection = *message.GetReflection();
  field.is_repeated() ? reflection.AddString(&message, &field, value) : reflection.SetString(&message, &field, value);
}
void put_enumerator(Message& message, const FieldDescriptor& field, int number) {
  const auto& reflection = *message.GetReflection();
  field.is_repeated() ? reflection.AddEnumValue(&message, &field, number) : reflection.SetEnumValue(&message, &field, number);
}
Message& put_message(Message& message, const FieldDescriptor& field) {
  const auto& reflection = *message.GetReflection();
  return field.is_repeated() ? *reflection.AddMessage(&message, &field) : *reflection.MutableMessage(&message, &field);
}

const FieldDescriptor* chosen(const Message& message, std::string_view oneof) {
  const auto* descriptor = message.GetDescriptor()->FindOneofByName(std::string(oneof));
  MILLRACE_CHECK(descriptor != nullptr, "{} has no oneof {}", message.GetDescriptor()->full_name(), oneof);
  return message.GetReflection()->GetOneofFieldDescriptor(message, descriptor);
}

}  // namespace millrace::text
