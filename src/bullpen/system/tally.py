"""What the server counts of itself: everything that was refused, cut, repeated or shortened, and how much it holds.

Nothing is dropped in silence: wherever a client, a model or a person gets less than was there, a count goes up.
One `Tally` belongs to one server process and is handed to whoever has something to count, with plain additions, so
that counting costs next to nothing. Each name is counted by one thread alone.

| count | goes up when |
|---|---|
| `resyncs` | a stream is told that events are missing and that it has to reload |
| `catch_ups` | a stream fell behind the feed's tail and went back to the log |
| `stalled` | a connection was cut because its peer took nothing |
| `cut_at_stop` | a connection was cut because the server stopped |
| `refused_<status>`, `refused_peer` | a request or a connection was turned away before the application saw it |
| `provider_retries` | a model was asked again after a failed answer |
| `commands_killed` | a command or something it had left behind was ended by force |
| `outputs_cut` | a tool's output was shortened for the model |
| `store_errors` | a transaction or a read failed in the database itself, or was turned away |
| `store_full` | the disk had no room, and the space set aside was lent to what ends something |
| `store_stopped`, `store_reopened` | the disk failed and the writer stopped; the file was opened anew and is sound |
| `store_rewound` | a log lost numbers that it had shown, and goes on under a new epoch |
| `loop_stalls` | the event loop did not answer in time (see `watchdog`) |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable


class Tally(Counter[str]):
    """Counts by name; `gauges` are asked when somebody looks, `peaks` are the highest values seen."""

    def __init__(self) -> None:
        super().__init__()
        self.gauges: dict[str, Callable[[], int]] = {}
        self.peaks: Counter[str] = Counter()

    def reach(self, name: str, value: int) -> None:
        """Note a value, if it is the highest so far."""
        self.peaks[name] = max(self.peaks[name], value)

    def shown(self) -> tuple[dict[str, int], dict[str, int]]:
        """Counts, and gauges with peaks, as they are now."""
        gauges = {name: gauge() for name, gauge in self.gauges.items()} | dict(self.peaks)
        return dict(sorted(self.items())), dict(sorted(gauges.items()))

    def __str__(self) -> str:
        counts, gauges = self.shown()
        return ", ".join(f"{name} {value}" for name, value in (counts | gauges).items())
