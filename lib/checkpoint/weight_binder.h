// Weights by name and expected shape, with messages that say what is wrong with the checkpoint.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/skip_rules.h"
#include "tensor/input_rounding.h"
#include "tensor/tensor.h"

namespace kvcal {

struct StoredWeight;
struct WeightRequest;

/// Hands out tensors below a prefix and remembers, together with all binders made from it, what was asked for. Copies
/// and sub-binders share that memory and refer to the checkpoint, which must outlive them; all methods may be called
/// from several threads.
class WeightBinder {
 public:
  explicit WeightBinder(const Checkpoint& checkpoint, std::string prefix = "");

  /// Of no checkpoint: no name is there, and all that is asked for has the shape that was expected (of_no_weight()).
  static WeightBinder without_checkpoint();

  /// Elements of all that such binders were asked for, each name once.
  int64_t elements_asked() const;

  /// The binder for names below this one's prefix + sub: w.at("layers.3.").
  WeightBinder at(std::string_view sub) const;
  const std::string& prefix() const { return prefix_; }

  /// Those of n modules of one kind: w.modules("experts.", 8) are "experts.0." to "experts.7.". Without a checkpoint
  /// the first, which counts n times.
  std::vector<WeightBinder> modules(std::string_view sub, int64_t n) const;

  /// The tensor in its stored dtype (BF16, F16 or F32), or as BF16 when it is stored in a quantized format
  /// (checkpoint/formats/): a read-only view that lives until release() or the checkpoint's end. Throws Error when it
  /// is missing (with the nearest name or the quantized tensors found in its place), has another shape, or is stored in
  /// a way that is not known.
  Tensor operator()(std::string_view name, const Shape& shape) const;

  /// The same, but elements_asked() leaves it out: a table that is read row by row, which models count beside their
  /// layers, or what the reference framework does not count, such as a bias that is not trained.
  Tensor uncounted(std::string_view name, const Shape& shape) const;

  /// Rows [first, first + n) of such a tensor, of which elements_asked() counts no more.
  Tensor rows(std::string_view name, const Shape& shape, int64_t first, int64_t n) const;

  /// The same, but a tensor without data when there is none of that name.
  Tensor optional(std::string_view name, const Shape& shape) const;

  /// Whether the name exists, or quantized tensors in its place; what the tensor of that name is (null: there is none).
  /// Neither counts as asking for it.
  bool has(std::string_view name) const;
  const TensorInfo* info(std::string_view name) const;

  /// From now on, for this and all binders of the same checkpoint, inputs_of() says how its server rounds activations.
  /// The scheme's name, "fp8_token" for one. Throws Error where there is none, or none that is known.
  std::string emulate_activations() const;

  /// How a server rounds what it multiplies with the weight of this name; none unless emulate_activations().
  InputRounding inputs_of(std::string_view name) const;

  /// With emulate_activations(): throws Error when a quantized weight below the prefix was read and inputs_of() it was
  /// not asked.
  void check_inputs_asked() const;

  /// Counts a tensor as used without reading it (a tied head that is stored all the same); of a weight "x.weight"
  /// everything below "x.", by which names it may be quantized.
  void claim(std::string_view name) const;

  /// The same checkpoint and memory of names, but quantized weights are found and checked only: their tensors have the
  /// right shape and no meaning.
  WeightBinder shapes_only() const;

  /// The same, but quantized weights stay as they are stored, for whoever decodes them while they are loaded: tensors
  /// of Device::Stored.
  WeightBinder as_stored() const;

  /// Whether a weight of this checkpoint may have to be decoded, which takes memory for its BF16 form.
  bool may_decode() const;

  /// Begins to read everything below the prefix; drops the pages of everything below it (views of it end).
  void prefetch() const;
  void release() const;
  uint64_t bytes() const;  // of everything below the prefix

  /// Tells which memory of tensors is a part of which file.
  const FileLocator& files() const { return *checkpoint_; }

  /// Everything in the checkpoint that nobody asked for, by the rule that names it, and what no rule names.
  SkipReport report(const SkipRules& rules) const;

 private:
  struct Shared;
  enum class Decode : uint8_t { Now, Later, Never };
  WeightBinder(const Checkpoint* checkpoint, std::string prefix, std::shared_ptr<Shared> shared, Decode when,
               int64_t times);
  Tensor counted(const std::string& part, const Shape& shape) const;
  Tensor load(const std::string& full, const TensorInfo& found, const Shape& shape) const;
  Tensor decode(const std::string& full, const Shape& shape) const;
  void decode_into(const Tensor& to, const WeightRequest& request, const StoredWeight& stored) const;
  [[noreturn]] void fail_missing(const std::string& full) const;

  const Checkpoint* checkpoint_;  // or none
  std::string prefix_;
  std::shared_ptr<Shared> shared_;
  Decode when_ = Decode::Now;
  int64_t times_ = 1;  // that elements count
};

}  // namespace kvcal
