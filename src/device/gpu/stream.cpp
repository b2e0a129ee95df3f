// Streams, events and device synchronisation.

#include "device/gpu/check.hpp"

namespace isthmus::device {

using gpu::handle_of;

Stream::Stream() {
  injection_point("stream_create");
  gpu::NativeStream stream = nullptr;
  ISTHMUS_CALL("stream_create", StreamCreateWithFlags, &stream, ISTHMUS_GPU(StreamNonBlocking));
  handle_ = stream;
}

Stream::~Stream() {
  if (handle_ != nullptr) static_cast<void>(ISTHMUS_GPU(StreamDestroy)(handle_of(*this)));
}

void Stream::synchronize() {
  injection_point("stream_synchronize");
  ISTHMUS_CALL("stream_synchronize", StreamSynchronize, handle_of(*this));
}

bool Stream::idle() {
  injection_point("stream_idle");
  const auto status = ISTHMUS_GPU(StreamQuery)(handle_of(*this));
  if (status == ISTHMUS_GPU(ErrorNotReady)) {
    static_cast<void>(ISTHMUS_GPU(GetLastError)());  // clear "not ready", so that later calls do not report it
    return false;
  }
  gpu::check("stream_idle", ISTHMUS_GPU_NAME(StreamQuery), status);
  return true;
}

void Stream::wait(const Event& event) {
  injection_point("stream_wait");
  ISTHMUS_CALL("stream_wait", StreamWaitEvent, handle_of(*this), handle_of(event), 0);
}

Event::Event() {
  injection_point("event_create");
  gpu::NativeEvent event = nullptr;
  ISTHMUS_CALL("event_create", EventCreateWithFlags, &event, ISTHMUS_GPU(EventDefault));
  handle_ = event;
}

Event::~Event() {
  if (handle_ != nullptr) static_cast<void>(ISTHMUS_GPU(EventDestroy)(handle_of(*this)));
}

void Event::record(Stream& stream) {
  injection_point("event_record");
  ISTHMUS_CALL("event_record", EventRecord, handle_of(*this), handle_of(stream));
}

void Event::synchronize() {
  injection_point("event_synchronize");
  ISTHMUS_CALL("event_synchronize", EventSynchronize, handle_of(*this));
}

bool Event::done() {
  injection_point("event_done");
  const auto status = ISTHMUS_GPU(EventQuery)(handle_of(*this));
  if (status == ISTHMUS_GPU(ErrorNotReady)) {
    static_cast<void>(ISTHMUS_GPU(GetLastError)());
    return false;
  }
  gpu::check("event_done", ISTHMUS_GPU_NAME(EventQuery), status);
  return true;
}

double elapsed(const Event& begin, const Event& end) {
  injection_point("elapsed");
  float milliseconds = 0;
  ISTHMUS_CALL("elapsed", EventElapsedTime, &milliseconds, handle_of(begin), handle_of(end));
  return static_cast<double>(milliseconds) * 1e-3;
}

double timer_tick() noexcept {
  return gpu::event_tick;
}

void synchronize() {
  injection_point("synchronize");
  ISTHMUS_CALL("synchronize", DeviceSynchronize);
}

}  // namespace isthmus::device
