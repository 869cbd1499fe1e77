#include "doctor/checkpoint_facts.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/checkpoint.h"
#include "checkpoint/config_file.h"
#include "checkpoint/fingerprint.h"
#include "checkpoint/kv_scale_names.h"
#include "checkpoint/text_prefix.h"
#include "checkpoint/weight_files.h"
#include "model/architecture.h"
#include "servers/stored_scales.h"

namespace kvcal {
namespace {

using Site = KvScaleName::Site;

constexpr size_t kMostBiasElements = size_t{1} << 20;

// The elements as float; nothing for types that hold no numbers of this kind.
std::vector<float> values_of(const Checkpoint& checkpoint, const TensorInfo& info) {
  const bool known = info.dtype == DType::F32 || info.dtype == DType::BF16 || info.dtype == DType::F16;
  const size_t n = info.bytes * 8 / static_cast<size_t>(bits_of(info.dtype));
  if (!known || n == 0 || n > kMostBiasElements) return {};
  std::vector<std::byte> bytes(info.bytes);
  checkpoint.read(info.name, 0, bytes);
  std::vector<float> values(n);
  convert_to_float(info.dtype, bytes.data(), values.data(), n);
  return values;
}

struct Pair {
  std::vector<float> key, value;
};

void count_scale(const KvScaleName& name, const TensorInfo& info, const std::vector<float>& values,
                 CheckpointFacts& facts) {
  facts.n_key_scales += name.site == Site::Key;
  facts.n_value_scales += name.site == Site::Value;
  facts.n_joint += name.site == Site::KeyAndValue;
  facts.n_per_head += values.size() > 1;
  facts.n_unit += std::all_of(values.begin(), values.end(), [](float s) { return s == 1.0f; });
  // 1.19e-07 is the floor that an observer leaves that saw nothing but zeros.
  const bool invalid = std::any_of(values.begin(), values.end(), [](float s) {
    return !std::isfinite(s) || s <= 0 || std::abs(s / 1.1920929e-07f - 1) < 1e-3f;
  });
  if (invalid && facts.n_invalid++ == 0) facts.invalid_example = info.name;
}

void compare_pairs(const std::map<std::string, Pair>& pairs, CheckpointFacts& facts) {
  for (const auto& [attention, pair] : pairs) {
    const bool half = pair.key.empty() != pair.value.empty();
    const bool unequal = !half && pair.key != pair.value;
    facts.n_half_pairs += half;
    facts.n_unequal_pairs += unequal;
    if (half && facts.pair_example.empty()) facts.pair_example = attention;
  }
}

void take_tensors(const Checkpoint& checkpoint, CheckpointFacts& facts) {
  facts.has_tensors = true;
  std::map<std::string, Pair> pairs;
  for (const std::string& tensor : kv_scale_tensors(checkpoint)) {
    KvScaleName name;
    const TensorInfo* info = checkpoint.find(tensor);
    if (!parse_kv_scale_name(tensor, name) || name.zero_point || info == nullptr) continue;
    if (name.site == Site::Query || name.site == Site::Probability) continue;
    const std::vector<float> values = values_of(checkpoint, *info);
    count_scale(name, *info, values, facts);
    Pair& pair = pairs[std::string(name.attention)];
    if (name.site == Site::Key) pair.key = values;
    if (name.site == Site::Value) pair.value = values;
    if (name.site == Site::KeyAndValue) pair.key = pair.value = values;
  }
  compare_pairs(pairs, facts);
}

void take_key_biases(const Checkpoint& checkpoint, CheckpointFacts& facts) {
  for (const std::string& name : checkpoint.names()) {
    if (!name.ends_with("k_proj.bias")) continue;
    for (const float b : values_of(checkpoint, *checkpoint.find(name)))
      if (std::abs(b) > facts.largest_key_bias) {
        facts.largest_key_bias = std::abs(b);
        facts.largest_key_bias_name = name;
      }
  }
}

bool is_power_of_two(float x) {
  int exponent = 0;
  return x > 0 && std::frexp(x, &exponent) == 0.5F;
}

// Scales of weights: activations' beside them, and blocks' that are no powers of two. A few tensors tell.
void take_weight_scales(const Checkpoint& checkpoint, CheckpointFacts& facts) {
  size_t n_looked_at = 0;
  for (const std::string& name : checkpoint.names()) {
    facts.has_input_scales |= name.ends_with(".input_scale");
    const bool of_block = name.ends_with(".weight_scale_inv") || name.ends_with(".weight_scale");
    if (!facts.block_fp8 || !of_block || !facts.uneven_block_scale.empty() || ++n_looked_at > 64) continue;
    const std::vector<float> values = values_of(checkpoint, *checkpoint.find(name));
    if (!std::all_of(values.begin(), values.end(), is_power_of_two)) facts.uneven_block_scale = name;
  }
}

// Servers give a layer that reads another's cache a scale of its own to read with.
void take_readers(const Checkpoint& checkpoint, CheckpointFacts& facts) {
  const ModelSpec spec = parse_model(checkpoint.config())->spec();
  const StoredScales stored = read_stored_scales(checkpoint, spec);
  for (const StoredScale& s : stored.tensors) {
    if (s.owner != StoredScale::Owner::SharedKv || s.zero_point) continue;
    if (s.site != Site::Key && s.site != Site::Value) continue;
    if (stored.reads_as_written(s, spec)) continue;
    if (facts.n_readers_differ++ == 0) facts.reader_example = s.tensor;
  }
}

// transformers keeps its own cache quantized when generation_config.json says so.
void take_generation(const std::filesystem::path& folder, CheckpointFacts& facts) {
  const std::filesystem::path path = folder / "generation_config.json";
  if (!std::filesystem::is_regular_file(path)) return;
  const Json json = read_json_file(path, {.max_bytes = size_t{1} << 20});
  const Json* implementation = json.is_object() ? find_member(json, "cache_implementation") : nullptr;
  facts.quantized_cache = implementation != nullptr && *implementation == "quantized";
}

// Files of tensors that the index does not name hold scales that no server sees.
void take_unlisted_files(const std::filesystem::path& folder, CheckpointFacts& facts) {
  const WeightFiles files = find_weight_files(folder);
  if (files.index_path.empty()) return;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::filesystem::path& path = entry.path();
    if (path.extension() != ".safetensors") continue;
    const bool listed = std::any_of(files.shards.begin(), files.shards.end(),
                                    [&](const auto& shard) { return shard.filename() == path.filename(); });
    if (listed) continue;
    const SafetensorsFile file(path);
    for (const TensorInfo& info : file.tensors()) {
      KvScaleName name;
      if (!parse_kv_scale_name(info.name, name)) continue;
      facts.unlisted_scale_files.push_back(path.filename().string());
      break;
    }
  }
}

bool has_weights(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) return false;
  const auto files = std::filesystem::directory_iterator(folder);
  return std::any_of(begin(files), end(files), [](const auto& f) { return f.path().extension() == ".safetensors"; });
}

}  // namespace

void take_checkpoint(const std::filesystem::path& path, Facts& facts) {
  const ConfigFile file = read_config(path);
  CheckpointFacts& found = facts.checkpoint.emplace();
  found.path = path.string();
  take_config(file.config, facts.model);
  take_quantization(file.config, file.folder, found);
  facts.checkpoint_config_sha256 = config_sha256(file.config);
  if (std::filesystem::is_directory(path)) facts.model_path = path.string();
  if (!std::filesystem::is_directory(path) || !has_weights(file.folder)) return;
  const Checkpoint checkpoint = Checkpoint::open(path);
  take_tensors(checkpoint, found);
  take_key_biases(checkpoint, found);
  take_weight_scales(checkpoint, found);
  take_generation(path, found);
  try {
    take_readers(checkpoint, found);
  } catch (const Error&) {
    // An architecture that the program does not know: which layers share a cache is then not known either.
  }
  take_unlisted_files(file.folder, found);
}

void identify_weights(Facts& facts) {
  if (!facts.scales || !facts.scales->is_artifact || !facts.checkpoint || !facts.checkpoint->has_tensors) return;
  try {
    const Checkpoint checkpoint = Checkpoint::open(facts.checkpoint->path);
    const ModelSpec spec = parse_model(checkpoint.config())->spec();
    const TextPrefix prefix = detect_prefix(checkpoint, spec.embedding);
    const SkipRules rules(prefix.model + "layers.", static_cast<int64_t>(spec.layers.size()));
    facts.checkpoint_fingerprint = weights_fingerprint(checkpoint, language_model_tensors(checkpoint, prefix, rules));
  } catch (const Error&) {
    // An architecture that the program does not know: the comparison of weights is then not evaluated.
  }
}

}  // namespace kvcal
