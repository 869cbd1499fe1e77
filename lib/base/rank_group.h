// Processes that share one job, and how they tell each other things. What connects them is a library of its own, opened
// when it is asked for (apps/mpi/).
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace kvcal {

/// One process's view. Called from one thread. A process that ends without finish() ends all. Throws Error where the
/// connection fails.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  virtual int rank() const = 0;  // from 0
  virtual int size() const = 0;
  virtual std::string host() const = 0;
  virtual int ranks_on_host() const = 0;
  virtual int rank_on_host() const = 0;  // from 0

  /// What rank 0 has; all call it.
  virtual std::string broadcast(std::string bytes) = 0;

  virtual void send(int to, std::string_view bytes) = 0;
  virtual std::string receive(int from) = 0;

  /// Waits until all have come here; the last call.
  virtual void finish() = 0;
};

struct RankLibrary {
  const char* interface;  // kRankInterface of the library's build; always first, so that it can always be read
  std::unique_ptr<RankGroup> (*join)();
};

/// Of program and library. It changes with the declarations above, by which both would read each other's objects.
inline constexpr char kRankInterface[] = "kvcal-ranks-2";

/// The one symbol of libkvcal_mpi.so.
extern "C" const RankLibrary* kvcal_mpi_ranks();

}  // namespace kvcal
