// `millrace models [NAME] [--json]`: the zoo, or one model layer by layer, on standard output.
//
//   return name.empty() ? list_models(json) : show_model(name, json);
//
// Tables are for people, JSON for scripts; the JSON's keys are a contract:
//   list   models[{name, summary, input, parameters, macs{conv, dense, rnn}}]
//   show   name, input, parameters, layers[{name, op, macs, parameters, output}], macs{conv, dense, rnn}
// `macs` are those of FP for one sample; `input` and `output` are [channels, height, width].
// Both return the exit status 0; an unknown name or a model that makes no sense is an Error.
#pragma once

#include <string>

namespace millrace {

int list_models(bool json);
// A name of the zoo, or the path of a .textproto.
int show_model(const std::string& name_or_path, bool json);

}  // namespace millrace
