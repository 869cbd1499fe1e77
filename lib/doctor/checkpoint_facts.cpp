#include "doctor/checkpoint_facts.h"

#include <algorithm>
#include <cmath>

#include "base/json_text.h"
#include "base/or_nothing.h"
#include "check/folder_checks.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/config_file.h"
#include "checkpoint/fingerprint.h"
#include "checkpoint/quantization.h"
#include "checkpoint/text_prefix.h"
#include "export/record.h"
#include "model/architecture.h"
#include "servers/foldable.h"
#include "servers/model_identity.h"

namespace kvcal {
namespace {

using Site = KvScaleName::Site;

constexpr int64_t kMostElements = int64_t{1} << 20;

// Nothing for types that hold no numbers of this kind.
std::vector<float> values_of(const Checkpoint& checkpoint, const TensorInfo& info) {
  return is_plain(info) && info.shape.elements() <= kMostElements ? floats_of(checkpoint, info) : std::vector<float>{};
}

// Counts of all scale tensors, those of towers and draft heads included.
void count_scales(const StoredScales& stored, CheckpointFacts& facts) {
  for (const StoredScale& s : stored.tensors) {
    if (s.zero_point || s.site == Site::Query || s.site == Site::Probability) continue;
    facts.n_key_scales += s.site == Site::Key;
    facts.n_value_scales += s.site == Site::Value;
    facts.n_joint += s.site == Site::KeyAndValue;
    facts.n_per_head += s.values.size() > 1;
    facts.n_unit += std::all_of(s.values.begin(), s.values.end(), [](float x) { return x == 1.0f; });
  }
}

// The checks that validate makes. An unusually small or large scale is no trouble of a server: doctor does not ask.
void check_folder(const FolderUnderTest& folder, CheckpointFacts& facts) {
  facts.fold = check_fold(folder.checkpoint, facts.report);
  // An export of this program has a record; its scales are measured.
  const bool is_measured = or_nothing([&] { return read_record(folder.checkpoint.folder()); }).has_value();
  check_stored_numbers(folder, is_measured, facts.report);
  check_stored_layers(folder, has_modelslim_scales(folder), facts.report);
  check_declaration(folder, facts.report);
  check_modelslim(folder, facts.report);
  check_key_bias(folder, facts.report);
  for (const KeyBias& bias : key_biases(folder)) {
    if (bias.largest <= facts.largest_key_bias) continue;
    facts.largest_key_bias = bias.largest;
    facts.largest_key_bias_name = bias.tensor;
  }
  count_scales(folder.stored, facts);
}

// What the newest servers make of it, and of what config.json says alone.
void check_serving(FolderUnderTest& folder, CheckpointFacts& facts) {
  for (const ServerKind kind : {ServerKind::Vllm, ServerKind::Sglang}) {
    folder.served = {served_by(folder, verified_server(kind))};
    check_servers(folder, facts.served[kind]);
  }
}

void check_declared(CheckpointFacts& facts) {
  for (const ServerKind kind : {ServerKind::Vllm, ServerKind::Sglang})
    if (const std::string error = declaration_error(facts.declaration, kind); !error.empty())
      facts.served[kind].add("V01", "", str(verified_server(kind)), "to start", error);
}

size_t n_fused(const StoredScales& stored) {
  return static_cast<size_t>(std::ranges::count_if(stored.tensors, [](const StoredScale& s) {
    return s.spelling.find("qkv_proj") != std::string::npos && s.site != Site::Query;
  }));
}

size_t n_of_projections(const Checkpoint& checkpoint) {
  return static_cast<size_t>(std::ranges::count_if(checkpoint.names(), [](const std::string& name) {
    return name.ends_with(".k_proj.k_scale") || name.ends_with(".v_proj.v_scale");
  }));
}

// With the caches of a model that the program knows, or else those that the tensors' names tell of.
void take_tensors(const Checkpoint& checkpoint, const std::optional<StoredSpec>& known, bool latent,
                  CheckpointFacts& facts) {
  facts.has_tensors = true;
  facts.n_of_projections = n_of_projections(checkpoint);
  facts.report = {};
  // None where the tensors are not those of a whole model, whose prefix can be told.
  std::optional<StoredScales> stored;
  if (known) stored = or_nothing([&] { return std::optional(read_stored_scales(checkpoint, known->spec)); });
  if (stored) {
    facts.n_fused = n_fused(*stored);
    facts.served.clear();
    FolderUnderTest folder = {
        checkpoint, known->spec, std::move(*stored), {}, {}, known->bare_mtp, read_modelslim(checkpoint.folder())};
    check_serving(folder, facts);
    return check_folder(folder, facts);
  }
  const ModelSpec presumed = presumed_spec(checkpoint, latent);
  check_folder({checkpoint, presumed, read_presumed_scales(checkpoint, presumed), {}}, facts);
}

bool is_power_of_two(float x) {
  int exponent = 0;
  return x > 0 && std::frexp(x, &exponent) == 0.5F;
}

// Scales of weights' blocks that are no powers of two. A few tensors tell.
void take_weight_scales(const Checkpoint& checkpoint, CheckpointFacts& facts) {
  size_t n_looked_at = 0;
  for (const std::string& name : checkpoint.names()) {
    const bool of_block = name.ends_with(".weight_scale_inv") || name.ends_with(".weight_scale");
    if (!facts.declaration.block_weights || !of_block || !facts.uneven_block_scale.empty() || ++n_looked_at > 64)
      continue;
    const std::vector<float> values = values_of(checkpoint, *checkpoint.find(name));
    if (!std::all_of(values.begin(), values.end(), is_power_of_two)) facts.uneven_block_scale = name;
  }
}

// transformers keeps its own cache quantized when generation_config.json says so.
void take_generation(const std::filesystem::path& folder, CheckpointFacts& facts) {
  const std::filesystem::path path = folder / "generation_config.json";
  if (!std::filesystem::is_regular_file(path)) return;
  const Json json = read_json_file(path, {.max_bytes = size_t{1} << 20});
  facts.quantized_cache = text_at(json, "cache_implementation") == "quantized";
}

bool has_weights(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) return false;
  const auto files = std::filesystem::directory_iterator(folder);
  return std::any_of(begin(files), end(files), [](const auto& f) { return f.path().extension() == ".safetensors"; });
}

// What the class says, which may have a width of its own where config.json names none.
void take_widths(const ModelSpec& spec, ModelTraits& model) {
  const KvLayout* other = first_other_layout(spec);
  model.head_widths_differ = trait_of(other != nullptr);
  if (model.latent == Trait::Yes || spec.caches.empty()) return;
  model.head_dim = spec.caches.front().head_dim_k;
  model.global_head_dim = other != nullptr ? other->head_dim_k : 0;
}

}  // namespace

void take_checkpoint(const std::filesystem::path& path, Facts& facts) {
  const ConfigFile file = read_config(path);
  const auto shared = std::make_shared<CheckpointFacts>();
  facts.checkpoint = shared;
  CheckpointFacts& found = *shared;
  found.path = path.string();
  take_config(file.config, facts.model);
  found.declaration = read_kv_declaration(file.config, file.folder);
  check_scheme(found.declaration, file.folder, found.report);
  check_declared(found);
  // None of an architecture that the program does not know, or of a config.json that is not complete.
  const auto spec = or_nothing([&] { return std::optional(parse_model(file.config)->spec()); });
  if (spec) {
    const auto is_recurrent = [](const LayerSpec& l) { return l.state_bytes > 0; };
    facts.model.hybrid = std::ranges::any_of(spec->layers, is_recurrent) ? Trait::Yes : Trait::No;
    take_layers(*spec, facts.model.state);
    take_widths(*spec, facts.model);
    found.foldable = may_be_folded(*spec);
  }
  facts.checkpoint_config_sha256 = config_sha256(file.config);
  if (std::filesystem::is_directory(path)) facts.model_path = path.string();
  if (!std::filesystem::is_directory(path) || !has_weights(file.folder)) return;
  const Checkpoint checkpoint = Checkpoint::open(path);
  const auto known = or_nothing([&] { return std::optional(stored_spec(checkpoint)); });
  take_tensors(checkpoint, known, facts.model.latent == Trait::Yes, found);
  take_weight_scales(checkpoint, found);
  take_generation(path, found);
}

void identify_weights(Facts& facts) {
  if (!facts.scales || !facts.scales->is_artifact || !facts.checkpoint || !facts.checkpoint->has_tensors) return;
  // Of an architecture that the program does not know the comparison of weights is not evaluated.
  facts.checkpoint_fingerprint = or_nothing([&] { return identify_model(facts.checkpoint->path).weights_fingerprint; });
}

}  // namespace kvcal
