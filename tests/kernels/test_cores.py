"""Work on several cores: every answer, in order, whoever computes it."""

from __future__ import annotations

import os
import threading
import time

import pytest

from lakehouse.kernels.cores import on_cores


def test_answers_come_in_order() -> None:
    """There is one answer for each item, in the order of the items, for any number of them."""
    for count in (0, 1, 2, 50):
        assert on_cores(lambda item: item * item, range(count)) == [item * item for item in range(count)]


def test_items_run_side_by_side() -> None:
    """Two items that wait for each other both get done."""
    both = threading.Barrier(2, timeout=20)
    on_cores(lambda _: both.wait(), range(2))


def test_work_does_not_wait_for_busy_threads() -> None:
    """While all threads of the pool are busy, the caller does everything itself."""
    free = threading.Event()
    occupied = [
        threading.Thread(target=on_cores, args=(lambda _: free.wait(20), range((os.cpu_count() or 1) + 1)))
    ]
    for thread in occupied:
        thread.start()
    try:
        time.sleep(0.05)
        began = time.perf_counter()
        assert on_cores(lambda _: threading.get_ident(), range(3)) == [threading.get_ident()] * 3
        assert time.perf_counter() - began < 10
    finally:
        free.set()
        for thread in occupied:
            thread.join()


def test_errors_are_raised() -> None:
    """An item that fails fails the whole, and what had not begun is not begun."""
    with pytest.raises(ZeroDivisionError):
        on_cores(lambda item: 1 // item, [3, 2, 1, 0])
    with pytest.raises(ZeroDivisionError):
        on_cores(lambda item: 1 // item, [0, 1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_computes_alone() -> None:
    """A child has none of the pool's threads, and does the work itself."""
    on_cores(lambda item: item, range(4))
    child = os.fork()
    if child == 0:
        os._exit(0 if on_cores(lambda item: item, range(4)) == [0, 1, 2, 3] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
