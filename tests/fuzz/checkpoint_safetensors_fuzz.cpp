// The safetensors header: whatever the bytes, an Error or a header whose every tensor lies in the file.
#include <span>

#include "checkpoint/safetensors.h"
#include "fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvcal;
  fuzzing::accepts([&] {
    const uint64_t n = safetensors_header_bytes(std::as_bytes(std::span(data, size)), size);
    const std::string_view header(reinterpret_cast<const char*>(data) + 8, n);
    uint64_t total = 0;
    for (const TensorInfo& info : parse_safetensors_header(header, size).tensors) {
      const Tensor view{nullptr, info.shape, info.dtype, Device::Host};
      fuzzing::require(info.offset >= 8 + n && info.offset <= size && info.bytes <= size - info.offset,
                       "a tensor lies in the file");
      fuzzing::require(view.bytes() == info.bytes, "a tensor has the bytes of its shape");
      total += info.bytes;
    }
    fuzzing::require(total == size - 8 - n, "the tensors fill the file");
  });
  return 0;
}
