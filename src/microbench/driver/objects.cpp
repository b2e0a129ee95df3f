// driver/event, driver/stream, driver/device_sync: cost of the calls that order and await work, with nothing to wait
// for.

#include "microbench/driver/calls.hpp"

namespace isthmus::microbench::driver {
namespace {

using namespace workload;

/// Returns an event that has already occurred.
device::Event happened(device::Stream& stream) {
  device::Event event;
  event.record(stream);
  event.synchronize();
  return event;
}

void event(Case& c) {
  c.needs(0, 0);
  device::Stream& stream = c.stream();
  sample_making(c, "create", "destroy", [] { return device::Event(); });
  device::Event event;
  sample_call(c, "record", [&] { event.record(stream); }, [&] { stream.synchronize(); });
  device::Event past = happened(stream);
  sample_call(c, "query", [&] { past.done(); });
  sample_call(c, "synchronize", [&] { past.synchronize(); });
}

void stream(Case& c) {
  c.needs(0, 0);
  sample_making(c, "create", "destroy", [] { return device::Stream(); });
  device::Stream idle, other;
  const device::Event past = happened(other);
  sample_call(c, "query", [&] { idle.idle(); });
  sample_call(c, "synchronize", [&] { idle.synchronize(); });
  sample_call(c, "wait_event", [&] { idle.wait(past); }, [&] { idle.synchronize(); });
}

void device_sync(Case& c) {
  c.needs(0, 0);
  device::synchronize();
  sample_call(c, "synchronize", [] { device::synchronize(); });
}

constexpr const char* kNothing = "waiting for nothing leaves nothing to check";

const Registration event_registration =
    workload("event", event, "events: creating, recording, querying, awaiting and destroying them",
             {"create", "destroy", "record", "query", "synchronize"}, 1e-4)
        .unverified(kNothing)
        .size("tiny", {});
const Registration stream_registration =
    workload("stream", stream,
             "streams: creating, querying and awaiting idle ones, waiting for events, destroying them",
             {"create", "destroy", "query", "synchronize", "wait_event"}, 1e-3)
        .unverified(kNothing)
        .size("tiny", {});
const Registration device_registration =
    workload("device_sync", device_sync, "waiting for a device that has nothing to do", {"synchronize"}, 1e-4)
        .unverified(kNothing)
        .size("tiny", {});

}  // namespace
}  // namespace isthmus::microbench::driver
