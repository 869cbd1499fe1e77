#include "fold/tensor_fold.h"

#include <algorithm>
#include <functional>

namespace kvcal {
namespace {

using ReadPiece = std::function<void(uint64_t, std::span<std::byte>)>;  // from a byte of the tensor

bool is_exact(const TensorInfo& info, const TensorFold& fold, Subnormals subnormals, const ReadPiece& read) {
  constexpr uint64_t kPiece = uint64_t{8} << 20;  // bytes, a multiple of every element
  if (!fits(info, fold)) return false;
  const uint64_t size = size_of(info.dtype), elements = info.bytes / size;
  std::vector<std::byte> piece;
  for (uint64_t done = 0; done < info.bytes; done += piece.size()) {
    piece.resize(std::min(info.bytes - done, kPiece));
    read(done, piece);
    if (!multiply_part(fold, info.dtype, elements, done / size, piece, subnormals)) return false;
  }
  return true;
}

}  // namespace

bool fits(const TensorInfo& info, const TensorFold& fold) {
  const auto elements = static_cast<uint64_t>(info.shape.elements());
  return takes_powers(info.dtype) && !fold.exponents.empty() && elements % fold.exponents.size() == 0;
}

bool multiply_part(const TensorFold& fold, DType type, uint64_t elements, uint64_t first, std::span<std::byte> bytes,
                   Subnormals subnormals) {
  const uint64_t size = size_of(type), n = bytes.size() / size, lines = fold.exponents.size();
  const bool by_rows = fold.axis == Axis::Rows;
  const uint64_t row = elements / lines;  // elements of one
  for (uint64_t i = 0; i < n;) {
    const uint64_t at = first + i;
    const uint64_t line = by_rows ? at / row : at % lines;
    uint64_t run = by_rows ? row - at % row : 1;
    if (!by_rows)
      while (line + run < lines && fold.exponents[line + run] == fold.exponents[line]) ++run;
    run = std::min(run, n - i);
    const int exponent = fold.exponents[line];
    std::byte* const numbers = bytes.data() + i * size;
    if (exponent != 0 && !(fold.one_plus ? multiply_one_plus(type, numbers, run, exponent)
                                         : multiply(type, numbers, run, exponent, subnormals)))
      return false;
    i += run;
  }
  return true;
}

bool is_exact(const Checkpoint& checkpoint, const TensorFold& fold, Subnormals subnormals) {
  const TensorInfo& info = *checkpoint.find(fold.name);
  return is_exact(info, fold, subnormals,
                  [&](uint64_t at, std::span<std::byte> piece) { checkpoint.read(info.name, at, piece); });
}

bool is_exact(const SafetensorsFile& shard, const TensorFold& fold, Subnormals subnormals) {
  const TensorInfo& info = *shard.find(fold.name);
  return is_exact(info, fold, subnormals,
                  [&](uint64_t at, std::span<std::byte> piece) { shard.read(info.offset + at, piece); });
}

}  // namespace kvcal
