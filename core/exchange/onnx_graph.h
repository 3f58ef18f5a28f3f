// A graph of ONNX while it is read: constants, activations with the meaning of their axes, and attributes that are all accounted for.
//
//   OnnxNode node(proto, opset);
//   const int64_t group = node.whole("group", 1);
//   node.no_more();                                   // an attribute nobody asked for is a refusal
//
// Internal to core/exchange.
#pragma once

#include <onnx/onnx_pb.h>

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/exchange/network_writer.h"

namespace millrace {

struct OnnxConstant {
  std::string name;
  std::vector<int64_t> dimensions;
  std::vector<float> floats;    // of floating point
  std::vector<int64_t> wholes;  // of everything else that is read
  bool whole = false;
  int64_t elements() const { return static_cast<int64_t>(whole ? wholes.size() : floats.size()); }
};
// Fails with kMalformed, or kUsage for types that are not read.
OnnxConstant read_onnx_tensor(const onnx::TensorProto& tensor, std::string_view origin, const std::filesystem::path& folder);

// A tensor that is computed: a layer's output, its axes in the file's order. N the sample, C, H, W ours, 1 an axis of one, D and c the two
// directions and the units of each, which together are our C.
struct OnnxActivation {
  NetworkValue value;
  std::string axes;
  bool is_scores = false;  // behind a softmax: nothing may follow
};

// The operators that are activations; a kind that is not among them is refused when a model is written.
struct OnnxActivationType {
  const char* type;
  ActivationKind kind;
};
inline constexpr OnnxActivationType kOnnxActivationTypes[] = {{"Relu", ActivationKind::kRelu},
                                                              {"LeakyRelu", ActivationKind::kLeakyRelu},
                                                              {"Sigmoid", ActivationKind::kSigmoid},
                                                              {"Tanh", ActivationKind::kTanh}};

class OnnxNode {
 public:
  OnnxNode(const onnx::NodeProto& proto, int64_t opset) : proto_(proto), opset_(opset) {}

  const std::string& type() const { return proto_.op_type(); }
  int64_t opset() const { return opset_; }
  // As people find it: "Conv \"conv1\"".
  std::string who() const;
  // For the layer: the node's own name, or that of what it makes.
  std::string layer_name() const { return !proto_.name().empty() ? proto_.name() : proto_.output_size() > 0 ? proto_.output(0) : type(); }
  int inputs() const { return proto_.input_size(); }
  // "" when it is left out.
  std::string input(int index) const { return index < proto_.input_size() ? proto_.input(index) : ""; }
  std::string output(int index) const { return index < proto_.output_size() ? proto_.output(index) : ""; }

  bool has(const char* name) const { return find(name) != nullptr; }
  int64_t whole(const char* name, int64_t otherwise);
  float number(const char* name, float otherwise);
  std::string word(const char* name, const std::string& otherwise);
  std::vector<int64_t> wholes(const char* name);
  std::vector<float> numbers(const char* name);
  std::vector<std::string> words(const char* name);
  const onnx::TensorProto* tensor(const char* name);
  // An attribute that changes nothing here.
  void ignore(const char* name) { taken_.insert(name); }
  void no_more() const;

  template <typename... Arguments>
  [[noreturn]] void refuse(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    fail(ErrorCode::kUsage, "{}: {}", who(), fmt::vformat(format, fmt::make_format_args(arguments...)));
  }

 private:
  const onnx::AttributeProto* find(const char* name) const;
  const onnx::AttributeProto* take(const char* name, onnx::AttributeProto::AttributeType type);

  const onnx::NodeProto& proto_;
  int64_t opset_;
  std::set<std::string> taken_;
};

// What operators work on.
struct OnnxGraph {
  NetworkWriter& net;
  std::filesystem::path folder;  // where external data may lie
  int64_t samples = -1;          // of the input, where the file says so
  std::map<std::string, OnnxConstant> constants;
  std::map<std::string, OnnxActivation> activations;
  std::map<std::string, float> filled;  // tensors of one value everywhere, whatever their shape
  struct LastState {
    OnnxActivation steps;  // whose last is meant; its axes are the last state's
    std::string layer;     // its name, once somebody reads it
  };
  std::map<std::string, LastState> last_states;          // that nobody has read yet
  std::map<std::string, std::vector<LastState>> stacks;  // several layers', one behind the other
  std::map<std::string, int> readers;                    // of each value, the graph's outputs included

  // Of a node's input; fail naming the node.
  const OnnxActivation& activation(const OnnxNode& node, int index) const;
  const OnnxConstant& constant(const OnnxNode& node, int index) const;
  // A constant of floating point, as weights are: floats holds as many as its dimensions say.
  const OnnxConstant& weights(const OnnxNode& node, int index) const;
  bool is_constant(const std::string& name) const { return constants.contains(name); }
  void set(const OnnxNode& node, int output, OnnxActivation activation);
  // The outputs from `first` on are read by nobody.
  void refuse_outputs_from(const OnnxNode& node, int first) const;
};

// -1 for the samples of a file that leaves them open.
int64_t extent_of(const OnnxGraph& graph, const OnnxActivation& x, size_t axis);
// A whole number that a file computes from the number of samples, which it leaves open.
inline constexpr int64_t kOpenExtent = INT64_MIN;

// Convert one node; false when the operator is another's.
bool convert_onnx_states(OnnxNode& node, OnnxGraph& graph);
// What reads the name finds an activation there.
void read_last_state(OnnxGraph& graph, const std::string& name);
bool convert_onnx_layer(OnnxNode& node, OnnxGraph& graph);
bool convert_onnx_arrangement(OnnxNode& node, OnnxGraph& graph);
bool convert_onnx_recurrence(OnnxNode& node, OnnxGraph& graph);

}  // namespace millrace
