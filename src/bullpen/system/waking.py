"""The death of a child as something that can be waited for together with other things. Part of the launcher."""

from __future__ import annotations

import os
import signal


class Wake:
    """Makes a signal of a child something that `select` sees."""

    def __init__(self) -> None:
        self.fd, self._write = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._write)

    def clear(self) -> None:
        try:
            while os.read(self.fd, 512):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        os.close(self.fd)
        os.close(self._write)
