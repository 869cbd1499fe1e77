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
#include "base/sha256.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace kvcal {

class SafetensorsFile;

using SafetensorsMetadata = std::map<std::string, std::string>;

/// The metadata entry of a sealed file: the SHA-256 of the file with 64 zeros in place of these digits. It ends before
/// the tensors of kUnsealedPrefix, which are the last ones and can be as large as a model's weights: their writer has a
/// checksum in the metadata.
constexpr const char* kSealKey = "kvcal_sha256";
constexpr std::string_view kUnsealedPrefix = "residual.";
enum class Seal { None, Sha256 };

bool is_sealed(const SafetensorsFile& file);

/// Reads the file. Throws Error where it has a seal that is not its own.
void check_seal(const SafetensorsFile& file);

/// Streams tensors into a file that appears only when all are written. Canonical: `__metadata__` first, tensors sorted
/// by name in the header and in the data, no spaces except the padding of the header to a multiple of 8 bytes.
/// Declare all tensors, then write their bytes in name order, then commit. Throws Error when the disk is full, the
/// target exists (Existing::Refuse), or the calls do not fit the declarations.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, Existing existing, SafetensorsMetadata metadata = {},
                    Seal seal = Seal::None);

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
  void put(std::span<const std::byte> bytes);
  void put(std::string_view text) { put(std::as_bytes(std::span(text.data(), text.size()))); }

  AtomicFile file_;
  SafetensorsMetadata metadata_;
  std::vector<Entry> entries_;  // sorted once the header is written
  bool header_written_ = false;
  size_t current_ = 0;
  uint64_t written_ = 0;  // bytes of the current entry
  Seal seal_;
  uint64_t seal_at_ = 0;  // of its digits
  Sha256 sealed_;
};

}  // namespace kvcal
