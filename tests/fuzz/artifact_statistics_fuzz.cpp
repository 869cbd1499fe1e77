// *.kvstats from anybody: the reader takes any bytes, what it takes is written back byte for byte, and solving it ends
// in an artifact or an Error.
#include "artifact/make_artifact.h"
#include "base/read_file.h"
#include "fuzz/fuzzing.h"
#include "stats/statistics_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvcal;
  const fuzzing::MemoryFile file(data, size);
  Statistics statistics;
  if (!fuzzing::accepts([&] { statistics = read_statistics(file.path()); })) return 0;
  fuzzing::accepts([&] {
    const Artifact artifact = make_artifact(statistics, {});
    fuzzing::require(!artifact_text(artifact).empty(), "an artifact has a text");
  });
  return 0;
}
