// --to sglang-json: the file of --quantization-param-path, one scale per layer for key and value together, per
// tensor-parallel rank. Rules: SGLang 0.5.23, model_loader/weight_utils.py, executed; vLLM 0.4.1 to 0.6.6 read the
// same.
#include <map>

#include "artifact/json_text.h"
#include "base/number_text.h"
#include "base/read_file.h"
#include "export/export.h"
#include "export/layer_scales.h"
#include "export/serve.h"
#include "export/targets.h"

namespace kvcal {
namespace {

constexpr size_t kFileBytes = size_t{64} << 20;

/// Whether '--to sglang' has the scales loaded.
bool loads_from_checkpoint(const ExportInput& input) {
  const KvCarrier carrier = input.carrier.kind == KvCarrier::None ? KvCarrier::CompressedTensors : input.carrier.kind;
  return server_support(verified_server(ServerKind::Sglang), input.model.spec.architecture, carrier).loads;
}

void check(const ExportInput& input) {
  check_format(input.artifact, {"fp8_e4m3"}, "the file is for fp8_e4m3");
  check_per_tensor(input.artifact, "the file");
  if (input.artifact.kv_cache.empty())
    fail("one joint scale for key and value is not enough: " + input.artifact.kv_cache_left_out +
         "; use '--to sglang', which writes one for each");
  const ServerSupport support =
      server_support(verified_server(ServerKind::Sglang), input.model.spec.architecture, input.carrier.kind);
  if (!support.json)
    fail("SGLang " + str(support.server).substr(7) + " reads no such file for " + input.model.spec.architecture +
         ": it stops with 'model does not support loading scaling factors'" +
         (support.plugin.empty() ? "" : "; " + plugin_advice(support, input)) +
         (loads_from_checkpoint(input) ? "" : fold_advice(support, input)));
  if (input.carrier.kind != KvCarrier::None && input.carrier.kind != KvCarrier::Other)
    fail("with a checkpoint quantized by " + input.carrier.method +
         " the file stops SGLang with a TypeError (it makes parameters for scales); use '--to sglang'");
}

ExportPlan plan(const ExportInput& input) {
  check(input);
  ExportPlan result;
  Json ranks = Json::object(), rank = Json::object();
  for (size_t layer = 0; layer < input.artifact.kv_cache.size(); ++layer) {
    const float scale = input.artifact.kv_cache[layer];
    rank[std::to_string(layer)] = json_number(scale);
    result.scales.push_back({static_cast<int>(layer), "joint", std::to_string(layer), {scale}});
  }
  for (int64_t i = 0; i < input.options.tensor_parallel; ++i) ranks[std::to_string(i)] = rank;
  const Json file = {{"model_type", input.artifact.model_type},
                     {"kv_cache", {{"dtype", "float8_e4m3fn"}, {"scaling_factor", ranks}}}};
  result.files = {{"", json_text(file)}};
  std::string command = sglang_command(input.model.folder.string(), "fp8_e4m3") + " --quantization-param-path " +
                        shell_word(input.out.string()) + " --attention-backend trtllm_mha";
  if (input.options.tensor_parallel > 1) command += " --tp " + std::to_string(input.options.tensor_parallel);
  result.serving.commands = {command};
  result.serving.snippet = sglang_snippet();
  result.serving.notes = {
      "the larger of key and value scale of each layer; layers without a cache have 1.0",
      "SGLang 0.5.23 keeps these as bare numbers: of its attention backends only trtllm_mha applies them as meant (FA3 "
      "stops with an AttributeError, FlashInfer divides on writing and does not multiply on reading)",
      "SGLang ignores a file for another tensor-parallel size with one log line, and runs at 1.0",
      "the flag value must be fp8_e4m3; with 'auto' the file is not read"};
  return result;
}

void read_back(const ExportInput& input, const ExportPlan& plan, const std::filesystem::path& written) {
  const Json file = parse_json(read_file(written, kFileBytes));
  if (get_string(file, "model_type") != input.artifact.model_type) fail("the file has another model_type");
  const Json& ranks = file.at("kv_cache").at("scaling_factor");
  if (static_cast<int64_t>(ranks.size()) != input.options.tensor_parallel)
    fail("the file has other ranks than intended");
  for (const auto& rank : ranks.items()) {
    if (rank.value().size() != input.model.spec.layers.size()) fail("the file does not have every layer");
    for (const PlannedScale& s : plan.scales)
      if (static_cast<float>(get_number(rank.value(), s.name.c_str())) != s.values.front())
        fail("layer " + s.name + " has another value than intended");
  }
}

}  // namespace

Exporter sglang_json_exporter() {
  return {"sglang-json", "the file of SGLang's --quantization-param-path, for --tp N",
          false,         plan,
          read_back,     {"--tp", [](const ExportRequest& r) { return r.options.tensor_parallel != 1; }, ""},
          true,          "SGLang"};
}

}  // namespace kvcal
