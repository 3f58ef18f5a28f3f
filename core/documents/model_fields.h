// The fields of the model document. See fields.h; internal to core/documents.
#pragma once

#include "core/documents/fields.h"
#include "core/documents/model.h"

namespace millrace::text {

template <>
struct Fields<Shape> {
  static void visit(auto& v) {
    v.field("channels", &Shape::channels, Presence::kRequired, kSize);
    v.field("height", &Shape::height, Presence::kDefaulted, kSize);
    v.field("width", &Shape::width, Presence::kDefaulted, kSize);
  }
  static void check(const Shape& shape, const Path& where);
};

// Operations list their fields, and the rules between them, themselves.
template <IsOperation T>
struct Fields<T> {
  static void visit(auto& v) { T::fields(v); }
  static void check(const T& operation, const Path& where) {
    if constexpr (requires { operation.check(where); }) operation.check(where);
  }
};

// All but the operation.
template <>
struct Fields<Layer> {
  static void visit(auto& v) {
    v.field("name", &Layer::name, Presence::kRequired, Words::kName);
    v.list("inputs", &Layer::inputs, Words::kName);
    v.field("frozen", &Layer::frozen, Presence::kDefaulted);
    v.field("initializer", &Layer::initializer, Presence::kDefaulted);
  }
  static void check(const Layer& layer, const Path& where);
};

// The operation is a oneof whose fields are called as name_of(Operation) says.
template <>
struct Codec<Layer> {
  static void read(const Message& message, Layer& layer, const Path& where);
  static void write(const Layer& layer, Message& message);
  static void check(const Layer& layer, const Path& where);
};

template <>
struct Fields<Model> {
  static void visit(auto& v) {
    v.field("name", &Model::name, Presence::kRequired, Words::kName);
    v.field("input_kind", &Model::input_kind, Presence::kDefaulted);
    v.field("input", &Model::input, Presence::kRequired);
    v.list("layers", &Model::layers);
  }
  static void check(const Model& model, const Path& where);
};

// In text a layer may leave out that it reads the layer before it.
template <>
struct Codec<Model> {
  static void read(const Message& message, Model& model, const Path& where);
  static void write(const Model& model, Message& message);
  static void check(const Model& model, const Path& where);
};

}  // namespace millrace::text
