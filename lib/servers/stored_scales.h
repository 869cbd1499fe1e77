// The KV-cache scales in a checkpoint folder, from any tool: their tensors, their layers and their values.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/kv_scale_names.h"
#include "model/model_spec.h"
#include "servers/kv_declaration.h"

namespace kvcal {

struct StoredScale {
  /// What the module of its name is in the model.
  enum class Owner : uint8_t {
    Cache,     // a layer that owns a KV cache
    SharedKv,  // an attention layer that reads another layer's cache
    NoKv,      // linear attention, Mamba, feed-forward
    NoLayer,   // a layer index that the model does not have
    Tower,     // vision or audio encoder
    Draft,     // multi-token prediction head
    NoModule   // another module of the layer, or another prefix than the checkpoint's
  };

  std::string tensor, file;  // file: name of the shard in the folder
  DType dtype = DType::F32;
  Shape shape;
  std::vector<float> values;  // all of them; empty when there are more than kMostStoredValues, or no float dtype
  KvScaleName::Site site = KvScaleName::Site::Key;
  bool zero_point = false;
  std::string attention;  // "model.layers.3.self_attn"
  std::string spelling;   // ".k_proj.k_scale"
  Owner owner = Owner::NoModule;
  int layer = -1, cache = -1;  // of the model; -1 where the owner has none
};
constexpr int64_t kMostStoredValues = 4096;

/// A tensor's elements; none where its type is no float's.
std::vector<float> floats_of(const Checkpoint& checkpoint, const TensorInfo& info);

std::string_view name_of(StoredScale::Owner owner);

struct StoredScales {
  std::vector<StoredScale> tensors;  // in name order
  KvDeclaration declaration;
  std::string tensor_prefix;  // of the language model in this checkpoint
  struct Unlisted {
    std::string file, tensor;
  };
  std::vector<Unlisted> unlisted;  // scale tensors in files that the index does not name: servers pass over them

  /// The scales of a site of a cache, without zero points: none, one, or several spellings.
  std::vector<const StoredScale*> of(int cache, KvScaleName::Site site) const;

  /// Whether any tensor is a scale of a cache, of whatever site.
  bool any_of_caches() const;

  /// Whether a layer that reads another's cache (Owner::SharedKv) reads with the scale that it was written with.
  bool reads_as_written(const StoredScale& reader, const ModelSpec& spec) const;
};

/// What tensors alone tell of a model that the program does not know: a cache for each attention module of theirs that
/// has scales or a key bias; none where these are more than layers of any model. `latent`: one row for keys and values.
ModelSpec presumed_spec(const Checkpoint& checkpoint, bool latent);

/// The same of such a model, whose caches have whole names.
StoredScales read_presumed_scales(const Checkpoint& checkpoint, const ModelSpec& presumed);

/// Reads all of them. Throws Error for a folder whose tensors cannot be read, or whose text prefix is not clear.
StoredScales read_stored_scales(const Checkpoint& checkpoint, const ModelSpec& spec);

}  // namespace kvcal
