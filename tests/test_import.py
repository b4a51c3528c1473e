"""Importing the package changes nothing: no setting of JAX, no extra loaded, no device started."""

import subprocess
import sys

import hmom_jax as hm

PROGRAM = """
import sys, warnings
warnings.simplefilter("error")
import jax
before = dict(jax.config.values)
import hmom_jax
assert dict(jax.config.values) == before, "a setting of JAX was changed"
extras = {"sklearn", "tqdm", "matplotlib", "pandas", "networkx", "pyarrow", "hypothesis", "beartype"} & set(sys.modules)
assert not extras, f"imported {extras}"
from jax._src import xla_bridge
assert not xla_bridge.backends_are_initialized(), "a device was started"
"""


def test_import_changes_no_setting_and_loads_no_extra():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)


def test_every_public_name_is_there():
    for name in hm.__all__:
        assert getattr(hm, name) is not None
    assert issubclass(hm.InputError, ValueError)
