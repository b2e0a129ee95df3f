// Movements between two blocks of memory: copies by an engine, by kernels, by the host.

#include <algorithm>
#include <cstring>
#include <optional>

#include "device/api/peer_access.hpp"
#include "memory/thread_pool.hpp"
#include "microbench/transfer/movement.hpp"

namespace isthmus::microbench::transfer {

namespace {

using workload::Lane;
using workload::Skip;
using workload::SkipKind;
using Next = device::SpinLatch::Next;

constexpr std::size_t kWord = sizeof(std::uint64_t);

[[noreturn]] void not_applicable(const std::string& why) {
  throw Skip(why, SkipKind::not_applicable);
}

bool is_box(Initiator initiator) {
  return initiator == Initiator::ce_strided || initiator == Initiator::pack;
}
bool is_kernel(Initiator initiator) {
  return initiator == Initiator::sm_read || initiator == Initiator::sm_write;
}

Box box_of(const Settings& s) {
  if (s.bytes % (s.row_bytes * s.planes) != 0)
    not_applicable(std::to_string(s.bytes) + " bytes are not a whole number of rows of " + std::to_string(s.row_bytes) +
                   " bytes in " + std::to_string(s.planes) + " planes");
  if (s.row_bytes % kWord != 0)
    not_applicable("a row of " + std::to_string(s.row_bytes) + " bytes is not a multiple of 8");
  return {.row_bytes = s.row_bytes,
          .rows = s.bytes / s.row_bytes / s.planes,
          .planes = s.planes,
          .pitch = 2 * s.row_bytes,
          .plane_rows = s.bytes / s.row_bytes / s.planes};
}

void check_copy(Initiator initiator, const Settings& s) {
  const auto& g = s.geometry;
  if (is_kernel(initiator)) {
    if (s.bytes % g.width != 0)
      not_applicable(std::to_string(s.bytes) + " bytes are not a multiple of the access width of " +
                     std::to_string(g.width));
    if (g.order != Order::contiguous && (g.stride % g.width != 0 || s.bytes % g.stride != 0))
      not_applicable("a stride of " + std::to_string(g.stride) + " bytes must be a multiple of the access width, and " +
                     std::to_string(s.bytes) + " bytes one of the stride");
  }
  if (initiator == Initiator::pack && s.row_bytes % g.width != 0)
    not_applicable("a row of " + std::to_string(s.row_bytes) + " bytes is not a multiple of the access width of " +
                   std::to_string(g.width));
  if (initiator == Initiator::ce_batch && s.bytes % (s.pieces * kWord) != 0)
    not_applicable(std::to_string(s.bytes) + " bytes are not " + std::to_string(s.pieces) +
                   " equal pieces of whole 8-byte words");
}

/// Returns the bytes of the source; destination_bytes() returns those of the destination. For a box they include the
/// gaps between its rows.
std::size_t source_bytes(const End& from, Initiator initiator, const Settings& s) {
  if (!is_box(initiator)) return s.bytes;
  const bool packed = initiator == Initiator::pack && !from.on_gpu();
  return packed ? s.bytes : box_of(s).extent();
}
std::size_t destination_bytes(const End& to, Initiator initiator, const Settings& s) {
  return source_bytes(to, initiator, s);
}

/// Returns the GPU on whose stream the movement is queued; -1 if no GPU takes part.
int issuing_gpu(const End& from, const End& to, Initiator initiator, bool far_issues) {
  if (!from.on_gpu() && !to.on_gpu()) return -1;
  if (!from.on_gpu()) return to.index;
  if (!to.on_gpu()) return from.index;
  if (initiator == Initiator::sm_read) return to.index;
  if (initiator == Initiator::sm_write) return from.index;
  return far_issues ? to.index : from.index;
}

class CopyMovement : public Movement {
 public:
  CopyMovement(const End& origin, const End& target, Initiator initiator, const Settings& s, unsigned number)
      : Movement(origin, target, s.bytes),
        initiator_(initiator),
        settings_(s),
        pattern_{s.seed, number},
        gpu_(issuing_gpu(origin, target, initiator, s.far_issues)),
        box_(is_box(initiator) ? box_of(s) : Box{}) {
    check_copy(initiator, s);
    const bool reaches = is_kernel(initiator) || initiator != Initiator::ce_nopeer;
    if (from.on_gpu() && to.on_gpu() && from.index != to.index && reaches) peer_.emplace(from.index, to.index);
    if (gpu_ >= 0) info_ = device::info(gpu_);
    source_.emplace(from, source_bytes(from, initiator, s), s.host);
    destination_.emplace(to, destination_bytes(to, initiator, s), s.host);
    source_->fill(pattern_);
    destination_->poison();
    if (initiator == Initiator::pack) prepare_packing();
    if (initiator == Initiator::ce_batch) prepare_batch();
    if (initiator == Initiator::cpu) pool_.emplace(s.threads, from.index);
  }

  Lane lane() override {
    Lane lane;
    lane.device = std::max(gpu_, 0);
    lane.queue = [this](device::Stream& stream) { queue(stream); };
    const bool pageable = is_pageable(from) || is_pageable(to);
    // A pageable copy blocks the caller, and so does a copy between two blocks of host memory.
    lane.blocking = gpu_ < 0 || pageable;
    lane.latchable = initiator_ != Initiator::ce_nopeer;
    const bool host_copy =
        initiator_ == Initiator::ce || initiator_ == Initiator::ce_batch || initiator_ == Initiator::ce_strided;
    if (host_copy && !from.on_gpu()) lane.next = Next::copy_in;
    if (host_copy && !to.on_gpu()) lane.next = Next::copy_out;
    return lane;
  }

  void reset() override {
    source_->move_home();
    destination_->move_home();
  }
  /// Returns whether neither end is managed. A device may move managed pages away while it copies.
  bool repeats() const override { return from.kind != Kind::managed && to.kind != Kind::managed; }
  std::optional<double> left() const override {
    const auto first = source_->share_away(), second = destination_->share_away();
    return first && second ? std::max(*first, *second) : first ? first : second;
  }

  bool flush() const override { return source_->flush() && destination_->flush(); }

  std::size_t check() override {
    destination_->poison();
    const device::Selected on(std::max(gpu_, 0));
    device::Stream stream;
    queue(stream);
    stream.synchronize();
    return destination_->wrong(pattern_, word_map());
  }

  std::vector<std::string> disagreements() const override {
    auto found = source_->disagreements("the source");
    for (auto& sentence : destination_->disagreements("the destination")) found.push_back(std::move(sentence));
    return found;
  }

  std::optional<DescribedLaunch> kernel() const override {
    if (!is_kernel(initiator_)) return std::nullopt;
    const device::Selected on(gpu_);
    return describe_copy(settings_.geometry, settings_.bytes, *info_);
  }

 private:
  /// Returns whether the end is copied like pageable memory. This includes managed memory, because the runtime may have
  /// to fetch its pages first.
  static bool is_pageable(const End& end) { return end.kind == Kind::pageable || end.kind == Kind::managed; }

  void prepare_packing() {
    if (from.on_gpu()) packed_source_.emplace(from, settings_.bytes, memory::BlockOptions{});
    if (to.on_gpu()) packed_destination_.emplace(to, settings_.bytes, memory::BlockOptions{});
    if (from.on_gpu() && to.on_gpu()) {
      const device::Selected on(to.index);
      far_info_ = device::info(to.index);
      far_stream_.emplace();
      unpacked_.emplace();
      const device::Selected near(gpu_);
      copied_.emplace();
    }
  }

  /// Reverses the order of the pieces, so that no two copies can be merged into one.
  void prepare_batch() {
    const std::size_t piece = settings_.bytes / settings_.pieces;
    for (std::size_t k = 0; k < settings_.pieces; ++k)
      batch_.push_back({destination_->data() + (settings_.pieces - 1 - k) * piece, source_->data() + k * piece, piece});
  }

  void queue(device::Stream& stream) {
    std::byte* const to_data = destination_->data();
    const std::byte* const from_data = source_->data();
    switch (initiator_) {
      case Initiator::ce:
      case Initiator::ce_nopeer:
        device::copy_async(to_data, from_data, moved, stream);
        if (is_pageable(from) || is_pageable(to)) stream.synchronize();
        break;
      case Initiator::runtime:
        device::copy(to_data, from_data, moved);
        break;
      case Initiator::ce_batch:
        device::copy_batch_async(batch_, stream);
        break;
      case Initiator::ce_strided:
        device::copy_strided_async(to_data, from_data,
                                   {.row_bytes = box_.row_bytes,
                                    .rows = box_.rows,
                                    .planes = box_.planes,
                                    .destination_pitch = box_.pitch,
                                    .destination_rows = box_.plane_rows,
                                    .source_pitch = box_.pitch,
                                    .source_rows = box_.plane_rows},
                                   stream);
        break;
      case Initiator::pack:
        queue_packing(stream);
        break;
      case Initiator::sm_read:
      case Initiator::sm_write:
        queue_copy(stream, destination_->device_data(), source_->device_data(), moved, settings_.geometry, *info_);
        break;
      case Initiator::cpu:
        pool_->run([&](unsigned i) {
          const memory::Part part = memory::part_of(moved, pool_->size(), i);
          std::memcpy(to_data + part.first, from_data + part.first, part.last - part.first);
        });
        break;
      default:
        throw std::logic_error("this initiator moves pages, not blocks");
    }
  }

  void queue_packing(device::Stream& stream) {
    const Box packed = box_.packed();
    const std::byte* sent = source_->data();
    if (from.on_gpu()) {
      queue_box_copy(stream, packed_source_->data(), packed, source_->data(), box_, settings_.geometry, *info_);
      sent = packed_source_->data();
    }
    device::copy_async(to.on_gpu() ? packed_destination_->data() : destination_->data(), sent, moved, stream);
    if (!to.on_gpu()) return;
    if (!far_stream_) {
      queue_box_copy(stream, destination_->data(), box_, packed_destination_->data(), packed, settings_.geometry,
                     *info_);
      return;
    }
    copied_->record(stream);
    {
      const device::Selected on(to.index);
      far_stream_->wait(*copied_);
      queue_box_copy(*far_stream_, destination_->data(), box_, packed_destination_->data(), packed, settings_.geometry,
                     *far_info_);
      unpacked_->record(*far_stream_);
    }
    stream.wait(*unpacked_);
  }

  /// Returns the map from a word of the destination to its word in the source.
  WordMap word_map() const {
    if (initiator_ == Initiator::ce_batch) {
      const std::size_t piece = settings_.bytes / settings_.pieces / kWord, pieces = settings_.pieces;
      return [=](std::size_t word) { return (pieces - 1 - word / piece) * piece + word % piece; };
    }
    if (!is_box(initiator_)) return {};
    const bool packing = initiator_ == Initiator::pack;
    const Box source = packing && !from.on_gpu() ? box_.packed() : box_;
    const Box destination = packing && !to.on_gpu() ? box_.packed() : box_;
    return [=](std::size_t word) {
      const std::size_t byte = word * kWord, line = byte / destination.pitch, column = byte % destination.pitch;
      const std::size_t plane = line / destination.plane_rows, row = line % destination.plane_rows;
      if (column >= destination.row_bytes || row >= destination.rows) return kNothing;
      return ((plane * source.plane_rows + row) * source.pitch + column) / kWord;
    };
  }

  Initiator initiator_;
  Settings settings_;
  Pattern pattern_;
  int gpu_;
  Box box_;
  std::optional<device::DeviceInfo> info_, far_info_;
  std::optional<device::PeerAccess> peer_;
  std::optional<Block> source_, destination_, packed_source_, packed_destination_;
  std::vector<device::CopyItem> batch_;
  std::optional<device::Stream> far_stream_;
  std::optional<device::Event> copied_, unpacked_;
  std::optional<memory::ThreadPool> pool_;
};

}  // namespace

EndBytes copy_footprint(const End& from, const End& to, Initiator initiator, const Settings& s) {
  EndBytes f;
  const bool packs = initiator == Initiator::pack;
  const auto add = [&](const End& end, std::size_t bytes) {
    (end.on_gpu() ? f.device : f.host) += bytes + (packs && end.on_gpu() ? s.bytes : 0);
  };
  add(from, source_bytes(from, initiator, s));
  add(to, destination_bytes(to, initiator, s));
  const bool two_gpus = from.on_gpu() && to.on_gpu() && from.index != to.index;
  if (two_gpus) f.device = (f.device + 1) / 2;
  return f;
}

std::unique_ptr<Movement> make_copy_movement(const End& from, const End& to, Initiator initiator,
                                             const Settings& settings, unsigned number) {
  return std::make_unique<CopyMovement>(from, to, initiator, settings, number);
}

}  // namespace isthmus::microbench::transfer
