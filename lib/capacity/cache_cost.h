// What one sequence keeps on one GPU: rows of KV caches, which grow with it, and recurrent state, which does not.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capacity/state_cost.h"
#include "model/model_spec.h"

namespace kvcal {

enum class KvFormat : uint8_t {
  BF16,
  FP8,    // one byte; its scales belong to the layer
  NVFP4,  // half a byte, and one byte of scale for every 16 elements of a head
  INT4,   // half a byte; its scales belong to rows, of each head and token
};
std::string_view name_of(KvFormat format);  // "bf16", "fp8", "nvfp4", "int4"
const char* title_of(KvFormat format);      // "BF16", "FP8", "NVFP4", "INT4"

/// Why no server's newest version stores this model's cache in that format, whatever the GPU; "" where one may.
std::string why_not_planned(const ModelSpec& spec, KvFormat format);

/// Layers whose caches cost the same.
struct CacheCost {
  int64_t n_layers = 0;
  int64_t row_bytes = 0;  // one token in one of these layers
  int64_t window = 0;     // tokens that are kept at most; 0: all
  bool is_mla = false;
  bool of_indexer = false;  // its keys, beside the layer's own cache
};

struct SequenceCost {
  std::vector<CacheCost> caches;  // in the order of the layers
  int64_t state_bytes = 0;        // recurrent state of all layers in all slots, whatever the length

  /// One more token, as long as no window is full; and behind all windows.
  int64_t bytes_per_token() const;
  int64_t bytes_per_late_token() const;

  /// Everything that a sequence of this many tokens keeps. Throws Error when that is beyond any machine.
  int64_t bytes(int64_t context) const;
};

/// On each of `tp` GPUs: key-value heads are divided among them; where there are fewer heads than GPUs each has one, a
/// copy. The row of an MLA cache belongs to all heads: every GPU has it whole. Recurrent state is divided. Layers that
/// read another's cache add nothing. The caches of `kept_layers` stay in BF16 whatever the format; the keys of an
/// indexer have a form of their own, and every GPU has them whole.
SequenceCost cost_of_sequence(const ModelSpec& spec, KvFormat format, int64_t tp, std::span<const int> kept_layers = {},
                              const StateStorage& state = {});

/// How the rows of keys or values are stored.
struct StoredRow {
  KvFormat format = KvFormat::BF16;
  bool has_scale = false;  // a float32, or two halves, for each token and head, beside the row
};

/// How the cache of one layer is stored. An MLA row is stored as `key`.
struct StoredLayer {
  int layer = 0;
  StoredRow key, value;
};

/// By the name that evaluate has for a format: "bf16", "fp8_e4m3", "nvfp4", "fp8_e4m3:nvfp4". Of INT8 one byte, as of
/// FP8. Throws Error for a name that it does not know.
StoredLayer stored_layer(int layer, std::string_view format);

/// The same where each layer has a format of its own. All layers that own a cache are among `layers`.
SequenceCost cost_of_sequence(const ModelSpec& spec, std::span<const StoredLayer> layers, int64_t tp,
                              const StateStorage& state = {});

/// Throws Error where servers cannot divide the heads: `tp` must divide the query heads of every layer, and either
/// divide its key-value heads or be a multiple of them. The message lists the sizes that can be had.
void check_tensor_parallel(const ModelSpec& spec, int64_t tp);

/// Whether some cache has fewer key-value heads than there are GPUs, so that these keep copies.
bool copies_heads(const ModelSpec& spec, int64_t tp);

}  // namespace kvcal
