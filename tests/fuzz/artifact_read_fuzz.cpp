// kv-cache-scales.json: schema check and reader take any bytes, and what the reader takes it also writes and reads
// again without a difference.
#include "artifact/artifact.h"
#include "artifact/schema_check.h"
#include "base/read_file.h"
#include "fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvcal;
  static const std::string schema =
      read_file(std::string(KVCAL_SOURCE_DIR "/schemas/") + kArtifactSchemaFile, size_t{1} << 20);
  Json document;
  if (!fuzzing::accepts([&] { document = parse_json({reinterpret_cast<const char*>(data), size}); })) return 0;
  fuzzing::accepts([&] {
    for (const SchemaError& e : check_schema(document, schema))
      fuzzing::require(!e.message.empty() && e.message.find('\n') == std::string::npos, "a finding is one line");
  });
  fuzzing::accepts([&] {
    const Artifact artifact = artifact_from_json(document);
    const std::string text = artifact_text(artifact);
    const Artifact again = artifact_from_json(parse_json(text));
    fuzzing::require(artifact_text(again) == text, "what was read is written and read again unchanged");
  });
  return 0;
}
