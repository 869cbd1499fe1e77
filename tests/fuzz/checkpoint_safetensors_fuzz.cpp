// Fuzz entry for the safetensors header: whatever the bytes, an Error or a header whose every tensor lies in the file.
// With clang:
//   clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -Ilib tests/fuzz/checkpoint_safetensors_fuzz.cpp \
//     lib/base/{error,json,json_access,read_file}.cpp lib/tensor/{dtype,tensor}.cpp \
//     lib/checkpoint/{mapped_file,safetensors}.cpp -o safetensors_fuzz
//   ./safetensors_fuzz -max_len=4096 -rss_limit_mb=2048 corpus/
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "base/error.h"
#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvcal;
  try {
    const uint64_t n = safetensors_header_bytes(std::as_bytes(std::span(data, size)), size);
    const std::string_view header(reinterpret_cast<const char*>(data) + 8, n);
    uint64_t total = 0;
    for (const TensorInfo& info : parse_safetensors_header(header, size).tensors) {
      const Tensor view{nullptr, info.shape, info.dtype, Device::Host};
      if (info.offset < 8 + n || info.offset > size || info.bytes > size - info.offset || view.bytes() != info.bytes)
        std::abort();
      total += info.bytes;
    }
    if (total != size - 8 - n) std::abort();
  } catch (const Error& e) {
    if (std::string_view(e.what()).find('\n') != std::string_view::npos) std::abort();
  }
  return 0;
}
