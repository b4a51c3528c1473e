"""Times in bins: years, months or days, or plain numbers."""

import numpy as np

from hmom_jax.errors import InputError

_MAX_BINS = 40


def time_bins(times) -> tuple[np.ndarray, list[str]]:
    """Sort times into at most 40 bins of equal width.

    Parameters
    ----------
    times
        Numbers (years, say), or dates: ``datetime64``, ``datetime.date``, or text such as ``"2024-05-01"``. NaN, NaT
        and None stand for times that are not known.

    Returns
    -------
    numbers
        Bin of each time, -1 where it is not known.
    names
        Names of the bins.

    Examples
    --------
    >>> numbers, names = time_bins([1999, 2001, 2001])
    >>> numbers.tolist(), names
    ([0, 2, 2], ['1999', '2000', '2001'])
    >>> time_bins(["2024-01-30", "2024-02-01", None])[1]
    ['2024-01-30', '2024-01-31', '2024-02-01']
    """
    values = np.asarray(times)
    if values.ndim != 1:
        raise InputError(f"times must have one value per document; got shape {values.shape}.")
    if values.dtype.kind in "iuf":
        return _number_bins(values.astype(np.float64), str)
    if values.dtype.kind == "O" and all(time is None or isinstance(time, int | float) for time in times):
        return _number_bins(np.array([np.nan if time is None else time for time in times], np.float64), str)
    return _date_bins(_dates(values))


def _dates(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "M":
        return values.astype("datetime64[D]")
    if values.dtype.kind not in "OU":
        raise InputError(f"times must be numbers or dates; got {values.dtype}.")
    try:
        # One by one, as numbers would pass for days since 1970.
        return np.array(
            [
                np.datetime64("NaT") if value is None or value != value else np.datetime64(_plain(value))
                for value in values.tolist()
            ],
            "datetime64[D]",
        )
    except (ValueError, TypeError) as error:
        raise InputError(f"times must be numbers or dates such as 2024-05-01: {error}.") from error


def _plain(value):
    """Return a date as NumPy takes it: text, or without a time zone."""
    if isinstance(value, int | float):
        raise InputError(f"times must be all numbers or all dates; got {value!r} among others.")
    return value if isinstance(value, str) else value.isoformat()[:10] if hasattr(value, "isoformat") else value


def _date_bins(days: np.ndarray) -> tuple[np.ndarray, list[str]]:
    known = days[~np.isnat(days)]
    span = int((known.max() - known.min()).astype(int)) if len(known) else 0
    unit = "Y" if span > 3 * 365 else "M" if span > _MAX_BINS else "D"
    whole = days.astype(f"datetime64[{unit}]")
    numbers = np.where(np.isnat(days), np.nan, whole.astype(np.int64))
    return _number_bins(numbers, lambda number: str(np.datetime64(number, unit)))


def _number_bins(values: np.ndarray, name) -> tuple[np.ndarray, list[str]]:
    known = np.isfinite(values)
    if not known.any():
        return np.full(len(values), -1), []
    low, high = values[known].min(), values[known].max()
    if np.all(values[known] == np.rint(values[known])):
        width = -(-int(high - low + 1) // _MAX_BINS)
        n_bins = -(-int(high - low + 1) // width)
        starts = [int(low) + width * i for i in range(n_bins)]
        names = [name(s) if width == 1 else f"{name(s)} – {name(min(s + width - 1, int(high)))}" for s in starts]
    else:
        n_bins = _MAX_BINS // 2
        width = (high - low) / n_bins
        edges = low + width * np.arange(n_bins + 1)
        names = [f"{a:.4g} – {b:.4g}" for a, b in zip(edges, edges[1:], strict=False)]
    numbers = np.full(len(values), -1)
    numbers[known] = np.clip(((values[known] - low) / width).astype(int), 0, n_bins - 1)
    return numbers, names
