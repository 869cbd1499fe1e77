#include "tensor/encoded_weight.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "tensor/small_floats.h"

namespace kvcal {

/// A part of a weight with addresses of its own. Nobody may read them: what does ends the program instead of going on
/// with values that are none.
class EncodedMatrix {
 public:
  explicit EncodedMatrix(EncodedPart part) : part_(std::move(part)) {
    bytes_ = std::max<size_t>(static_cast<size_t>(part_.n_rows * part_.n_columns) * sizeof(bf16), 1);
    base_ = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base_ == MAP_FAILED) fail("out of addresses for a weight of " + std::to_string(bytes_) + " bytes");
  }
  EncodedMatrix() = default;  // a part of no weight
  ~EncodedMatrix() {
    if (base_) ::munmap(base_, bytes_);
  }
  EncodedMatrix(const EncodedMatrix&) = delete;
  EncodedMatrix& operator=(const EncodedMatrix&) = delete;

  void* base() const { return base_; }

  EncodedPart slice(const Tensor& t) const {
    const int64_t width = part_.transposed ? part_.n_rows : part_.n_columns;
    const int64_t at = (static_cast<char*>(t.data) - static_cast<char*>(base_)) / static_cast<int64_t>(sizeof(bf16));
    assert(at % width == 0 && t.elements() % width == 0);
    EncodedPart part = part_;
    (part.transposed ? part.first_column : part.first_row) += at / width;
    (part.transposed ? part.n_columns : part.n_rows) = t.elements() / width;
    return part;
  }

 private:
  EncodedPart part_;
  size_t bytes_ = 0;
  void* base_ = nullptr;
};

std::vector<float> scales_of(const std::string& name, DType type, const void* data, WeightRows scales) {
  const auto n = static_cast<size_t>(scales.n);
  std::vector<float> values(n);
  const auto* bytes = static_cast<const uint8_t*>(data);
  if (type == DType::F8E4M3) {
    for (size_t i = 0; i < n; ++i) values[i] = e4m3_values()[bytes[i]];
  } else if (type == DType::U8 || type == DType::F8E8M0) {
    for (size_t i = 0; i < n; ++i) values[i] = e8m0_value(bytes[i]);
  } else {
    std::vector<std::byte> aligned(n * size_of(type));
    if (n > 0) std::memcpy(aligned.data(), data, aligned.size());
    while_doing("scales " + quoted(name), [&] { convert_to_float(type, aligned.data(), values.data(), n); });
  }
  for (size_t i = 0; i < n; ++i)
    if (!std::isfinite(values[i]))
      fail("scale " + std::to_string(scales.first + static_cast<int64_t>(i)) + " of " + quoted(name) + " is " +
           std::to_string(values[i]) + ", expected a finite number; is the checkpoint damaged?");
  return values;
}

void EncodedWeight::decode(WeightRows rows, bf16* to) const {
  std::call_once(opened_, [&] { while_doing(form_.reading, [&] { decode_rows_ = form_.open(); }); });
  decode_rows_(rows, to);
}

Storage standing_for(const EncodedPart& part, const Shape& shape) {
  auto matrix = std::make_shared<const EncodedMatrix>(part);
  Tensor view{matrix->base(), shape, DType::BF16, Device::Stored, matrix.get()};
  return {view, std::move(matrix)};
}

Storage of_no_weight(const Shape& shape) {
  static const auto none = std::make_shared<const EncodedMatrix>();
  static bf16 zeros[kMostZeros];
  return {Tensor{zeros, shape, DType::BF16, Device::Host, none.get()}, none};
}

bool is_of_no_weight(const Tensor& tensor) { return tensor.encoded && !tensor.encoded->base(); }

EncodedPart part_of(const Tensor& stored) {
  assert(stored.device == Device::Stored && stored.encoded);
  return stored.encoded->slice(stored);
}

Storage selected(const Tensor& stored, const RowGroups& groups, int64_t n) {
  EncodedPart part = part_of(stored);
  if (part.transposed || !part.groups.all()) return {};
  part.groups = groups;
  part.groups.first += part.first_row;
  part.first_row = 0;
  part.n_rows = n;
  return standing_for(part, {n, part.n_columns});
}

Storage turned(const Tensor& stored) {
  EncodedPart part = part_of(stored);
  if (part.transposed) return {};
  part.transposed = true;
  return standing_for(part, {part.n_columns, part.n_rows});
}

void decode(const EncodedPart& part, WeightRows rows, bf16* to) {
  const int64_t end = part.first_row + rows.first + rows.n;
  for (int64_t i = part.first_row + rows.first; i < end;) {
    const int64_t n = part.groups.all() ? end - i : std::min(end - i, part.groups.n - i % part.groups.n);
    part.weight->decode({part.groups.row(i), n}, to);
    to += n * part.n_columns;
    i += n;
  }
}

Storage decoded(const Tensor& stored) {
  const EncodedPart part = part_of(stored);
  const int64_t columns = part.weight->form().columns;
  Storage values(stored.shape, DType::BF16);
  auto* const to = values.tensor().as<bf16>();
  if (!part.transposed) {
    decode(part, {0, part.n_rows}, to);
    return values;
  }
  EncodedPart rows = part;
  rows.transposed = false;
  std::vector<bf16> row(static_cast<size_t>(columns));
  for (int64_t r = 0; r < part.n_rows; ++r) {
    decode(rows, {r, 1}, row.data());
    for (int64_t c = 0; c < part.n_columns; ++c)
      to[c * part.n_rows + r] = row[static_cast<size_t>(part.first_column + c)];
  }
  return values;
}

}  // namespace kvcal
