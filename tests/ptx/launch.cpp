#include "ptx/launch.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "ptx/warp.h"

namespace ptx {
namespace {

std::string text_of(const emulator::Extent& e) {
  return "(" + std::to_string(e.x) + ", " + std::to_string(e.y) + ", " + std::to_string(e.z) + ")";
}

/// Of the lanes of the warp whose first thread is that one.
Specials specials_of(const Launch& l, const emulator::Extent& index, unsigned first_thread) {
  Specials s;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    const unsigned n = first_thread + lane;
    const std::array<uint32_t, kSpecials> values = {n % l.block.x,
                                                    n / l.block.x % l.block.y,
                                                    n / (l.block.x * l.block.y),
                                                    l.block.x,
                                                    l.block.y,
                                                    l.block.z,
                                                    index.x,
                                                    index.y,
                                                    index.z,
                                                    l.grid.x,
                                                    l.grid.y,
                                                    l.grid.z};
    for (size_t k = 0; k < kSpecials; ++k) s[k][lane] = values[k];
  }
  return s;
}

class Block {
 public:
  explicit Block(const Launch& launch)
      : launch_(launch),
        n_threads_(launch.block.count()),
        memory_(launch.module, launch.program, launch.parameters, launch.shared_bytes, n_threads_) {
    for (size_t first = 0; first < n_threads_; first += kWarp)
      warps_.emplace_back(launch.program, memory_, static_cast<unsigned>(first));
  }

  void run(const emulator::Extent& index) {
    memory_.begin_block();
    for (size_t w = 0; w < warps_.size(); ++w) {
      const auto first = static_cast<unsigned>(w * kWarp);
      warps_[w].begin(static_cast<unsigned>(std::min<size_t>(kWarp, n_threads_ - first)),
                      specials_of(launch_, index, first));
    }
    for (;;) {
      size_t n_done = 0;
      for (Warp& warp : warps_) n_done += warp.run() == Warp::State::Done;
      if (n_done == warps_.size()) return;
      if (n_done > 0) throw Error(std::to_string(n_done) + " warps end while the others wait at a barrier");
    }
  }

  const BankUse& banks() const { return memory_.banks(); }

 private:
  const Launch& launch_;
  size_t n_threads_;
  Memory memory_;
  std::deque<Warp> warps_;
};

void check_block(const Launch& l) {
  const std::array<unsigned, 3> block = {l.block.x, l.block.y, l.block.z}, most = l.program.most_threads;
  for (size_t k = 0; k < 3; ++k)
    if (most[k] > 0 && block[k] > most[k])
      throw Error("blocks of " + text_of(l.block) + " threads, but .maxntid allows " + std::to_string(most[k]));
}

}  // namespace

std::vector<std::byte> parameters_of(const Program& program, const std::vector<emulator::Argument>& arguments) {
  if (arguments.size() != program.parameters.size())
    throw Error(program.name + " has " + std::to_string(program.parameters.size()) + " parameters in PTX, " +
                std::to_string(arguments.size()) + " on the host");
  std::vector<std::byte> bytes(program.parameter_bytes);
  for (size_t k = 0; k < arguments.size(); ++k) {
    const Variable& v = program.parameters[k].variable;
    const emulator::Argument& a = arguments[k];
    if (a.bytes != v.bytes || a.alignment != v.alignment)
      throw Error("parameter '" + v.name + "' has " + std::to_string(v.bytes) + " bytes aligned to " +
                  std::to_string(v.alignment) + " in PTX, " + std::to_string(a.bytes) + " aligned to " +
                  std::to_string(a.alignment) + " on the host");
    std::memcpy(bytes.data() + program.parameters[k].at, a.value, a.bytes);
  }
  return bytes;
}

BankUse run(const Launch& l) {
  check_block(l);
  Block block(l);
  for (unsigned z = 0; z < l.grid.z; ++z)
    for (unsigned y = 0; y < l.grid.y; ++y)
      for (unsigned x = 0; x < l.grid.x; ++x) try {
          block.run({x, y, z});
        } catch (const Error& e) {
          throw Error(l.program.name + ", block " + text_of({x, y, z}) + ": " + e.what());
        }
  return block.banks();
}

}  // namespace ptx
