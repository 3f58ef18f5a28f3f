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

template <>
struct Fields<Conv2d> {
  static void visit(auto& v) {
    v.field("out_channels", &Conv2d::out_channels, Presence::kRequired, kSize);
    v.pair("kernel", "kernel_h", "kernel_w", &Conv2d::kernel_h, &Conv2d::kernel_w, Presence::kRecorded, kSize);
    v.pair("stride", "stride_h", "stride_w", &Conv2d::stride_h, &Conv2d::stride_w, Presence::kDefaulted, kSize);
    v.pair("pad", "pad_h", "pad_w", &Conv2d::pad_h, &Conv2d::pad_w, Presence::kDefaulted, kPadding);
    v.pair("dilation", "dilation_h", "dilation_w", &Conv2d::dilation_h, &Conv2d::dilation_w, Presence::kDefaulted, kSize);
    v.field("groups", &Conv2d::groups, Presence::kDefaulted, kSize);
    v.field("bias", &Conv2d::bias, Presence::kDefaulted);
  }
  static void check(const Conv2d& conv, const Path& where);
};

template <>
struct Fields<Dense> {
  static void visit(auto& v) {
    v.field("out_features", &Dense::out_features, Presence::kRequired, kSize);
    v.field("bias", &Dense::bias, Presence::kDefaulted);
  }
};

template <>
struct Fields<Pool2d> {
  static void visit(auto& v) {
    v.pair("kernel", "kernel_h", "kernel_w", &Pool2d::kernel_h, &Pool2d::kernel_w, Presence::kRecorded, kSize);
    v.pair("stride", "stride_h", "stride_w", &Pool2d::stride_h, &Pool2d::stride_w, Presence::kRecorded, kSize);
    v.pair("pad", "pad_h", "pad_w", &Pool2d::pad_h, &Pool2d::pad_w, Presence::kDefaulted, kPadding);
    v.field("ceil_mode", &Pool2d::ceil_mode, Presence::kDefaulted);
    v.field("count_include_pad", &Pool2d::count_include_pad, Presence::kDefaulted);
  }
  static void check(const Pool2d& pool, const Path& where);
};

template <>
struct Fields<GlobalPool> {
  static void visit(auto&) {}
};

// Leaky relu, which alone has a slope; Codec<Layer> writes the other activations without fields.
template <>
struct Fields<Activation> {
  static void visit(auto& v) { v.field("slope", &Activation::slope, Presence::kDefaulted, kFinite); }
};

template <>
struct Fields<BatchNorm> {
  static void visit(auto& v) {
    constexpr Reals kShare{0, 1};
    v.field("epsilon", &BatchNorm::epsilon, Presence::kDefaulted, kPositive);
    v.field("momentum", &BatchNorm::momentum, Presence::kDefaulted, kShare);
  }
};

template <>
struct Fields<LocalResponseNorm> {
  static void visit(auto& v) {
    v.field("size", &LocalResponseNorm::size, Presence::kDefaulted, kSize);
    v.field("alpha", &LocalResponseNorm::alpha, Presence::kDefaulted, kNotNegative);
    v.field("beta", &LocalResponseNorm::beta, Presence::kDefaulted, kFinite);
    v.field("k", &LocalResponseNorm::k, Presence::kDefaulted, kPositive);
  }
};

template <>
struct Fields<Dropout> {
  static void visit(auto& v) { v.field("probability", &Dropout::probability, Presence::kRecorded, kFraction); }
};

template <>
struct Fields<Add> {
  static void visit(auto&) {}
};

template <>
struct Fields<Concat> {
  static void visit(auto&) {}
};

template <>
struct Fields<Flatten> {
  static void visit(auto&) {}
};

template <>
struct Fields<SoftmaxCrossEntropy> {
  static void visit(auto&) {}
};

template <>
struct Fields<Recurrent> {
  static void visit(auto& v) {
    constexpr Integers kOptionalSize{0, kMostDimension};
    v.field("hidden", &Recurrent::hidden, Presence::kRequired, kSize);
    v.field("projection", &Recurrent::projection, Presence::kDefaulted, kOptionalSize);
    v.field("bidirectional", &Recurrent::bidirectional, Presence::kDefaulted);
    v.field("reset_after", &Recurrent::reset_after, Presence::kDefaulted);
    v.field("stateful", &Recurrent::stateful, Presence::kDefaulted);
    v.field("truncation", &Recurrent::truncation, Presence::kDefaulted, kOptionalSize);
  }
  static void check(const Recurrent& cell, const Path& where);
};

template <>
struct Fields<Embedding> {
  static void visit(auto& v) {
    v.field("vocabulary", &Embedding::vocabulary, Presence::kRequired, kSize);
    v.field("dimension", &Embedding::dimension, Presence::kRequired, kSize);
  }
};

template <>
struct Fields<ToSequence> {
  static void visit(auto&) {}
};

template <>
struct Fields<LastStep> {
  static void visit(auto&) {}
};

template <>
struct Fields<CtcLoss> {
  static void visit(auto& v) {
    constexpr Integers kLabel{0, kMostDimension};
    v.field("blank", &CtcLoss::blank, Presence::kDefaulted, kLabel);
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
