// Loading the weights of one layer while another computes.
#pragma once

#include <cstdint>

#include "base/file_region.h"

namespace kvcal {

/// Between collect() and start() the backend's load_* calls only note what is wanted; what they return may be used once
/// finish() has returned. One set of weights at a time.
class WeightReader {
 public:
  virtual ~WeightReader() = default;

  /// Host tensors given to load_* from here on, if `files` knows their memory, must stay until finish() or cancel().
  virtual void collect(const FileLocator& files) = 0;

  /// Begins to read, in the background, into memory that nothing queued before this call uses any more.
  virtual void start() = 0;

  /// Returns when everything has been read; ops called from here on see it. Throws Error when a file could not be read.
  virtual void finish() = 0;

  /// Devices that were opened together read once what all of them want: from join() to leave() each wants the same in
  /// the same order, and gets it when all that have joined have asked. One that fails, or wants no more, leaves. Others
  /// read for themselves.
  virtual void join() {}
  virtual void leave() noexcept {}

  /// Bytes this reader has sent so far, to its device and those that it reads for.
  virtual uint64_t bytes_copied() const = 0;

  /// Forgets what was collected and waits for what is being read, for whoever gives up.
  virtual void cancel() noexcept = 0;
};

}  // namespace kvcal
