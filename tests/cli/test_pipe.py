"""``lnlab ... | head``: a reader that leaves early is no error."""

import os
import subprocess
import sys


def test_a_reader_that_leaves_is_no_error():
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-c", "from lnlab.cli import app; app()", "list"]
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert ended.stderr == ""
