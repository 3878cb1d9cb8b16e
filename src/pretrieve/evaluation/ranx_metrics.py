"""ranx's compiled metrics without the rest of ranx.

``import ranx`` also loads what draws its plots, tests significance and reads benchmarks (scipy.stats, matplotlib, pandas,
ir_datasets). That takes 3-4 s, more than a search of the demo, in each of a hundred jobs. The metrics need numba alone, so their
subpackage is loaded by itself. ``import ranx`` still gives the whole of it, before or after.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from functools import cache
from threading import Lock
from types import ModuleType

import numpy as np

from pretrieve.base.errors import ConfigError

#: (judged, ranked, cut or 0, lowest relevant grade) → one value for each query.
Metric = Callable[[np.ndarray, np.ndarray, int, int], np.ndarray]

#: Held while a metric is found and computed: numba ends the process when two threads do so at the same time.
ALONE = Lock()


@cache
def metric_of_ranx() -> Callable[[str], Metric]:
    """ranx's function that finds a metric by its name.

    Raises ConfigError when ranx is not installed.
    """
    if "ranx" in sys.modules:
        return importlib.import_module("ranx.metrics").metric_switch
    found = importlib.util.find_spec("ranx")
    if found is None:
        raise ConfigError("ranx is not installed, and metrics come from it; install envs/requirements.lock.")
    # Stands in for the package while its part is loaded: a package's own module runs before that of any part.
    package = ModuleType("ranx")
    package.__path__ = list(found.submodule_search_locations)
    sys.modules["ranx"] = package
    try:
        switch = importlib.import_module("ranx.metrics").metric_switch
    finally:
        del sys.modules["ranx"]
    from numba import config, set_num_threads

    config.THREADING_LAYER = "workqueue"  # as ranx's own module sets it
    set_num_threads(1)
    return switch
