// Readers of devices that load the same weights at the same time: each byte is read once.
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

namespace kvcal::cuda {

class BackgroundReader;

/// What all members have offered is read by the first of them, into one slot of pinned memory after the other; from
/// there it is copied to each device. Who is ahead waits for the others. Members must outlive their membership.
class ReaderGroup {
 public:
  void join(BackgroundReader& reader);

  /// The others wait for this one no longer. Not while it waits for what it offered.
  void leave(BackgroundReader& reader);

  bool has(const BackgroundReader& reader);

  /// What the reader wants has been collected. Once all have offered, they want the same or the reading fails.
  void offer(BackgroundReader& reader);

  /// Takes the offer back, if there is one; false: the others have made theirs, and it is being read.
  bool withdraw(const BackgroundReader& reader);

  /// Returns when what this member has offered is being read, or was: by that member, which stays until received().
  BackgroundReader& reader_for(const BackgroundReader& reader);
  void received(const BackgroundReader& reader);

 private:
  struct Member {
    BackgroundReader* reader;
    bool offered = false;
    BackgroundReader* read_by = nullptr;  // what it offered and has not received; null: not yet
  };
  Member& member(const BackgroundReader& reader);
  void read_if_complete();

  std::mutex mutex_;  // guards all below, and what a member wants from its offer on
  std::condition_variable begun_;
  std::vector<Member> members_;
};

}  // namespace kvcal::cuda
