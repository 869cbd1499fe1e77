// The safetensors format: 8 bytes header length (little endian), a JSON header, the tensors' bytes back to back.
// https://github.com/huggingface/safetensors describes it. Every claim of the header is checked before any is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/mapped_file.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace kvcal {

struct TensorInfo {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
  uint64_t offset = 0;  // of the first byte, from the beginning of the file
  uint64_t bytes = 0;
};

/// "BF16 [1024, 4096]"
std::string str(const TensorInfo& info);

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // sorted by name
  std::map<std::string, std::string> metadata;
};

/// The same limit as the reference implementation's.
constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

/// Length of the header from the first bytes of a file of file_bytes bytes; throws Error when the file cannot be
/// safetensors (too short, header longer than the file or than the limit, a Git LFS pointer).
uint64_t safetensors_header_bytes(std::span<const std::byte> first_bytes, uint64_t file_bytes);

/// Parses and checks a header that stands at byte 8: known dtypes, extents and sizes without overflow, sizes equal to
/// shape x dtype, tensors back to back without gap or overlap, nothing before, between or after them, no duplicate
/// names.
SafetensorsHeader parse_safetensors_header(std::string_view header, uint64_t file_bytes);

class SafetensorsFile {
 public:
  /// Reads and checks the header. Throws Error beginning with the path.
  explicit SafetensorsFile(const std::filesystem::path& path,
                           MappedFile::Access access = MappedFile::Access::MapOrRead);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }  // sorted by name
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const TensorInfo* find(std::string_view name) const;

  /// Read-only view, aligned for its dtype, although `data` is not const; valid until drop(info) or destruction.
  Tensor tensor(const TensorInfo& info) const;
  void read(uint64_t offset, std::span<std::byte> out) const { file_.read(offset, out); }
  void prefetch(const TensorInfo& info) const { file_.prefetch(info.offset, info.bytes); }
  void drop(const TensorInfo& info) const { file_.drop(info.offset, info.bytes); }
  const MappedFile& file() const { return file_; }

 private:
  MappedFile file_;
  SafetensorsHeader header_;
};

}  // namespace kvcal
