"""A fake GPU, which does its work when a test lets it, and the events that it passes."""

from zmon.probe.device_time import DeviceTime


class Device:
    """A device that works later: `queued` is the end of its queue and `done` its progress, in milliseconds."""

    def __init__(self):
        self.queued = self.done = 0.0
        self.num_events = 0
        self.capturing = self.broken = False
        self.num_good_events = -1  # recorded events until one fails; below 0: none fails

    def launch(self, milliseconds):
        """Add work to the end of the queue."""
        self.queued += milliseconds

    def catch_up(self):
        """Do all work that is queued."""
        self.done = self.queued

    def event(self):
        """Return a new event, and count it."""
        self.num_events += 1
        return FakeEvent(self)

    def device_time(self):
        """Return the probe's measurement of times, with events of this device."""
        return DeviceTime(self.event, lambda: not self.capturing)


class FakeEvent:
    """An event like torch.cuda.Event, which raises if it is read before the device has passed it."""

    def __init__(self, device):
        self.device, self.time, self.failed = device, None, False

    def record(self):
        if self.device.broken:
            raise RuntimeError("CUDA error")
        assert not self.device.capturing
        self.time = self.device.queued
        self.failed = self.device.num_good_events == 0
        self.device.num_good_events -= 1

    def query(self):
        if self.device.broken or self.failed:
            raise RuntimeError("CUDA error")
        assert not self.device.capturing, "the capture breaks"
        return self.time <= self.device.done

    def elapsed_time(self, end):
        if not (self.query() and end.query()):
            raise RuntimeError("not ready")
        return end.time - self.time

    def synchronize(self):
        raise AssertionError("the probe must not wait for the device")
