// cp.async: what is copied arrives when the thread that asked for it waits, and until then nobody may look.
#include "ptx/forms.h"

namespace ptx {
namespace {

constexpr unsigned kCopied = 16;  // of .cg there is no other size

void start(Warp& warp, const Instruction& i, Lanes lanes) {
  for_each_lane(lanes, [&](unsigned lane) {
    const uint32_t bytes = warp.values<uint32_t>(i.from[0])[lane], n_valid = warp.values<uint32_t>(i.from[1])[lane];
    if (bytes != kCopied) throw Error("cp.async.cg of " + std::to_string(bytes) + " bytes");
    if (n_valid > bytes)
      throw Error("cp.async reads " + std::to_string(n_valid) + " bytes for " + std::to_string(bytes));
    const uint64_t from = warp.address(i.address[1], lane);
    if (from % kCopied != 0) throw Error("cp.async from an address that is not aligned to 16 bytes");
    const std::byte* const source = n_valid > 0 ? warp.memory().global(from, n_valid) : nullptr;
    const Copy copy{warp.address(i.address[0], lane), source, bytes, n_valid};
    warp.memory().begin_copy(copy.to, bytes, warp.thread(lane));
    warp.start_copy(lane, copy);
  });
}

void commit(Warp& warp, const Instruction&, Lanes lanes) {
  for_each_lane(lanes, [&](unsigned lane) { warp.commit_copies(lane); });
}

void wait(Warp& warp, const Instruction& i, Lanes lanes) {
  for_each_lane(lanes, [&](unsigned lane) { warp.wait_copies(lane, warp.values<uint32_t>(i.from[0])[lane]); });
}

}  // namespace

void add_copy_forms(Forms& forms) {
  const Type number = type_of<uint32_t>();
  forms["cp.async.cg.shared.global"] = {&start, {}, {number, number}, {Space::Shared, Space::Global}};
  forms["cp.async.commit_group"] = {&commit, {}, {}};
  forms["cp.async.wait_group"] = {&wait, {}, {number}};
}

}  // namespace ptx
