// Answers tests/reference/arch/differential.py: one JSON request a line in, one JSON answer a line out.
//   {"config": config.json's content}                            what the program makes of it
//   {"model": folder, "sequences": [[token ids]], "out": file}   the same, and runs them in f32
// An answer is the spec, or {"error": message}. The file gets what was tapped, as <sequence>.<layer>.<site>, and
// <sequence>.logits. Built by make test-arch-reference only.
#include <iostream>

#include "capacity/weight_bytes.h"
#include "checkpoint/safetensors_writer.h"
#include "harness/whole_run.h"

using namespace kvcal;

namespace {

Json describe(const ModelSpec& spec) {
  Json caches = Json::object();
  for (const KvLayout& c : spec.caches) {
    std::vector<int> readers;
    for (const LayerSpec& reader : spec.layers)
      if (reader.shares_cache == c.cache) readers.push_back(reader.index);
    caches[std::to_string(c.layer)] = {{"n_heads", c.n_heads},       {"n_kv_heads", c.n_kv_heads},
                                       {"head_dim_k", c.head_dim_k}, {"head_dim_v", c.head_dim_v},
                                       {"window", c.window},         {"softmax_scale", c.softmax_scale},
                                       {"shared_by", readers}};
  }
  return {{"n_layers", spec.layers.size()}, {"vocab", spec.vocab}, {"hidden", spec.hidden},
          {"tied", spec.tied_head},         {"caches", caches},    {"parameters", parameters_of(spec)}};
}

constexpr std::pair<Site, const char*> kSites[] = {
    {Site::Query, "query"}, {Site::Key, "key"}, {Site::Value, "value"}, {Site::Latent, "latent"}};

std::string name_of(const ModelSpec& spec, const RecordingTap::Key& key) {
  const auto [sequence, cache, site] = key;
  const std::string at =
      std::to_string(sequence) + "." + std::to_string(spec.caches[static_cast<size_t>(cache)].layer) + ".";
  for (const auto& [known, name] : kSites)
    if (site == known) return at + name;
  return at + "query" + std::to_string(static_cast<int>(site) - static_cast<int>(Site::Latent));
}

void write(const std::map<std::string, const std::vector<float>*>& tensors, const std::filesystem::path& path) {
  SafetensorsWriter file(path, Existing::Replace);
  for (const auto& [name, values] : tensors) file.declare(name, DType::F32, {static_cast<int64_t>(values->size())});
  for (const auto& [name, values] : tensors) file.write(name, std::as_bytes(std::span(*values)));
  file.commit();
}

Json run(const Json& request) {
  LoadedModel m(request["model"].get<std::string>(), {Precision::F32, 1, true});
  WholeRun result;
  result.run(m, request["sequences"].get<std::vector<std::vector<int32_t>>>());
  const ModelSpec& spec = m.model->spec();
  std::map<std::string, const std::vector<float>*> tensors;
  for (const auto& [key, recorded] : result.tap.seen)
    if (recorded.n_tokens > 0) tensors[name_of(spec, key)] = &recorded.values;
  for (const auto& [sequence, logits] : result.logits.logits) tensors[std::to_string(sequence) + ".logits"] = &logits;
  write(tensors, request["out"].get<std::string>());
  Json answer = describe(spec);
  answer["unclaimed"] = m.weights.report().unclaimed;
  return answer;
}

Json answer(const Json& request) {
  try {
    return request.contains("config") ? describe(parse_model(request["config"])->spec()) : run(request);
  } catch (const Error& e) {
    return {{"error", e.what()}};
  }
}

}  // namespace

int main() try {
  for (std::string line; std::getline(std::cin, line);) std::cout << answer(parse_json(line)).dump() << std::endl;
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return 2;
}
