"""Progress bars on standard error, shown only when asked for."""

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager


@contextmanager
def progress_bar(show: bool, total: int, what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function to call with the steps done and the number of nodes so far."""
    if not show:
        yield lambda done, n_nodes: None
        return
    with _tqdm()(total=total, desc=what, unit="round", leave=False) as bar:

        def update(done: int, n_nodes: int) -> None:
            bar.set_postfix(nodes=n_nodes, refresh=False)
            bar.update(done - bar.n)

        yield update


@contextmanager
def byte_bar(show: bool, total: int | None, what: str) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the bytes read so far; shows the rate and the time left."""
    if not show:
        yield lambda done: None
        return
    with _tqdm()(total=total, desc=what, unit="B", unit_scale=True, leave=False) as bar:
        yield lambda done: bar.update(done - bar.n)


def track(items: Iterable, show: bool, what: str, unit: str) -> Iterable:
    """Return the items, with a bar that counts them where one is wanted."""
    if not show:
        return items
    return _tqdm()(items, total=len(items) if isinstance(items, Sized) else None, desc=what, unit=unit, leave=False)


def _tqdm():
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise ImportError("Progress bars need tqdm: pip install 'hmom-jax[cli]'.") from error
    return tqdm
