#include "servers/stored_scales.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "checkpoint/text_prefix.h"
#include "checkpoint/weight_files.h"
#include "tensor/small_floats.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;
using Owner = StoredScale::Owner;

bool has_word(std::string_view name, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return name.find(word) != name.npos; });
}

bool is_of_tower(std::string_view name) { return has_word(name, {"visual", "vision", "audio", "image", "speech"}); }

bool is_of_draft(std::string_view name) {
  return name.starts_with("mtp.") || has_word(name, {".mtp.", "nextn", "draft", "eagle"});
}

/// One under the number behind the last layer's.
bool is_of_mtp(const ModelSpec& spec, const std::string& prefix, std::string_view name) {
  return !spec.mtp_names.empty() && name.starts_with(prefix + spec.mtp_names);
}

Owner owner_of_layer(const LayerSpec& layer) {
  if (layer.cache >= 0) return Owner::NoModule;  // the layer has a cache, but this is not the module that owns it
  return layer.shares_cache >= 0 ? Owner::SharedKv : Owner::NoKv;
}

void place(const ModelSpec& spec, const std::string& prefix, int64_t layer_number, StoredScale& s) {
  for (const KvLayout& cache : spec.caches)
    if (s.attention == module_name(prefix, cache)) {
      s.owner = Owner::Cache;
      s.cache = cache.cache;
      s.layer = cache.layer;
      return;
    }
  const std::string_view name = s.attention;
  if (is_of_tower(name)) {
    s.owner = Owner::Tower;
  } else if (is_of_draft(name) || is_of_mtp(spec, prefix, name)) {
    s.owner = Owner::Draft;
  } else if (!name.starts_with(prefix + spec.layer_prefix)) {
    s.owner = Owner::NoModule;
  } else if (layer_number < 0 || layer_number >= static_cast<int64_t>(spec.layers.size())) {
    s.owner = Owner::NoLayer;
  } else {
    s.layer = static_cast<int>(layer_number);
    s.owner = owner_of_layer(spec.layers[static_cast<size_t>(layer_number)]);
  }
}

std::vector<float> values_of(const Checkpoint& checkpoint, const TensorInfo& info) {
  return info.shape.elements() > kMostStoredValues ? std::vector<float>{} : floats_of(checkpoint, info);
}

std::vector<std::string> scales_in(const fs::path& shard) {
  std::vector<std::string> names;
  KvScaleName parsed;
  const SafetensorsFile file(shard);
  for (const TensorInfo& info : file.tensors())
    if (parse_kv_scale_name(info.name, parsed)) names.push_back(info.name);
  return names;
}

/// Files beside the shards of the index; without an index there are none that servers would pass over.
std::vector<StoredScales::Unlisted> unlisted_scales(const fs::path& folder, const WeightFiles& files) {
  std::vector<StoredScales::Unlisted> found;
  if (files.index.empty()) return found;
  std::set<fs::path> beside;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors" && !entry.path().filename().string().starts_with("consolidated"))
      beside.insert(entry.path());
  for (const fs::path& shard : files.shards) beside.erase(shard);
  for (const fs::path& path : beside)
    for (const std::string& name : scales_in(path)) found.push_back({path.filename().string(), name});
  return found;
}

StoredScales read_scales(const Checkpoint& checkpoint, const ModelSpec& spec, const std::string& prefix) {
  StoredScales all;
  all.declaration = read_kv_declaration(checkpoint.config(), checkpoint.folder());
  all.tensor_prefix = prefix;
  const WeightFiles files = find_weight_files(checkpoint.folder());
  std::map<std::string, std::string> shards;  // by tensor
  for (const fs::path& shard : files.shards)
    for (const std::string& name : scales_in(shard)) shards[name] = shard.filename().string();
  KvScaleName parsed;
  for (const std::string& name : checkpoint.names()) {
    if (!parse_kv_scale_name(name, parsed)) continue;
    const TensorInfo& info = *checkpoint.find(name);
    StoredScale s;
    s.tensor = name;
    s.file = shards.at(name);
    s.dtype = info.dtype;
    s.shape = info.shape;
    s.values = values_of(checkpoint, info);
    s.site = parsed.site;
    s.zero_point = parsed.zero_point;
    s.attention = std::string(parsed.attention);
    s.spelling = std::string(parsed.spelling);
    place(spec, all.tensor_prefix, parsed.layer, s);
    all.tensors.push_back(std::move(s));
  }
  all.unlisted = unlisted_scales(checkpoint.folder(), files);
  return all;
}

}  // namespace

std::vector<float> floats_of(const Checkpoint& checkpoint, const TensorInfo& info) {
  std::vector<float> values(static_cast<size_t>(info.shape.elements()));
  std::vector<std::byte> bytes(info.bytes);
  checkpoint.read(info.name, 0, bytes);
  if (info.dtype == DType::F32 || info.dtype == DType::F16 || info.dtype == DType::BF16 || info.dtype == DType::F64) {
    convert_to_float(info.dtype, bytes.data(), values.data(), values.size());
  } else if (info.dtype == DType::F8E4M3 || info.dtype == DType::F8E5M2) {
    const auto& table = info.dtype == DType::F8E4M3 ? e4m3_values() : e5m2_values();
    for (size_t i = 0; i < values.size(); ++i) values[i] = table[static_cast<uint8_t>(bytes[i])];
  } else {
    values.clear();
  }
  return values;
}

std::string_view name_of(StoredScale::Owner owner) {
  constexpr std::array<std::string_view, 7> kNames = {
      "a layer with a cache",          "a layer that reads another layer's cache",
      "a layer without a KV cache",    "a layer that does not exist",
      "an encoder of images or sound", "a draft head",
      "a module that owns no cache"};
  return kNames[static_cast<size_t>(owner)];
}

std::vector<const StoredScale*> StoredScales::of(int cache, KvScaleName::Site site) const {
  std::vector<const StoredScale*> found;
  for (const StoredScale& s : tensors)
    if (s.owner == Owner::Cache && s.cache == cache && s.site == site && !s.zero_point) found.push_back(&s);
  return found;
}

bool StoredScales::any_of_caches() const {
  return std::ranges::any_of(tensors, [](const StoredScale& s) { return s.owner == Owner::Cache && !s.zero_point; });
}

bool StoredScales::reads_as_written(const StoredScale& reader, const ModelSpec& spec) const {
  const auto written = of(spec.layers[static_cast<size_t>(reader.layer)].shares_cache, reader.site);
  return !written.empty() && written[0]->values == reader.values;
}

ModelSpec presumed_spec(const Checkpoint& checkpoint, bool latent) {
  constexpr std::string_view kBias = ".k_proj.bias";
  constexpr size_t kMostPresumedCaches = 1024;
  std::map<std::string, int64_t> modules;  // and how many elements their key bias has
  KvScaleName parsed;
  for (const std::string& name : checkpoint.names()) {
    if (is_of_tower(name) || is_of_draft(name)) continue;
    if (parse_kv_scale_name(name, parsed)) modules.try_emplace(std::string(parsed.attention), 0);
    if (name.ends_with(kBias))
      modules[name.substr(0, name.size() - kBias.size())] = checkpoint.find(name)->shape.elements();
  }
  ModelSpec spec;
  if (modules.size() > kMostPresumedCaches) return spec;
  for (const auto& [name, width] : modules) {
    KvLayout cache;
    cache.cache = cache.layer = static_cast<int>(spec.caches.size());
    cache.name = name;
    if (latent) cache.kind = "mla";
    cache.n_heads = 0;  // not known, and with it how many scales a layer may have
    cache.n_kv_heads = 1;
    cache.head_dim_k = cache.head_dim_v = width;
    spec.caches.push_back(cache);
    spec.layers.push_back({cache.layer, LayerKind::Attention, cache.cache});
  }
  return spec;
}

StoredScales read_presumed_scales(const Checkpoint& checkpoint, const ModelSpec& presumed) {
  return read_scales(checkpoint, presumed, "");
}

StoredScales read_stored_scales(const Checkpoint& checkpoint, const ModelSpec& spec) {
  return read_scales(checkpoint, spec, detect_prefix(checkpoint, spec.embedding).model);
}

}  // namespace kvcal
