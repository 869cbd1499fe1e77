#include "stats/model_info.h"

#include "base/sha256.h"
#include "stats/further_members.h"

namespace kvcal {
namespace {

LongRopeInfo longrope_from(const Json& json) {
  constexpr const char* kWhere = "model.longrope.";
  return {get_int(json, "original_positions", kWhere), get_string(json, "list", kWhere)};
}

std::vector<std::string> fingerprints_from(const Json* list) {
  if (!list) fail("key 'model.also_valid_for' is missing");
  if (!list->is_array()) fail(std::string("key 'model.also_valid_for' is ") + list->type_name() + ", expected a list");
  std::vector<std::string> all;
  for (const Json& one : *list) {
    if (!one.is_string())
      fail(std::string("key 'model.also_valid_for' holds ") + one.type_name() + ", expected fingerprints");
    all.push_back(one.get<std::string>());
  }
  return all;
}

Json layer_json(const LayerInfo& layer) {
  Json json = {{"index", layer.index}, {"kind", layer.kind}};
  if (layer.shares_kv_with) json["shares_kv_with"] = *layer.shares_kv_with;
  add_further(layer.further, json);
  return json;
}

}  // namespace

ModelInfo model_info(const ModelSpec& spec) {
  ModelInfo model;
  model.architecture = spec.architecture;
  model.model_type = spec.model_type;
  model.n_layers = static_cast<int64_t>(spec.layers.size()) - spec.n_mtp_layers;
  model.n_kv_layers = static_cast<int64_t>(spec.caches.size()) - spec.n_mtp_layers;  // each has a cache
  model.n_mtp_layers = spec.n_mtp_layers;
  model.max_positions = spec.max_positions;
  if (spec.rope_switch > 0) model.longrope = {spec.rope_switch, spec.above_rope_switch ? "long" : "short"};
  return model;
}

void check_digests(const ModelInfo& model) {
  check_digest("config_sha256", model.config_sha256);
  check_digest("weights_fingerprint", model.weights_fingerprint);
}

Json to_json(const ModelInfo& m) {
  Json json = {{"architecture", m.architecture},
               {"model_type", m.model_type},
               {"n_layers", m.n_layers},
               {"n_kv_layers", m.n_kv_layers},
               {"max_positions", m.max_positions},
               {"tensor_prefix", m.tensor_prefix},
               {"config_sha256", m.config_sha256},
               {"weights_fingerprint", m.weights_fingerprint},
               {"also_valid_for", m.also_valid_for}};
  if (m.longrope)
    json["longrope"] = {{"original_positions", m.longrope->original_positions}, {"list", m.longrope->list}};
  if (m.n_mtp_layers > 0) json["n_mtp_layers"] = m.n_mtp_layers;
  add_further(m.further, json);
  return json;
}

ModelInfo model_info_from(const Json& json) {
  constexpr const char* kWhere = "model.";
  ModelInfo m;
  m.architecture = get_string(json, "architecture", kWhere);
  m.model_type = get_string(json, "model_type", kWhere);
  m.n_layers = get_int(json, "n_layers", kWhere);
  m.n_kv_layers = get_int(json, "n_kv_layers", kWhere);
  m.max_positions = get_int(json, "max_positions", kWhere);
  m.tensor_prefix = get_string(json, "tensor_prefix", kWhere);
  m.config_sha256 = get_string(json, "config_sha256", kWhere);
  m.weights_fingerprint = get_string(json, "weights_fingerprint", kWhere);
  m.also_valid_for = fingerprints_from(find_member(json, "also_valid_for"));
  if (const Json* longrope = find_member(json, "longrope")) m.longrope = longrope_from(*longrope);
  if (find_member(json, "n_mtp_layers")) m.n_mtp_layers = get_int(json, "n_mtp_layers", kWhere);
  m.further = further_members(json, to_json(m));
  return m;
}

std::vector<LayerInfo> layers_without_kv(const ModelSpec& spec) {
  std::vector<LayerInfo> layers;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.cache >= 0) continue;
    LayerInfo info;
    info.index = layer.index;
    info.kind = name_of(layer.kind);
    if (layer.shares_cache >= 0) info.shares_kv_with = spec.caches[static_cast<size_t>(layer.shares_cache)].layer;
    layers.push_back(std::move(info));
  }
  return layers;
}

Json to_json(const std::vector<LayerInfo>& layers) {
  Json list = Json::array();
  for (const LayerInfo& layer : layers) list.push_back(layer_json(layer));
  return list;
}

std::vector<LayerInfo> layers_without_kv_from(const Json& json) {
  if (!json.is_array()) fail(std::string("key 'layers_without_kv' is ") + json.type_name() + ", expected a list");
  constexpr const char* kWhere = "layers_without_kv[].";
  std::vector<LayerInfo> layers;
  for (const Json& entry : json) {
    LayerInfo layer;
    layer.index = get_int(entry, "index", kWhere);
    layer.kind = get_string(entry, "kind", kWhere);
    if (find_member(entry, "shares_kv_with")) layer.shares_kv_with = get_int(entry, "shares_kv_with", kWhere);
    layer.further = further_members(entry, layer_json(layer));
    layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace kvcal
