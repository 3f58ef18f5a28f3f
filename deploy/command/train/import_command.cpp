// `millrace import`: networks that other programs have written, as a folder that every other command takes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "core/base/error.h"
#include "core/exchange/keras_import.h"
#include "core/exchange/onnx_import.h"
#include "core/graph/model_readers.h"
#include "core/graph/zoo.h"
#include "core/train/checkpoint.h"
#include "core/train/torch_names.h"
#include "core/train/weights_readers.h"
#include "deploy/command/line/command.h"
#include "deploy/command/line/flag_checks.h"
#include "deploy/command/train/model_readers.h"

namespace millrace {
namespace {

struct ImportFlags {
  std::string onnx, keras, model, weights, out;
};

// Weights that another program has saved for a network known here.
Imported import_weights(const std::string& model, const std::string& weights) {
  Imported imported;
  imported.model = find_model(model);
  imported.source = fmt::format("{} ({})", std::filesystem::path(weights).filename().string(), imported.model.name);
  const WeightsFit fit = fit_weights(Graph(imported.model), load_weights(weights));
  if (!fit.missing.empty() || !fit.misshapen.empty()) fail(ErrorCode::kMismatch, "{}: {}", weights, fmt::join(fit.notes(), "; "));
  imported.notes = fit.notes();
  imported.weights = fit.taken;
  for (const auto& [name, tensor] : fit.taken) imported.tensors.push_back({name, fit.sources.at(name), "as it is"});
  return imported;
}

int import_model(const ImportFlags& flags) {
  const int given = (flags.onnx.empty() ? 0 : 1) + (flags.keras.empty() ? 0 : 1) + (flags.model.empty() ? 0 : 1);
  if (given != 1) fail(ErrorCode::kUsage, "say what to read: one of --onnx FILE, --keras FILE, and --model NAME with --weights FILE");
  if (!flags.onnx.empty() && !flags.weights.empty())
    fail(ErrorCode::kUsage, "--weights has no effect beside --onnx, whose file holds them; leave it out");
  if (!flags.model.empty() && flags.weights.empty())
    fail(ErrorCode::kUsage, "--model {}: its weights are missing; add --weights FILE", flags.model);
  const Imported imported = !flags.onnx.empty()    ? import_onnx(std::filesystem::path(flags.onnx))
                            : !flags.keras.empty() ? import_keras(flags.keras, flags.weights)
                                                   : import_weights(flags.model, flags.weights);
  write_imported(imported, flags.out);
  fmt::print("{}: {} layers, {} tensors in {}\n", imported.source, imported.model.layers.size(), imported.tensors.size(), flags.out);
  for (const std::string& note : imported.notes) fmt::print("  {}\n", note);
  return 0;
}

}  // namespace

void add_import_command(CLI::App& app, Invocation& invocation) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App* command = app.add_subcommand("import", "a network of another program: its model, weights and a record of every tensor");
  command->footer(
      "\nExamples:\n  millrace import --onnx net.onnx --out net\n  millrace import --keras net.keras --out net\n"
      "  millrace import --keras net.json --weights net.h5 --out net\n"
      "  millrace import --model resnet18 --weights resnet18.safetensors --out net\n");
  not_empty(command->add_option("--onnx", flags->onnx, "an ONNX file"));
  not_empty(command->add_option("--keras", flags->keras, "a .keras or .h5 file, or the architecture as .json"));
  not_empty(
      command->add_option("--model", flags->model, "a network known here, for the weights of a .safetensors file under PyTorch's names"));
  not_empty(command->add_option("--weights", flags->weights, "the weights beside a .json (.h5) or for --model (.safetensors)"));
  not_empty(
      command->add_option("--out", flags->out, "the folder to make; a checkpoint of step 0 for eval, predict and export")->required());
  command->callback([flags, &invocation] { invocation.run = [flags] { return import_model(*flags); }; });
}

void know_foreign_models() {
  for (const char* const ending : {".keras", ".h5"}) {
    add_model_reader(ending, [](const std::filesystem::path& path) { return import_keras(path).model; });
    add_weights_reader(ending, [](const std::filesystem::path& path) { return import_keras(path).weights; });
  }
  add_model_reader(".onnx", [](const std::filesystem::path& path) { return import_onnx(path).model; });
  add_weights_reader(".onnx", [](const std::filesystem::path& path) { return import_onnx(path).weights; });
}

}  // namespace millrace
