// From plain structs to messages and back, and the rules for their values, out of one list of fields per struct.
//
//   template <>
//   struct Fields<Dense> {
//     static void visit(auto& v) {
//       v.field("out_features", &Dense::out_features, Presence::kRequired, kSize);
//       v.field("bias", &Dense::bias, Presence::kDefaulted);
//     }
//     static void check(const Dense& dense, const Path& where);     // optional: rules between fields
//   };
//   Codec<Dense>::read(message, dense, where);    // absent fields keep what `dense` holds
//   Codec<Dense>::write(dense, message);
//   Codec<Dense>::check(dense, where);            // needs no message: also for structs that never were text
//
// A name is the field's name in the .proto; a struct with another shape than its message specialises Codec. A field
// that exists on one side only shows as soon as a document with it is read or written. Internal to core/documents.
#pragma once

#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/index.h"
#include "core/documents/proto_text.h"

namespace millrace::text {

// Specialised for every struct that is a message.
template <typename T>
struct Fields;

// What is a message of its own, rather than a scalar.
template <typename T>
inline constexpr bool kIsMessage = std::is_class_v<T> && !std::is_same_v<T, std::string>;

// Specialised for structs whose message has another shape.
template <typename T>
struct Codec {
  static void read(const Message& message, T& value, const Path& where);
  static void write(const T& value, Message& message);
  static void check(const T& value, const Path& where);
};

template <typename T>
void read_value(const Message& message, const FieldDescriptor& field, int index, T& value, const Path& where) {
  if constexpr (std::is_enum_v<T>) {
    value = static_cast<T>(get_enumerator(message, field, index, where));
  } else if constexpr (kIsMessage<T>) {
    Codec<T>::read(get_message(message, field, index), value, where);
  } else {
    get(message, field, index, value);
  }
}

template <typename T>
void read_value(const Message& message, const FieldDescriptor& field, int index, std::optional<T>& value, const Path& where) {
  read_value(message, field, index, value.emplace(), where);
}

template <typename T>
void write_value(const T& value, Message& message, const FieldDescriptor& field) {
  if constexpr (std::is_enum_v<T>) {
    put_enumerator(message, field, static_cast<int>(value));
  } else if constexpr (kIsMessage<T>) {
    Codec<T>::write(value, put_message(message, field));
  } else {
    put(message, field, value);
  }
}

template <typename T>
void write_value(const std::optional<T>& value, Message& message, const FieldDescriptor& field) {
  if (value) write_value(*value, message, field);
}

template <typename T, typename Rule>
void check_field(const T& value, const Rule& rule, const Path& where) {
  if constexpr (kIsMessage<T>) {
    Codec<T>::check(value, where);
  } else {
    check_value(value, rule, where);
  }
}

template <typename T, typename Rule>
void check_field(const std::optional<T>& value, const Rule& rule, const Path& where) {
  if (value) check_field(*value, rule, where);
}

template <typename S>
class FieldReader {
 public:
  FieldReader(const Message& message, S& object, const Path& where) : message_(message), object_(object), where_(where) {}

  template <typename T, typename Rule = Anything>
  void field(std::string_view name, T S::*member, Presence presence, const Rule& = {}) {
    if (!read(name, object_.*member) && presence == Presence::kRequired) where_.fail("{} is missing", name);
  }

  // Two fields for the two directions, and one that stands for both.
  template <typename T, typename Rule>
  void pair(std::string_view both, std::string_view first, std::string_view second, T S::*first_member, T S::*second_member, Presence,
            const Rule&) {
    const bool has_first = read(first, object_.*first_member);
    const bool has_second = read(second, object_.*second_member);
    if (!read(both, object_.*first_member)) return;
    if (has_first || has_second) where_.fail("{} stands for {} and {}; give it, or them, not both", both, first, second);
    object_.*second_member = object_.*first_member;
  }

  template <typename T, typename Rule = Anything>
  void list(std::string_view name, std::vector<T> S::*member, const Rule& = {}) {
    const FieldDescriptor& descriptor = field_of(message_, name);
    const int count = size_of(message_, descriptor);
    std::vector<T>& values = object_.*member;
    values.resize(to_size(count));
    for (int i = 0; i < count; ++i) {
      const auto at = to_size(i);
      read_value(message_, descriptor, i, values[at], Path(where_, name, at));
    }
  }

 private:
  template <typename T>
  bool read(std::string_view name, T& value) {
    const FieldDescriptor& descriptor = field_of(message_, name);
    if (!is_set(message_, descriptor)) return false;
    read_value(message_, descriptor, kSingle, value, Path(where_, name));
    return true;
  }

  const Message& message_;
  S& object_;
  const Path& where_;
};

template <typename S>
class FieldWriter {
 public:
  FieldWriter(const S& object, Message& message) : object_(object), message_(message) {}

  template <typename T, typename Rule = Anything>
  void field(std::string_view name, T S::*member, Presence presence, const Rule& = {}) {
    if (presence == Presence::kDefaulted && object_.*member == defaults().*member) return;
    write_value(object_.*member, message_, field_of(message_, name));
  }

  template <typename T, typename Rule>
  void pair(std::string_view both, std::string_view first, std::string_view second, T S::*first_member, T S::*second_member,
            Presence presence, const Rule& rule) {
    if (object_.*first_member == object_.*second_member) {
      const bool is_default = object_.*first_member == defaults().*first_member && object_.*second_member == defaults().*second_member;
      if (presence != Presence::kDefaulted || !is_default) write_value(object_.*first_member, message_, field_of(message_, both));
      return;
    }
    field(first, first_member, Presence::kRecorded, rule);
    field(second, second_member, Presence::kRecorded, rule);
  }

  template <typename T, typename Rule = Anything>
  void list(std::string_view name, std::vector<T> S::*member, const Rule& = {}) {
    const FieldDescriptor& descriptor = field_of(message_, name);
    for (const T& value : object_.*member) write_value(value, message_, descriptor);
  }

 private:
  static const S& defaults() {
    static const S made;
    return made;
  }

  const S& object_;
  Message& message_;
};

template <typename S>
class FieldChecker {
 public:
  FieldChecker(const S& object, const Path& where) : object_(object), where_(where) {}

  template <typename T, typename Rule = Anything>
  void field(std::string_view name, T S::*member, Presence, const Rule& rule = {}) {
    check_field(object_.*member, rule, Path(where_, name));
  }

  template <typename T, typename Rule>
  void pair(std::string_view both, std::string_view first, std::string_view second, T S::*first_member, T S::*second_member, Presence,
            const Rule& rule) {
    if (object_.*first_member == object_.*second_member) return check_field(object_.*first_member, rule, Path(where_, both));
    check_field(object_.*first_member, rule, Path(where_, first));
    check_field(object_.*second_member, rule, Path(where_, second));
  }

  template <typename T, typename Rule = Anything>
  void list(std::string_view name, std::vector<T> S::*member, const Rule& rule = {}) {
    const std::vector<T>& values = object_.*member;
    if (values.size() > kMostEntries) Path(where_, name).fail("{} entries; at most {} are allowed", values.size(), kMostEntries);
    for (size_t i = 0; i < values.size(); ++i) check_field(values[i], rule, Path(where_, name, i));
  }

 private:
  const S& object_;
  const Path& where_;
};

template <typename T>
void Codec<T>::read(const Message& message, T& value, const Path& where) {
  FieldReader<T> reader(message, value, where);
  Fields<T>::visit(reader);
}

template <typename T>
void Codec<T>::write(const T& value, Message& message) {
  FieldWriter<T> writer(value, message);
  Fields<T>::visit(writer);
}

template <typename T>
void Codec<T>::check(const T& value, const Path& where) {
  FieldChecker<T> checker(value, where);
  Fields<T>::visit(checker);
  if constexpr (requires { Fields<T>::check(value, where); }) Fields<T>::check(value, where);
}

}  // namespace millrace::text
