"""The `__init__.py` of the package `deepmind_lab`: loads its native module under the package's name.

Upstream's file does the same with `imp` and `pkg_resources`, which were removed, and needs dm_env.
"""

import importlib.util
import pathlib
import sys

# The native module finds its files next to `__file__`, and itself as `sys.modules["deepmind_lab"]`.
_spec = importlib.util.spec_from_file_location(__name__, pathlib.Path(__file__).with_name("deepmind_lab.so"))
_native = importlib.util.module_from_spec(_spec)
sys.modules[__name__] = _native
_spec.loader.exec_module(_native)
