#include "stats/statistics_metadata.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "stats/further_members.h"
#include "stats/statistics_file.h"

namespace kvcal {
namespace {

/// Far above any model, and small enough that products of two cannot overflow.
constexpr int64_t kMaxExtent = int64_t{1} << 24;

/// "1.x" -> x; throws for anything else.
int64_t minor_of(const std::string& version) {
  const std::string_view major = kStatisticsVersion.substr(0, 2);
  int64_t minor = -1;
  if (version.starts_with(major)) {
    const char* end = version.data() + version.size();
    const auto [stop, error] = std::from_chars(version.data() + major.size(), end, minor);
    if (error != std::errc() || stop != end) minor = -1;
  }
  if (minor < 0) fail("version " + quoted(version) + " of the statistics format; this program reads 1.x");
  return minor;
}

int64_t get_extent(const Json& json, const char* key, int64_t least) {
  const int64_t value = get_int(json, key);
  if (value < least || value > kMaxExtent)
    fail("key " + quoted(std::string(key)) + " is " + std::to_string(value) + ", expected " + std::to_string(least) +
         " to " + std::to_string(kMaxExtent));
  return value;
}

double get_finite(const Json& json, const char* key) {
  const double value = get_number(json, key);
  if (!std::isfinite(value)) fail("key " + quoted(std::string(key)) + " is not finite");
  return value;
}

PairBound pair_bound_of(const std::string& name) {
  static const std::array<PairBound, 3> all = {PairBound::None, PairBound::Neox, PairBound::Gptj};
  std::vector<std::string> known;
  for (const PairBound bound : all) {
    if (name_of(bound) == name) return bound;
    known.emplace_back(name_of(bound));
  }
  fail_unknown("pair bound", name, known);
}

/// The parts of an MLA row.
void read_latent(const Json& json, KvLayout& l) {
  l.latent_dim = get_extent(json, "latent_dim", 1);
  if (l.n_kv_heads != 1 || l.latent_dim >= l.head_dim_k || l.head_dim_v != l.latent_dim)
    fail("a cache of kind 'mla' has " + std::to_string(l.n_kv_heads) + " heads, head_dim_k " +
         std::to_string(l.head_dim_k) + ", head_dim_v " + std::to_string(l.head_dim_v) + ", latent_dim " +
         std::to_string(l.latent_dim) + ", expected one head whose values are the latent part of its row");
}

KvLayout layout_from_json(const Json& json, int64_t cache) {
  KvLayout l;
  if (get_int(json, "cache") != cache)
    fail("key 'cache' is " + std::to_string(get_int(json, "cache")) + ", expected " + std::to_string(cache));
  l.cache = static_cast<int>(cache);
  l.layer = static_cast<int>(get_extent(json, "layer", 0));
  l.name = get_string(json, "name");
  l.kind = get_string(json, "kind");
  if (l.kind != "gqa" && !l.is_mla()) fail("key 'kind' is " + quoted(l.kind) + ", expected 'gqa' or 'mla'");
  l.n_heads = get_extent(json, "n_heads", 0);
  l.n_kv_heads = get_extent(json, "n_kv_heads", 0);
  l.head_dim_k = get_extent(json, "head_dim_k", 0);
  l.head_dim_v = get_extent(json, "head_dim_v", 0);
  if (l.is_mla()) read_latent(json, l);
  l.rotary_dim = get_extent(json, "rotary_dim", 0);
  const int64_t turnable = l.head_dim_k - l.latent_dim;
  if (l.rotary_dim > turnable || l.rotary_dim % 2 != 0)
    fail("key 'rotary_dim' is " + std::to_string(l.rotary_dim) + ", expected an even number up to " +
         (l.is_mla() ? "the width of the rope part, " : "head_dim_k, ") + std::to_string(turnable));
  l.pair_bound = pair_bound_of(get_string(json, "pair_bound"));
  l.softmax_scale = get_finite(json, "softmax_scale");
  l.rope_magnitude = get_finite(json, "rope_magnitude");
  l.window = get_int(json, "window");
  if (l.window < 0) fail("key 'window' is " + std::to_string(l.window) + ", expected 0 or more");
  l.learned_sinks = get_bool_or(json, "learned_sinks", false);
  l.normed_output = get_bool_or(json, "normed_output", false);
  l.capped_logits = get_bool_or(json, "capped_logits", false);
  return l;
}

std::optional<Shard> shard_from_json(const Json& json) {
  const auto member = json.find("shard");
  if (member == json.end()) return std::nullopt;
  return while_doing("shard", [&] {
    Shard shard;
    shard.count = get_extent(*member, "count", 1);
    shard.index = get_extent(*member, "index", 1);
    if (shard.index > shard.count)
      fail("index is " + std::to_string(shard.index) + " of " + std::to_string(shard.count));
    return shard;
  });
}

std::optional<HeadShare> heads_from_json(const Json& json) {
  const auto member = json.find("heads");
  if (member == json.end()) return std::nullopt;
  return while_doing("heads", [&] {
    HeadShare heads;
    heads.size = get_extent(*member, "size", 1);
    heads.rank = get_extent(*member, "rank", 0);
    if (heads.rank >= heads.size) fail("rank is " + std::to_string(heads.rank) + " of " + std::to_string(heads.size));
    const Json* all = find_member(*member, "n_kv_heads");
    if (!all || !all->is_array() || all->size() != json.value("caches", Json::array()).size())
      fail("n_kv_heads is no list with a number for each cache");
    for (const Json& n : *all) {
      if (!n.is_number_integer() || n.get<int64_t>() < 1 || n.get<int64_t>() > kMaxExtent)
        fail("n_kv_heads holds " + n.dump() + ", expected 1 or more");
      heads.n_kv_heads.push_back(n.get<int64_t>());
    }
    return heads;
  });
}

Json block(const Json& json, const char* key) {
  const auto member = json.find(key);
  if (member == json.end()) fail("key " + quoted(std::string(key)) + " is missing");
  return *member;
}

}  // namespace

Json layout_to_json(const KvLayout& l) {
  Json json = {{"cache", l.cache},
               {"layer", l.layer},
               {"name", l.name},
               {"kind", l.kind},
               {"n_heads", l.n_heads},
               {"n_kv_heads", l.n_kv_heads},
               {"head_dim_k", l.head_dim_k},
               {"head_dim_v", l.head_dim_v},
               {"rotary_dim", l.rotary_dim},
               {"pair_bound", name_of(l.pair_bound)},
               {"softmax_scale", l.softmax_scale},
               {"rope_magnitude", l.rope_magnitude},
               {"window", l.window}};
  if (l.is_mla()) json["latent_dim"] = l.latent_dim;
  if (l.learned_sinks) json["learned_sinks"] = true;
  if (l.normed_output) json["normed_output"] = true;
  if (l.capped_logits) json["capped_logits"] = true;
  return json;
}

Json layout_to_json(const StateLayout& l) {
  return {{"layer", l.layer}, {"kind", l.kind}, {"heads", l.heads}, {"keys", l.keys}, {"values", l.values}};
}

std::string_view version_of(const Statistics& statistics) {
  return statistics.states.empty() ? kVersionWithoutStates : kStatisticsVersion;
}

std::string metadata_of(const Statistics& statistics) {
  const RunRecord& run = statistics.run;
  Json json = {{"format", kStatisticsFormat},
               {"version", version_of(statistics)},
               {"model", json_or_null(run.model)},
               {"layers_without_kv", json_or_null(run.layers_without_kv)},
               {"calibration", json_or_null(run.calibration)},
               {"plan_sha256", run.plan_sha256},
               {"tokenizer_sha256", run.tokenizer_sha256},
               {"n_passes", run.n_passes},
               {"sanity", json_or_null(run.sanity)}};
  if (run.shard) json["shard"] = {{"index", run.shard->index}, {"count", run.shard->count}};
  if (run.heads)
    json["heads"] = {{"rank", run.heads->rank}, {"size", run.heads->size}, {"n_kv_heads", run.heads->n_kv_heads}};
  for (const auto& entry : run.tags) json["tags"].push_back(entry.first);
  json["caches"] = Json::array();
  for (const CacheStatistics& cache : statistics.caches) json["caches"].push_back(layout_to_json(cache.layout));
  for (const StateStatistics& state : statistics.states) json["states"].push_back(layout_to_json(state.layout));
  try {
    return json.dump();
  } catch (const Json::exception&) {
    fail("the record of the run holds text that is not UTF-8");
  }
}

namespace {

std::vector<std::string> tags_from_json(const Json& json) {
  std::vector<std::string> tags;
  const Json* list = find_member(json, "tags");
  if (!list) return tags;
  if (!list->is_array()) fail("key 'tags' is no list");
  for (const Json& tag : *list) {
    if (!tag.is_string()) fail("tags holds " + std::string(tag.type_name()) + ", expected texts");
    tags.push_back(tag.get<std::string>());
    if (tags.size() > 1 && tags[tags.size() - 2] >= tags.back()) fail("tags do not ascend at " + quoted(tags.back()));
  }
  return tags;
}

bool is_kind_of_state(std::string_view kind) {
  using enum LayerKind;
  constexpr std::array kKinds = {GatedDeltaNet, KimiDeltaAttention, LightningAttention, Mamba, Mamba2};
  return std::ranges::any_of(kKinds, [&](LayerKind k) { return name_of(k) == kind; });
}

std::vector<StateLayout> states_from_json(const Json& json) {
  std::vector<StateLayout> layouts;
  const Json* list = find_member(json, "states");
  if (!list) return layouts;
  if (!list->is_array()) fail("key 'states' is no list");
  for (const Json& state : *list)
    layouts.push_back(while_doing("states[" + std::to_string(layouts.size()) + "]", [&] {
      StateLayout l;
      l.layer = static_cast<int>(get_extent(state, "layer", 0));
      l.kind = get_string(state, "kind");
      if (!is_kind_of_state(l.kind)) fail("key 'kind' is " + quoted(l.kind) + ", which no recurrent layer is of");
      l.heads = get_extent(state, "heads", 1);
      l.keys = get_extent(state, "keys", 1);
      l.values = get_extent(state, "values", 1);
      // Each is read whole before they are checked together: once is bounded by the file.
      if (!layouts.empty() && l.layer <= layouts.back().layer)
        fail("layer " + std::to_string(l.layer) + " follows " + std::to_string(layouts.back().layer) +
             ", expected ascending layers");
      return l;
    }));
  return layouts;
}

}  // namespace

StatisticsMetadata parse_metadata(std::string_view text) {
  const Json json = parse_json(text, {.max_bytes = size_t{64} << 20, .max_depth = 64, .max_values = size_t{1} << 20});
  const std::string format = get_string(json, "format");
  if (format != kStatisticsFormat)
    fail("format " + quoted(format) + ", expected " + quoted(std::string(kStatisticsFormat)));
  StatisticsMetadata result;
  result.minor_version = minor_of(get_string(json, "version"));
  if (const Json model = block(json, "model"); !model.is_null()) result.run.model = model_info_from(model);
  if (const Json layers = block(json, "layers_without_kv"); !layers.is_null())
    result.run.layers_without_kv = layers_without_kv_from(layers);
  if (const Json calibration = block(json, "calibration"); !calibration.is_null())
    result.run.calibration = calibration_info_from(calibration);
  result.run.plan_sha256 = get_string(json, "plan_sha256");
  result.run.tokenizer_sha256 = get_string_or(json, "tokenizer_sha256", "");
  result.run.shard = shard_from_json(json);
  result.run.n_passes = static_cast<int>(get_extent(json, "n_passes", 0));
  if (const Json sanity = block(json, "sanity"); !sanity.is_null())
    result.run.sanity = sanity_info_from(sanity, "sanity.");
  result.run.heads = heads_from_json(json);
  result.tags = tags_from_json(json);
  const Json caches = block(json, "caches");
  if (!caches.is_array()) fail("key 'caches' is no list");
  for (size_t c = 0; c < caches.size(); ++c)
    result.layouts.push_back(while_doing("caches[" + std::to_string(c) + "]",
                                         [&] { return layout_from_json(caches[c], static_cast<int64_t>(c)); }));
  result.states = states_from_json(json);
  return result;
}

}  // namespace kvcal
