#include "kernels/runtime/reader_group.h"

#include <algorithm>
#include <cassert>

#include "kernels/runtime/background_reader.h"

namespace kvcal::cuda {

ReaderGroup::Member& ReaderGroup::member(const BackgroundReader& reader) {
  const auto found = std::ranges::find(members_, &reader, &Member::reader);
  assert(found != members_.end());
  return *found;
}

void ReaderGroup::join(BackgroundReader& reader) {
  const std::lock_guard lock(mutex_);
  members_.push_back({&reader});
}

void ReaderGroup::leave(BackgroundReader& reader) {
  const std::lock_guard lock(mutex_);
  std::erase_if(members_, [&](const Member& m) { return m.reader == &reader; });
  read_if_complete();
}

bool ReaderGroup::has(const BackgroundReader& reader) {
  const std::lock_guard lock(mutex_);
  return std::ranges::find(members_, &reader, &Member::reader) != members_.end();
}

void ReaderGroup::offer(BackgroundReader& reader) {
  const std::lock_guard lock(mutex_);
  member(reader) = {&reader, true, nullptr};
  read_if_complete();
}

bool ReaderGroup::withdraw(const BackgroundReader& reader) {
  const std::lock_guard lock(mutex_);
  Member& m = member(reader);
  m.offered = false;
  return m.read_by == nullptr;
}

BackgroundReader& ReaderGroup::reader_for(const BackgroundReader& reader) {
  std::unique_lock lock(mutex_);
  begun_.wait(lock, [&] { return member(reader).read_by != nullptr; });
  return *member(reader).read_by;
}

void ReaderGroup::received(const BackgroundReader& reader) {
  const std::lock_guard lock(mutex_);
  member(reader).read_by = nullptr;
}

void ReaderGroup::read_if_complete() {
  if (members_.empty() || !std::ranges::all_of(members_, &Member::offered)) return;
  std::vector<BackgroundReader*> readers;
  for (Member& m : members_) {
    readers.push_back(m.reader);
    m = {m.reader, false, members_.front().reader};
  }
  readers.front()->read_for(readers);
  begun_.notify_all();
}

}  // namespace kvcal::cuda
