"""Times in bins."""

import datetime

import numpy as np
import pytest

from hmom_jax.report.times import time_bins


@pytest.mark.parametrize(
    ("times", "names"),
    [
        ([5, 7], ["5", "6", "7"]),
        ([2000.0, np.nan, 2001.0], ["2000", "2001"]),
        ([2000, None, 2001], ["2000", "2001"]),
        (["1999", "2003-05-06", ""], ["1999", "2000", "2001", "2002", "2003"]),
        ([datetime.date(2024, 1, 31), datetime.date(2024, 3, 31)], ["2024-01", "2024-02", "2024-03"]),
        (np.array(["2024-01-01", "NaT"], "datetime64[s]"), ["2024-01-01"]),
        ([datetime.datetime(2024, 1, 1, 23, tzinfo=datetime.UTC)], ["2024-01-01"]),
        ([np.nan, np.nan], []),
        ([None], []),
        ([0, 99], None),
        ([0.5, 2.75], None),
        ([1e300, 0.0], None),
    ],
)
def test_bins_hold_the_times(times, names):
    numbers, found = time_bins(times)
    assert len(numbers) == len(times)
    assert numbers.max() < len(found) <= 40
    assert names is None or found == names
    if found:
        assert numbers.max() == len(found) - 1
        assert 0 in numbers


def test_wide_ranges_name_both_ends():
    numbers, names = time_bins([1901, 1950, 2000])
    assert names[0] == "1901 – 1903"
    assert names[-1].endswith("2000")
    assert numbers.tolist() == [0, 16, 33]
