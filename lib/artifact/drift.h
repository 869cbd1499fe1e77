// Statistics of live traffic against a scale file: does what a server caches today still fit the scales?
//
// Values are known exactly: every bf16 code is counted. Of tokens the statistics keep the octave of their largest
// magnitude in each head, so the share of clipped tokens is exact where the range ends between octaves, and lies
// between two bounds elsewhere.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "artifact/artifact.h"
#include "stats/run_record.h"

namespace kvcal {

struct DriftLimits {
  double clipped = 0;            // share of a head's values; or twice what the calibration clipped itself
  double lost = 0.1;             // share of energy; or twice what the calibration lost itself
  std::optional<double> growth;  // of absmax, 0.25 = 25 %; none: headroom is there to be used
};

enum class DriftLimit { NotFinite, Clipped, Lost, Growth };
std::string_view name_of(DriftLimit limit);  // "not_finite", "clipped", "lost", "growth"

/// Where a limit is broken first: the statistics, and their first prompt (of a recording: interval) beyond the limit;
/// "" where that cannot be told.
struct DriftSince {
  std::string statistics, prompt;
  bool operator==(const DriftSince&) const = default;
};

/// A site of a layer. Shares are of its worst head (latent: part), figures those of the statistics where they are
/// worst.
struct SiteDrift {
  int layer = 0;
  bool is_mtp = false;
  std::string site;  // "key", "value" or "latent", "query"
  uint64_t n_tokens = 0, n_not_finite = 0;
  float absmax = 0;
  double growth = -1;   // absmax / the file's - 1; infinite where the file saw zeros only
  double headroom = 0;  // scale · max / absmax, of the head with the least; infinite where all is zero
  double clipped = 0;   // share of values with |x| > scale · max
  double clipped_tokens = 0, clipped_tokens_most = 0;  // share of tokens with such a value: at least, at most
  double lost = 0;  // share of energy clipped or below the smallest normal number (solve/error_model.h)
  std::vector<DriftLimit> broken;
  std::optional<DriftSince> since;  // where something is broken
};

/// Statistics are added one after the other, oldest first.
class Drift {
 public:
  /// Throws Error for a scale for each channel: what clips there is not known of heads.
  Drift(const Artifact& artifact, DriftLimits limits);

  /// Throws Error, beginning with the name, for statistics of another model or with other layers than the scale file,
  /// and for those without a token. An MTP layer may be missing on either side.
  void add(const std::string& name, const Statistics& statistics);

  /// All sites of all layers, in the order of the file; of the MTP layer where some statistics have it.
  const std::vector<SiteDrift>& sites() const { return sites_; }
  /// What was not compared: a sentence each.
  const std::vector<std::string>& notes() const { return notes_; }
  bool within() const;

 private:
  const Artifact& artifact_;
  DriftLimits limits_;
  std::vector<SiteDrift> sites_;
  std::vector<std::string> notes_;
};

}  // namespace kvcal
