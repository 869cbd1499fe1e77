// A tiny checkpoint, and a scale file for it whose numbers can be told apart: key 0.01 + layer / 1024, value a quarter,
// query twice of that.
#pragma once

#include <gtest/gtest.h>

#include <concepts>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/read_file.h"
#include "checkpoint/checkpoint.h"
#include "export/layer_scales.h"
#include "export/write_export.h"
#include "unit/checkpoint_folder.h"

namespace kvcal {

inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(KVCAL_SOURCE_DIR) / "tests" / "arch" / "golden" / name;
}

inline float key_scale(int layer) { return 0.01F + static_cast<float>(layer) / 1024; }

inline ArtifactSite site_of(float scale, int64_t n_heads) {
  ArtifactSite site;
  site.scale = scale;
  site.absmax = scale * 224;
  site.absmax_per_head.assign(static_cast<size_t>(n_heads), site.absmax);
  return site;
}

inline Artifact artifact_for(const ModelIdentity& model) {
  Artifact artifact;
  artifact.model_type = model.spec.model_type;
  artifact.model = model_info(model.spec);
  artifact.model.config_sha256 = model.config_sha256;
  artifact.model.weights_fingerprint = model.weights_fingerprint;
  artifact.quantization.dtype = "fp8_e4m3";
  artifact.quantization.max = 448;
  artifact.quantization.policy = "absmax";
  for (const KvLayout& cache : model.spec.caches) {
    ArtifactLayer layer;
    layer.index = cache.layer;
    layer.name = model.tensor_prefix + cache.name;
    layer.kind = cache.kind;
    layer.n_heads = cache.n_heads;
    layer.n_kv_heads = cache.n_kv_heads;
    layer.head_dim_k = cache.head_dim_k;
    layer.head_dim_v = cache.head_dim_v;
    const float key = key_scale(cache.layer);
    layer.query = site_of(key * 2, cache.n_heads);
    if (layer.is_mla()) {
      layer.latent = site_of(key, 1);
    } else {
      layer.key = site_of(key, cache.n_kv_heads);
      layer.value = site_of(key / 4, cache.n_kv_heads);
      layer.joint.scale = key;
    }
    artifact.layers.push_back(layer);
  }
  artifact.kv_cache.assign(model.spec.layers.size(), 1.0F);
  for (const ArtifactLayer& layer : artifact.layers)
    artifact.kv_cache[static_cast<size_t>(layer.index)] = layer.key.scale;
  return artifact;
}

/// Head h has the scale of its site times 1 + h.
inline void make_per_head(Artifact& artifact) {
  artifact.quantization.granularity = Granularity::Head;
  for (ArtifactLayer& layer : artifact.layers)
    for (ArtifactSite* site : {&layer.key, &layer.value, &layer.query})
      for (size_t head = 0; head < site->absmax_per_head.size(); ++head)
        site->scale_per_head.push_back(site->scale * static_cast<float>(1 + head));
}

/// A copy of a golden checkpoint in a folder of its own, to be exported from.
class Exported {
 public:
  explicit Exported(const std::string& name) {
    static int n = 0;
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("kvcal export é " + std::to_string(::getpid()) + "." + std::to_string(n++));
    std::filesystem::create_directories(source());
    for (const char* file : {"config.json", "model.safetensors"})
      std::filesystem::copy_file(golden(name) / file, source() / file);
  }
  ~Exported() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Exported(const Exported&) = delete;
  Exported& operator=(const Exported&) = delete;

  std::filesystem::path source() const { return folder_ / "model"; }
  std::filesystem::path out() const { return folder_ / "out"; }
  const std::filesystem::path& folder() const { return folder_; }
  void write_file(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

  std::string config() const { return read_file(source() / "config.json", 1 << 20); }
  void set_config(const Json& config) const { write_file("model/config.json", config.dump(2) + "\n"); }
  /// What a quantizer would have left.
  void quantize(const Json& block) const {
    Json changed = parse_json(config());
    changed["quantization_config"] = block;
    set_config(changed);
  }

  ModelIdentity model() const { return identify_model(source()); }

  /// Plans and writes; the artifact may be changed before.
  template <std::invocable<Artifact&> Change>
  ExportPlan write(const char* target, Change&& change, const ExportOptions& options = {},
                   WriteOptions how = {.scales_sha256 = "of the scales", .tool_version = "test"}) const {
    const ModelIdentity identity = model();
    Artifact artifact = artifact_for(identity);
    change(artifact);
    check_fits(artifact, identity);
    check_fitness(artifact, options);
    const Carrier carrier = carrier_of(read_config(source()).config, source());
    const ExportInput input = {artifact, identity, carrier, options, "scales.json", how.in_place ? source() : out()};
    const Exporter& exporter = find_exporter(target);
    check_can_keep(exporter, skipped_layers(artifact, options), identity.spec.architecture);
    ExportPlan plan = exporter.plan(input);
    write_export(exporter, input, plan, how);
    return plan;
  }
  ExportPlan write(const char* target, const ExportOptions& options = {}) const {
    return write(
        target, [](Artifact&) {}, options);
  }

  std::string out_text(const std::string& name) const { return read_file(out() / name, 1 << 20); }

 private:
  std::filesystem::path folder_;
};

/// Of a folder: the scales that stand in it, by tensor name.
inline std::map<std::string, std::vector<float>> stored(const std::filesystem::path& folder) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  std::map<std::string, std::vector<float>> all;
  for (const std::string& name : checkpoint.names()) {
    if (!name.ends_with("_scale")) continue;
    const TensorInfo& info = *checkpoint.find(name);
    EXPECT_EQ(info.dtype, DType::F32) << name;
    std::vector<float> values(static_cast<size_t>(info.shape.elements()));
    checkpoint.read(name, 0, std::as_writable_bytes(std::span(values)));
    all[name] = values;
  }
  return all;
}

}  // namespace kvcal
