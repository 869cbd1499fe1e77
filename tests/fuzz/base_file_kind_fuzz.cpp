// The first bytes of any file: a kind with a name, and no exception.
#include "base/file_kind.h"
#include "fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvcal;
  const FileKind kind = kind_of_bytes({reinterpret_cast<const char*>(data), size});
  fuzzing::require(!name_of(kind).empty(), "every kind has a name");
  return 0;
}
