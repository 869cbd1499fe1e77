// Weights that are not in memory as values but as a checkpoint stores them: what a tensor of Device::Stored stands for.
// It is sliced, its rows are selected and it is transposed like any other; who loads it decodes it, on a device or in
// threads of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tensor/scale_grid.h"
#include "tensor/tensor.h"

namespace kvcal {

/// Rows [first, first + n) of a weight seen as [experts · out, in].
struct WeightRows {
  int64_t first, n;
};

/// Writes rows of a weight: products in f32, rounded to bf16 once. Several threads may call it.
using DecodeRows = std::function<void(WeightRows, bf16*)>;

/// An element of a weight, before its scale. Those of four bits lie two to a byte, low half first.
enum class WeightCode : uint8_t { E4M3, E5M2, Int8, E2M1, Uint8Less128, Uint4Less8 };
inline int bits_of(WeightCode code) { return code == WeightCode::E2M1 || code == WeightCode::Uint4Less8 ? 4 : 8; }

/// All that decoding takes, for code of a device: a value is its code times the scale of its rectangle, which has the
/// global one in it. In memory of the host, which a file may be mapped to.
struct WeightCodes {
  WeightCode code;
  const std::byte* codes;  // [rows, row_bytes]
  int64_t row_bytes;
  ScaleGrid grid;
  std::string scales_name;
  Tensor scales;  // grid.size(experts) elements, of a type that scales_of() takes
  /// Of an expert: what its scales are multiplied by, or divided by. Reads it, and throws Error when it is not finite.
  std::function<float(int64_t expert)> global{};
  bool divided = false;
};

/// n scales from the first on, as floats: F32, BF16, F16, F8_E4M3 or (as powers of two) U8 and F8_E8M0. `data` is the
/// tensor's memory or a copy of a part of it, anywhere. Throws Error naming the tensor when one is not finite.
std::vector<float> scales_of(const std::string& name, DType type, const void* data, WeightRows scales);

/// A weight [rows, columns] as it is stored.
class EncodedWeight {
 public:
  struct Form {
    std::string reading;  // what an error begins with: "reading 'folder'"
    int64_t rows = 0, columns = 0;
    std::function<DecodeRows()> open;      // reads the scales
    std::function<WeightCodes()> codes{};  // of what a device may decode; else absent
  };
  explicit EncodedWeight(Form form) : form_(std::move(form)) {}

  const Form& form() const { return form_; }

  /// On the processor; several threads may call it. Throws Error for a damaged scale.
  void decode(WeightRows rows, bf16* to) const;

 private:
  const Form form_;
  mutable std::once_flag opened_;
  mutable DecodeRows decode_rows_;
};

/// Of every `group` rows from `first` on, the n at `offset`. By default all.
struct RowGroups {
  int64_t first = 0, group = 1, offset = 0, n = 1;
  int64_t row(int64_t i) const { return first + i / n * group + offset + i % n; }
  bool all() const { return n == group; }
};

/// Rows [first_row, first_row + n_rows) of the groups' rows, and columns of them; transposed: as [n_columns, n_rows].
struct EncodedPart {
  std::shared_ptr<const EncodedWeight> weight;
  RowGroups groups{};
  int64_t first_row = 0, n_rows = 0, first_column = 0, n_columns = 0;
  bool transposed = false;
};

/// A tensor of BF16 that stands for the part. It has addresses, by which slices of it are told; nothing is there.
Storage standing_for(const EncodedPart& part, const Shape& shape);

/// A tensor of that shape for whoever counts weights and has none, in memory as far as ops can tell: its first elements
/// are zeros, which nobody may write, and more must not be read. Whether a tensor, or what it is a slice of, is such.
constexpr int64_t kMostZeros = int64_t{1} << 20;
Storage of_no_weight(const Shape& shape);
bool is_of_no_weight(const Tensor& tensor);

/// What a tensor of Device::Stored stands for.
EncodedPart part_of(const Tensor& stored);

/// The same with these rows of it, or transposed. Nothing (absent memory) where such a part of a part has no form.
Storage selected(const Tensor& stored, const RowGroups& groups, int64_t n);
Storage turned(const Tensor& stored);

/// Its values, decoded now.
Storage decoded(const Tensor& stored);

/// Rows [first, first + n) of a matrix that is not transposed.
void decode(const EncodedPart& part, WeightRows rows, bf16* to);

}  // namespace kvcal
