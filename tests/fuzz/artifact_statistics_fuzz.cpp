// *.kvstats from anybody: the reader takes any bytes, what it takes is written back byte for byte, solving it ends in
// an artifact or an Error, and comparing formats in numbers.
#include <cmath>

#include "base/read_file.h"
#include "fuzz/fuzzing.h"
#include "solve/format_errors.h"
#include "stats/statistics_file.h"
#include "unit/solved_artifact.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvcal;
  const fuzzing::MemoryFile file(data, size);
  Statistics statistics;
  if (!fuzzing::accepts([&] { statistics = read_statistics(file.path()); })) return 0;
  for (const CacheStatistics& cache : statistics.caches) {
    const CacheSite site = cache.layout.is_mla() ? CacheSite::Latent : CacheSite::Key;
    const FormatErrors errors = format_errors(cache, site, statistics.run, {});
    for (const FormatColumn& column : format_columns())
      fuzzing::require(std::isfinite((errors.*column.error).value_or(0)), "an error is finite");
  }
  fuzzing::accepts([&] {
    const Artifact artifact = solved_artifact(statistics);
    fuzzing::require(!artifact_text(artifact).empty(), "an artifact has a text");
  });
  return 0;
}
