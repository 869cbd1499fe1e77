// What the targets that write scales into a checkpoint folder have in common.
#pragma once

#include <functional>
#include <map>

#include "export/exporter.h"
#include "export/json_edit.h"
#include "export/layer_scales.h"

namespace kvcal {

/// How a server finds the scales of this model in this checkpoint.
struct Naming {
  ServerSupport support;
  ScaleSpelling spelling = ScaleSpelling::Attention;
  bool query = false;
  bool rounded = false;                           // the server keeps them in the model's dtype
  bool half_precision = false;                    // which is float16
  Granularity granularity = Granularity::Tensor;  // or Head
};

/// By the table of servers; the checkpoint's own convention where the server takes it. Throws Error, with the plug-in
/// or the target that helps, when nothing in a checkpoint reaches the cache of this class.
Naming naming_for(const ExportInput& input, ServerKind server, KvCarrier carrier);

/// The value as a server holds it that keeps scales in the model's dtype: exact in bfloat16, rounded up. Throws Error
/// for one that float16 cannot hold.
float held_in_model_dtype(float scale, bool half_precision, const std::string& name);

/// The KV scales that the checkpoint has already, all of which give way to the new ones. Throws Error when there are
/// some and nobody said that they may.
std::vector<std::string> replaced_scales(const ExportInput& input);

/// Tensors of all modules: one element each, in the shape that the convention has, or [heads, 1, 1].
void add_tensors(const std::vector<LayerScales>& scales, const Naming& naming, ExportPlan& plan);

/// config.json with these members set in the object at `path`.
TextFile edited_config(const ExportInput& input, const std::vector<std::string>& path,
                       const std::vector<JsonMember>& members);

/// The members that say "FP8 KV cache, static, per tensor" (or per head) in the words of compressed-tensors.
TextFile compressed_tensors_config(const ExportInput& input, Granularity granularity);

/// A cache in ModelOpt's words: "FP8", "NVFP4", "FP8_K_NVFP4_V"; modules that are not there stay in 16 bits.
struct CacheAlgorithms {
  std::map<std::string, std::string> by_module;
  bool is_list = false;  // one word does not say all: modules are listed
  std::string whole() const;
};

/// Of layers that are not to be kept; `of_layer` is asked for owners of caches.
CacheAlgorithms cache_algorithms(const ExportInput& input, const std::function<std::string(int)>& of_layer);

/// Whether vLLM starts with ModelOpt's config, and finds one word for the cache that it knows.
bool is_served(const ExportInput& input, const CacheAlgorithms& cache);

/// Both places where a ModelOpt checkpoint speaks of its cache.
std::vector<TextFile> modelopt_configs(const ExportInput& input, const CacheAlgorithms& cache);

/// The same for an FP8 cache. Throws when the checkpoint does not quantize weights.
std::vector<TextFile> modelopt_configs(const ExportInput& input);

/// Where there are none: as ModelOpt describes a cache alone.
std::vector<TextFile> new_modelopt_configs(const ExportInput& input, const CacheAlgorithms& cache);

/// Opens the written folder and compares: the tensors are the planned ones, to the bit, and the only KV scales; weights
/// and config are still those of the model.
void read_back_folder(const ExportInput& input, const ExportPlan& plan, const std::filesystem::path& written);

/// How SGLang is started with a folder whose names follow the checkpoint's own convention, and no query scales; a note
/// instead of a command where its class does not take these names.
void add_sglang_command(const ExportInput& input, const Naming& naming, const char* dtype, Serving& serving);

/// The note that says where all this is known from.
void add_evidence(const Naming& naming, Serving& serving);

}  // namespace kvcal
