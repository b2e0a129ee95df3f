// Movements of pages: one allocation that both ends use, whose pages move by page faults or prefetches.

#include <atomic>
#include <optional>

#include "memory/host_cache.hpp"
#include "memory/pages.hpp"
#include "memory/thread_pool.hpp"
#include "microbench/transfer/movement.hpp"
#include "microbench/transfer/shared_pages.hpp"

namespace isthmus::microbench::transfer {

namespace {

using workload::Lane;

constexpr std::size_t kWord = sizeof(std::uint64_t);

class PageMovement : public Movement {
 public:
  PageMovement(const End& origin, const End& target, Initiator initiator, const Settings& s, unsigned number)
      : Movement(origin, target, s.bytes), initiator_(initiator), settings_(s), pattern_{s.seed, number} {
    gpu_ = to.on_gpu() ? to.index : from.index;
    info_ = device::info(gpu_);
    const device::Selected on(gpu_);
    pages_.emplace(from, to, s.bytes, s.host);
    stream_.emplace();
    sum_.emplace(gpu(gpu_), kWord, memory::BlockOptions{});
    if (!to.on_gpu() && initiator == Initiator::fault) pool_.emplace(s.threads, s.host.numa_node);
    if (initiator == Initiator::prefetch_batch || initiator == Initiator::discard) cut_ranges();
    write_pattern(pages_->data(), s.bytes, pattern_, true);
    if (initiator == Initiator::fault)
      expected_sum_ = pattern_.sum(s.bytes / kWord, s.touch == Touch::whole ? 1 : memory::page_bytes() / kWord);
  }

  std::size_t needed() const override {
    if (initiator_ != Initiator::fault || settings_.touch == Touch::whole) return moved;
    return moved / memory::page_bytes() * (settings_.touch == Touch::write ? 1 : kWord);
  }

  bool moves_pages() const override { return true; }
  bool crosses_link() const override { return initiator_ != Initiator::discard; }

  Lane lane() override {
    Lane lane;
    lane.device = gpu_;
    lane.queue = [this](device::Stream& stream) { queue(stream); };
    lane.blocking = pool_.has_value();
    lane.latchable = initiator_ == Initiator::fault;
    return lane;
  }

  void reset() override {
    const device::Selected on(gpu_);
    pages_->send_to(from, *stream_);
    host_sum_ = 0;
    device::fill_async(sum_->data(), 0, kWord, *stream_);
    stream_->synchronize();
  }

  bool repeats() const override { return false; }

  bool flush() const override { return from.on_gpu() || memory::flush_host_caches(pages_->data(), moved); }

  std::size_t check() override {
    if (writes()) write_pattern(pages_->data(), moved, pattern_, true);  // samples have already overwritten it
    reset();
    const device::Selected on(gpu_);
    queue(*stream_);
    stream_->synchronize();
    left_ = from.on_gpu() ? std::nullopt : pages_->share_off_host();
    if (initiator_ == Initiator::discard) return check_discarded();
    return (arrived() ? 0 : moved) + count_wrong(pages_->data(), moved, expected(), {}, false);
  }

  std::vector<std::string> disagreements() const override { return pages_->disagreements(); }

  std::optional<double> left() const override { return left_; }

 private:
  bool writes() const { return initiator_ == Initiator::fault && settings_.touch == Touch::write; }

  /// Returns the expected content of the pages after a movement.
  Pattern expected() const {
    Pattern pattern = pattern_;
    if (writes()) pattern.zeroed = memory::page_bytes() / kWord;
    return pattern;
  }

  /// Returns whether the last movement took place: the sum of the words read is right, or the driver reports the pages
  /// at their destination.
  bool arrived() const {
    if (initiator_ != Initiator::fault) return device::last_prefetch(pages_->data(), moved) == pages_->place(to).device;
    if (writes()) return true;  // its effect on the pages is checked instead
    std::uint64_t sum = host_sum_;
    if (!pool_) device::copy(&sum, sum_->data(), sizeof sum);
    return sum == expected_sum_;
  }

  void cut_ranges() {
    const std::size_t page = memory::page_bytes();
    const std::size_t pages = moved / page;
    const auto pieces = static_cast<unsigned>(std::min(settings_.pieces, pages));
    for (unsigned i = 0; i < pieces; ++i) {
      const memory::Part part = memory::part_of(pages, pieces, i);
      ranges_.push_back({pages_->data() + part.first * page, (part.last - part.first) * page});
    }
  }

  void queue(device::Stream& stream) {
    switch (initiator_) {
      case Initiator::prefetch:
        device::prefetch(pages_->data(), moved, pages_->place(to), stream);
        break;
      case Initiator::prefetch_batch:
        device::prefetch_batch(ranges_, pages_->place(to), stream);
        break;
      case Initiator::discard:
        device::discard_and_prefetch_batch(ranges_, pages_->place(to), stream);
        break;
      case Initiator::fault:
        if (pool_) {
          touch_on_host();
        } else {
          queue_touch(stream, pages_->data(), moved, memory::page_bytes(), settings_.touch,
                      reinterpret_cast<std::uint64_t*>(sum_->data()), settings_.geometry, info_);
        }
        break;
      default:
        throw std::logic_error("this initiator moves blocks, not pages");
    }
  }

  void touch_on_host() {
    const std::size_t page = memory::page_bytes();
    pool_->run([&](unsigned i) {
      const memory::Part part = memory::part_of(moved / page, pool_->size(), i);
      if (settings_.touch == Touch::write) {
        for (std::size_t at = part.first * page; at < part.last * page; at += page)
          *reinterpret_cast<volatile unsigned char*>(pages_->data() + at) = 0;
        return;
      }
      const std::size_t step = settings_.touch == Touch::whole ? kWord : page;
      std::uint64_t sum = 0;
      for (std::size_t at = part.first * page; at < part.last * page; at += step)
        sum += *reinterpret_cast<const volatile std::uint64_t*>(pages_->data() + at);
      host_sum_ += sum;
    });
  }

  /// Checks pages whose contents are undefined because they were discarded: they must be at the destination, and must
  /// keep the contents that are written to them now.
  std::size_t check_discarded() {
    const bool there = arrived();
    write_pattern(pages_->data(), moved, pattern_, false);
    return (there ? 0 : moved) + count_wrong(pages_->data(), moved, pattern_, {}, false);
  }

  Initiator initiator_;
  Settings settings_;
  Pattern pattern_;
  int gpu_ = 0;
  device::DeviceInfo info_;
  std::optional<SharedPages> pages_;
  std::optional<device::Stream> stream_;
  std::optional<Block> sum_;  // sum of the words that kernels read
  std::atomic<std::uint64_t> host_sum_ = 0;
  std::uint64_t expected_sum_ = 0;
  std::vector<device::MemoryRange> ranges_;
  std::optional<memory::ThreadPool> pool_;
  std::optional<double> left_;
};

}  // namespace

EndBytes page_footprint(const End&, const End&, Initiator, const Settings& s) {
  return {.host = s.bytes, .device = s.bytes};
}

std::unique_ptr<Movement> make_page_movement(const End& from, const End& to, Initiator initiator,
                                             const Settings& settings, unsigned number) {
  return std::make_unique<PageMovement>(from, to, initiator, settings, number);
}

}  // namespace isthmus::microbench::transfer
