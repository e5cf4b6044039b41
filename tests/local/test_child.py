"""Children of ours stand for a vendor's server: they start, die, hang, talk and refuse to leave."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from harness.errors import Exit, Unreachable
from harness.local.child import Command, running

READY = re.compile(r"listening on (http://\S+)")
LISTENS = "print('listening on http://127.0.0.1:1', flush=True)\n"
WAITS = "import signal; signal.pause()\n"


def command(folder: Path, program: str, **more: object) -> Command:
    return Command((sys.executable, "-u", "-c", program), {"ONLY": "this"}, folder / "server.log", READY, **more)  # type: ignore[arg-type]


def alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def run(made: Command) -> tuple[str, int]:
    async def whole() -> tuple[str, int]:
        async with running(made) as child:
            assert alive(child.process_id)
            return child.base_url, child.process_id

    return asyncio.run(whole())


def test_it_is_up_for_the_block_and_gone_after_it(tmp_path: Path) -> None:
    url, process_id = run(command(tmp_path, LISTENS + WAITS))
    assert url == "http://127.0.0.1:1"
    assert not alive(process_id)


def test_one_that_does_not_leave_is_ended(tmp_path: Path) -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + LISTENS + "while True: signal.pause()\n"
    _, process_id = run(command(tmp_path, stubborn, end_within_s=0.2))
    assert not alive(process_id)


def test_one_that_dies_says_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(Unreachable) as caught:
        run(command(tmp_path, "import sys; print('No module named x', file=sys.stderr); sys.exit(3)"))
    assert "code 3" in caught.value.what
    assert "No module named x" in caught.value.what
    assert "server.log" in caught.value.fix
    assert caught.value.exit_code is Exit.UNREACHABLE


def test_one_that_is_silent_and_dies_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="it wrote nothing"):
        run(command(tmp_path, "pass"))


def test_one_that_never_gets_ready_is_given_up_and_ended(tmp_path: Path) -> None:
    program = f"import os; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n" + WAITS
    with pytest.raises(Unreachable, match="not ready within 2 s"):
        run(command(tmp_path, program, ready_within_s=2.0))
    assert not alive(int((tmp_path / "pid").read_text()))


def test_one_that_cannot_be_started_is_no_traceback(tmp_path: Path) -> None:
    made = Command((str(tmp_path / "bin" / "python"),), {}, tmp_path / "server.log", READY)
    with pytest.raises(Unreachable) as caught:
        run(made)
    assert "could not be started" in caught.value.what
    assert "make real" in caught.value.fix


def test_its_log_is_kept_without_what_is_hidden(tmp_path: Path) -> None:
    run(command(tmp_path, "print('key is swordfish')\n" + LISTENS + WAITS, hidden=("swordfish",)))
    log = (tmp_path / "server.log").read_text()
    assert "key is [hidden]" in log
    assert "swordfish" not in log


def test_it_learns_nothing_of_our_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid")
    monkeypatch.setenv("MEM0_API_KEY", "a real one")
    run(command(tmp_path, "import os; print(sorted(os.environ))\n" + LISTENS + WAITS))
    log = (tmp_path / "server.log").read_text()
    assert "'ONLY'" in log
    assert "PROXY" not in log
    assert "MEM0_API_KEY" not in log


def test_one_that_talks_much_is_not_blocked(tmp_path: Path) -> None:
    url, _ = run(command(tmp_path, "print(('x' * 1000 + '\\n') * 500)\n" + LISTENS + WAITS))
    assert url


HOLDS = """\
import asyncio, re, sys
from pathlib import Path
from harness.local.child import Command, running

async def main():
    words = (sys.executable, "-u", "-c", sys.argv[1])
    async with running(Command(words, {}, Path(sys.argv[2]), re.compile(r"listening on (http://\\S+)"))) as child:
        print(child.process_id, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def test_it_does_not_outlive_a_harness_that_is_killed(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDS, LISTENS + WAITS, str(tmp_path / "server.log")], stdout=subprocess.PIPE, text=True)
    with holder:
        assert holder.stdout is not None
        child = psutil.Process(int(holder.stdout.readline()))
        holder.kill()
    child.wait(timeout=20)
