"""Progress bars, shown only when asked for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(show: bool, total: int, what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function to call with the steps done and the number of nodes so far."""
    if not show:
        yield lambda done, n_nodes: None
        return
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise ImportError("Progress bars need tqdm: pip install 'hmom-jax[cli]'.") from error
    with tqdm(total=total, desc=what, unit="round", leave=False) as bar:

        def update(done: int, n_nodes: int) -> None:
            bar.set_postfix(nodes=n_nodes, refresh=False)
            bar.update(done - bar.n)

        yield update
