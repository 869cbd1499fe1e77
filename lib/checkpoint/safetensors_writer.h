// Writing safetensors files with canonical bytes: equal content gives equal files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic_file.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace kvcal {

using SafetensorsMetadata = std::map<std::string, std::string>;

/// Streams tensors into a file that appears only when all are written. Canonical: `__metadata__` first, tensors sorted
/// by name in the header and in the data, no spaces except the padding of the header to a multiple of 8 bytes.
/// Declare all tensors, then write their bytes in name order, then commit. Throws Error when the disk is full, the
/// target exists (Existing::Refuse), or the calls do not fit the declarations.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, Existing existing, SafetensorsMetadata metadata = {});

  void declare(std::string name, DType dtype, const Shape& shape);

  /// The next bytes of the tensor; a tensor may come in pieces, but tensors come in name order.
  void write(std::string_view name, std::span<const std::byte> bytes);
  void write(std::string_view name, const Tensor& tensor);
  void commit();

 private:
  struct Entry {
    std::string name;
    DType dtype;
    Shape shape;
    uint64_t bytes;
  };
  void write_header();
  void skip_finished();

  AtomicFile file_;
  SafetensorsMetadata metadata_;
  std::vector<Entry> entries_;  // sorted once the header is written
  bool header_written_ = false;
  size_t current_ = 0;
  uint64_t written_ = 0;  // bytes of the current entry
};

}  // namespace kvcal
