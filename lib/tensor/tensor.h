// Tensor: a copyable, contiguous, row-major view. Storage: its move-only owner. Neither knows arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace kvcal {

/// Where the bytes are. Host code may only dereference Host tensors. Stored: nowhere yet; the tensor stands for a
/// weight as a checkpoint stores it (tensor/encoded_weight.h).
enum class Device : uint8_t { Host, Stored, Cuda };

class EncodedMatrix;

/// View of bytes owned by somebody else (a Storage, an Arena, a mapped file). Null data means "absent".
struct Tensor {
  void* data = nullptr;
  Shape shape;
  DType dtype = DType::F32;
  Device device = Device::Host;
  const EncodedMatrix* encoded = nullptr;  // what a Stored one is a part of

  explicit operator bool() const { return data != nullptr; }
  int64_t dim(int i) const { return shape[i]; }
  int64_t elements() const { return shape.elements(); }
  size_t bytes() const { return (static_cast<size_t>(elements()) * static_cast<size_t>(bits_of(dtype)) + 7) / 8; }

  /// Elements as T; asserts that T has the size of the dtype and the tensor is on the host.
  template <class T>
  T* as() const {
    assert(sizeof(T) * 8 == static_cast<size_t>(bits_of(dtype)) && device == Device::Host);
    return static_cast<T*>(data);
  }

  /// The same elements with another shape of equal element count.
  Tensor reshaped(const Shape& s) const;

  /// Rows [from, from + n) of the outermost dimension.
  Tensor rows(int64_t from, int64_t n) const;
};

/// "BF16 [1024, 4096]"
std::string str(const Tensor& tensor);

struct FreeBlock {
  size_t bytes = 0;
  void operator()(void* memory) const;
};

/// Host memory of one tensor, 64-byte aligned, not initialized. Throws Error when there is none.
class Storage {
 public:
  Storage() = default;
  Storage(const Shape& shape, DType dtype);
  /// Of a tensor that is not in memory, and what it stands for.
  Storage(const Tensor& view, std::shared_ptr<const EncodedMatrix> encoded)
      : encoded_(std::move(encoded)), view_(view) {}

  const Tensor& tensor() const { return view_; }
  explicit operator bool() const { return static_cast<bool>(view_); }

 private:
  std::unique_ptr<void, FreeBlock> memory_;
  std::shared_ptr<const EncodedMatrix> encoded_;
  Tensor view_;
};

}  // namespace kvcal
