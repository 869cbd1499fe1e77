// kvcal-export.json of a folder from a stranger: an Error, or names that stay within the folder, since --undo renames
// and removes them.
#include "export/record.h"
#include "fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvcal;
  const JsonLimits limits{.max_bytes = size_t{1} << 20, .max_depth = 8};
  fuzzing::accepts([&] {
    const ExportRecord record = record_from_json(parse_json({reinterpret_cast<const char*>(data), size}, limits));
    for (const RecordedFile& file : record.files) {
      fuzzing::require(!file.name.empty(), "a file has a name");
      for (const std::string& name : {file.name, file.original}) {
        fuzzing::require(name.find('/') == name.npos && name != "..", "a name stays within the folder");
        fuzzing::require(name.find('\0') == name.npos, "a name is no C string's end");
      }
    }
  });
  return 0;
}
