// A file of weights, for tests of what reads them.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/file_region.h"
#include "checkpoint/mapped_file.h"
#include "tensor/tensor.h"

namespace kvcal::cuda {

namespace fs = std::filesystem;

/// A file of random floats that are small in every type, and nobody's memory beside it.
class SomeFile final : public FileLocator {
 public:
  static constexpr size_t kBytes = 300'000;

  SomeFile() {
    std::mt19937 random(5);
    std::vector<uint16_t> halves(kBytes / 2);  // as F16, BF16 or F32: finite
    for (uint16_t& h : halves) h = static_cast<uint16_t>((random() & 0x83FF) | 0x3800);
    std::ofstream(path_, std::ios::binary).write(reinterpret_cast<const char*>(halves.data()), kBytes);
    file_ = std::make_unique<MappedFile>(path_);
  }
  ~SomeFile() override { fs::remove(path_); }

  std::optional<FileRegion> locate(const void* address, size_t bytes) const override {
    const auto offset = file_->offset_of(address, bytes);
    return offset ? std::optional(FileRegion{file_.get(), *offset}) : std::nullopt;
  }

  Tensor at(uint64_t offset, int64_t n, DType dtype) const {
    const auto bytes = file_->range(offset, static_cast<uint64_t>(n) * size_of(dtype), 1);
    return {const_cast<std::byte*>(bytes.data()), {n}, dtype};
  }
  const fs::path& path() const { return path_; }

 private:
  inline static int n_files = 0;
  fs::path path_ =
      fs::path(KVCAL_BUILD_DIR) / ("weights-" + std::to_string(::getpid()) + "-" + std::to_string(++n_files));
  std::unique_ptr<MappedFile> file_;
};

}  // namespace kvcal::cuda
