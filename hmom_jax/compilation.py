"""Compilation in proportion to the work: programs that run for milliseconds need not take seconds to compile."""

import functools
import os

import jax

from hmom_jax.errors import is_traced

# On a CPU, XLA's older code generator and LLVM's second level of optimisation take half as long as what is the default,
# and the programs run as fast: their time goes into plain loops over rows of a table, and into library calls. Those
# loops are up to a tenth faster with vectors as wide as the processor has; XLA would stop at 256 bits.
_QUICK = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_backend_optimization_level": 2,
    "xla_cpu_prefer_vector_width": 512,
}


def quick_jit(function, **options):
    """Wrap a function like ``jax.jit``, to be compiled quickly on a CPU; what ``XLA_FLAGS`` says is left as it is.

    Inside another traced function it is compiled as that one is; ``trace`` and ``lower`` are those of the plain
    function, for any platform.

    Examples
    --------
    >>> quick_jit(lambda x: x + 1)(1.0).item()
    2.0
    """
    plain = jax.jit(function, **options)

    @functools.cache
    def quick():
        flags = os.environ.get("XLA_FLAGS", "")
        chosen = {name: value for name, value in _QUICK.items() if name not in flags}
        return jax.jit(function, compiler_options=chosen, **options) if jax.default_backend() == "cpu" else plain

    @functools.wraps(function)
    def call(*arguments, **named):
        if is_traced(arguments, named):
            return plain(*arguments, **named)
        try:
            return quick()(*arguments, **named)
        except ValueError as error:
            if "top-level" not in str(error):
                raise
            return plain(*arguments, **named)  # inside a trace, with constants alone
        except jax.errors.JaxRuntimeError as error:
            if "No such compile option" not in str(error):
                raise
            global _QUICK
            _QUICK = {}  # another release of XLA, which does without
            quick.cache_clear()
            return quick()(*arguments, **named)

    call.trace, call.lower = plain.trace, plain.lower
    return call
