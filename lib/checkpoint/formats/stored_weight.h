// Quantized weights of a checkpoint: which tensors make up one weight, and what they mean. The tensors themselves tell
// the format; the config is asked only for what they leave open.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "tensor/dtype.h"
#include "tensor/encoded_weight.h"
#include "tensor/shape.h"

namespace kvcal {

/// What the tensors do not tell themselves, from the quantization object of config.json or of the file beside it.
struct QuantizationFacts {
  bool weights_quantized = false;              // whether there is such an object that speaks of weights
  std::vector<std::array<int64_t, 2>> blocks;  // sizes [out, in] that scales of blocks may have; none: 128 x 128
  bool zeros_less_one = true;  // GPTQ: zero points are stored less one (neither gptq_v2 nor AutoRound's own packing)
  std::string unread;          // the format's name when no file of this folder reads it: "bitsandbytes", "AWQ gemv"
  std::vector<int> bits;       // of packed integers, 1 to 8, as config_groups has them
  std::vector<int64_t> group_sizes;  // of columns, above 0: of the whole model, of config_groups, of single modules
  bool zero_points = false;          // whether all of config_groups say that weights are not symmetric
  bool ordered = false;              // whether columns are in groups by an order of their own (g_idx), by all of it
};
QuantizationFacts read_quantization_facts(const Checkpoint& checkpoint);

/// A weight as a model asks for it.
struct WeightRequest {
  const Checkpoint& checkpoint;
  const QuantizationFacts& facts;
  std::string name;  // of the plain weight: "model.layers.0.mlp.up_proj.weight", "….mlp.experts.gate_up_proj"
  Shape shape;       // [out, in], or [experts, out, in]

  int64_t experts() const { return shape.rank() == 3 ? shape[0] : 1; }
  int64_t out() const { return shape[-2]; }
  int64_t in() const { return shape[-1]; }
  /// The name of a tensor beside it: beside("_scale") is "….weight_scale", or "….gate_up_proj_scale" of all experts, or
  /// "….gate_up_proj_weight_scale" where that is there; module("qweight") is "….qweight".
  std::string beside(std::string_view suffix) const;
  std::string module(std::string_view tensor) const;
};

/// The tensor whose elements multiply rectangles of a weight [out, in] as they are: a factor of a rectangle can be put
/// into its element. F32, BF16, F16 or F8_E4M3, or the exponent of a power of two (U8, F8_E8M0).
struct RectangleScales {
  std::string name;
  int64_t rows = 0, columns = 0;  // of a rectangle; the last of each may be cut off
  int64_t n_rows = 0, n_columns = 0;
  bool inputs_first = false;  // stored as [n_columns, n_rows]
  std::string order{};        // the tensor that has the rectangle of each column (g_idx); "": they are runs of columns
};

struct StoredWeight {
  std::string_view format;         // "FP8", "AWQ", ...
  std::vector<std::string> parts;  // full names of the tensors that hold it
  /// Reads the scales, once for all rows. Throws Error for one that is no finite number and for a group index that does
  /// not exist.
  std::function<DecodeRows()> open;
  RectangleScales scales{};              // of a weight of two dimensions
  std::function<WeightCodes()> codes{};  // where a device may decode it
};

/// Finds out how the weight is stored. Reads shapes only; nothing when its tensors fit no known format. Throws Error
/// naming the tensor whose companion is missing or has another shape.
std::optional<StoredWeight> find_stored_weight(const WeightRequest& request);

/// Throws Error when config.json names a format that is not read, and the weight is there in it.
void refuse_unread_format(const WeightRequest& request);

/// Throws Error for a format that no server but its own reads.
void refuse_modelopt_int4(const WeightRequest& request);

/// One of each file of this folder: nothing unless the weight is stored in that way.
std::optional<StoredWeight> find_awq(const WeightRequest& request);
std::optional<StoredWeight> find_gptq(const WeightRequest& request);
std::optional<StoredWeight> find_mxfp4(const WeightRequest& request);
std::optional<StoredWeight> find_nvfp4(const WeightRequest& request);
std::optional<StoredWeight> find_one_byte(const WeightRequest& request);
std::optional<StoredWeight> find_pack_quantized(const WeightRequest& request);

/// The tensor's description when it is there with one of the dtypes; null otherwise.
const TensorInfo* find_typed(const WeightRequest& request, const std::string& name,
                             std::initializer_list<DType> dtypes);

/// A tensor beside a weight that not every weight of the format has; null without it. Throws Error when it has another
/// type, or is not there and config.json says that it is (`said`).
const TensorInfo* find_part(const WeightRequest& request, const std::string& name, std::initializer_list<DType> dtypes,
                            bool said, std::string_view format);

/// Throws Error where config.json has sizes of groups, and not this one of `scales`. All inputs as one group are fine.
void check_group_size(const WeightRequest& request, const TensorInfo& scales, int64_t size, std::string_view format);

/// The tensor beside a weight that its format cannot do without. Throws Error.
const TensorInfo& need_companion(const WeightRequest& request, const std::string& name, std::string_view format);

/// Throws Error unless the tensor has the shape.
void check_shape(const WeightRequest& request, const TensorInfo& found, const Shape& expected, std::string_view format);

}  // namespace kvcal
