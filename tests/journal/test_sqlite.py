"""The SQLite store in a rough world: killed processes, other writers, full disks, damaged files, stops."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import random
import resource
import signal
import sqlite3
import struct
import tempfile
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled, SaveTimeout
from heaveto.errors import Fenced, JournalDamaged, JournalError, JournalNewer, RunNotFound, RunTaken
from heaveto.journal import location
from heaveto.journal.owner import this_process
from heaveto.journal.problems import explained
from heaveto.journal.sqlite import SqliteStore
from heaveto.journal.store import Summary
from heaveto.scopes import Scope, finish, tasks
from heaveto.testing.stops import every_await

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # a fork beside threads is what is tested

BODY = b"x" * 500
NOBODY = 65534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.db"


def fork(fn: Callable[[], Any]) -> int:
    """A process that runs `fn`; its status is 0 when that raised nothing."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            fn()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return pid


@contextmanager
def child(fn: Callable[[], Any]) -> Iterator[int]:
    """A forked process that runs `fn`; at the block's end it has ended by itself, with status 0."""
    pid = fork(fn)
    yield pid
    assert os.waitpid(pid, 0)[1] == 0


def run(fn: Callable[..., Awaitable[Any]], *args: Any, backend: str = "asyncio") -> Any:
    return anyio.run(fn, *args, backend=backend)


def rows(path: Path, run_id: str) -> int:
    """How many records are in the file, as another program sees them."""
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT count(*) FROM entry JOIN run ON run.number = entry.place >> 32 WHERE run_id = ?"
        return int(connection.execute(query, (run_id,)).fetchone()[0])


def check_whole(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        wrong = """SELECT run_id FROM run LEFT JOIN entry ON run.number = entry.place >> 32
                   GROUP BY number HAVING count(place) != entries OR max(place & 0xFFFFFFFF) != entries"""
        assert connection.execute(wrong).fetchall() == []


def store_threads(path: Path) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if getattr(getattr(thread, "database", None), "path", None) == path]


async def fill(path: Path, records: int = 20, run_id: str = "run") -> None:
    store = SqliteStore(path)
    await store.create(run_id, "", [BODY] * records, Summary(task="filled"))
    await store.aclose()


@contextmanager
def write_lock(path: Path) -> Iterator[None]:
    """Another writer in the middle of a transaction."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


# --- opening and closing --------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_nothing_is_made_before_the_first_use(path: Path) -> None:
    store = SqliteStore(path)
    await store.aclose()
    assert not path.parent.exists()
    assert store_threads(path) == []


@pytest.mark.anyio
async def test_only_the_owner_may_read_it(path: Path) -> None:
    before = os.umask(0)
    try:
        store = SqliteStore(path)
        await store.create("run", "", [BODY], Summary())
        modes = {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}
        assert modes == {"journal.db": 0o600, "journal.db-wal": 0o600, "journal.db-shm": 0o600}
        assert path.parent.stat().st_mode & 0o777 == 0o700
        await store.aclose()
    finally:
        os.umask(before)


@pytest.mark.anyio
async def test_closing_leaves_one_file_and_no_thread(path: Path) -> None:
    store = SqliteStore(path)
    await store.create("run", "", [BODY], Summary())
    await store.read("run")
    assert len(store_threads(path)) == 2
    await store.aclose()
    assert store_threads(path) == []
    assert os.listdir(path.parent) == ["journal.db"]


@pytest.mark.anyio
async def test_closing_in_a_stop_writes_what_waits(path: Path) -> None:
    store = SqliteStore(path)
    await store.create("run", "", [BODY], Summary())
    with Scope(quiet=True) as scope:
        scope.cancel(Cancelled("enough"))
        await store.aclose()
    assert store_threads(path) == []
    assert rows(path, "run") == 1


@pytest.mark.anyio
async def test_a_closed_store_opens_again(path: Path) -> None:
    store = SqliteStore(path)
    await store.create("run", "", [BODY], Summary())
    await store.aclose()
    assert await store.append("run", 1, [BODY], Summary()) == 2
    await store.aclose()


def test_one_store_in_one_loop_after_another(path: Path) -> None:
    store = SqliteStore(path)
    run(store.create, "run", "", [BODY], Summary())
    assert run(store.append, "run", 1, [BODY], Summary(), backend="trio") == 2
    assert run(store.append, "run", 1, [BODY], Summary()) == 3
    run(store.aclose, backend="trio")
    assert store_threads(path) == []


def test_loops_in_several_threads_share_a_store(path: Path) -> None:
    store = SqliteStore(path)

    async def drive(run_id: str) -> None:
        await store.create(run_id, "", [BODY], Summary())
        for _ in range(20):
            await store.append(run_id, 1, [BODY], Summary())

    threads = [threading.Thread(target=run, args=(drive, name)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run(store.aclose)
    assert [rows(path, name) for name in "abc"] == [21, 21, 21]


def test_a_forgotten_store_ends_its_threads(path: Path) -> None:
    store = SqliteStore(path)
    run(store.create, "run", "", [BODY], Summary())
    threads = store_threads(path)
    assert len(threads) == 1
    del store
    gc.collect()
    for thread in threads:
        thread.join(5)
    assert store_threads(path) == []


def test_a_state_folder_of_ones_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEAVETO_STATE", str(tmp_path))
    assert location.default_path() == tmp_path / "journal.db"
    assert location.open_store().path == tmp_path / "journal.db"
    assert location.open_store(tmp_path / "x.db").path == tmp_path / "x.db"
    monkeypatch.delenv("HEAVETO_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert location.default_path().name == "journal.db"
    assert location.default_path().parent.name == "heaveto"
    assert os.listdir(tmp_path) == []


# --- several processes ----------------------------------------------------------------------------------------------


def test_kill_9_loses_nothing_acknowledged(path: Path) -> None:
    """Twenty processes, each killed while it appends: what was acknowledged is there, and at most one record more."""
    moments = random.Random(1)

    async def append_for_ever(run_id: str, acks: int) -> None:
        store = SqliteStore(path)
        await store.create(run_id, this_process(), [], Summary())
        while True:
            seq = await store.append(run_id, 1, [BODY], Summary())
            os.write(acks, struct.pack("I", seq))

    for number in range(20):
        run_id = f"run-{number}"
        reading, writing = os.pipe()
        backend = ("asyncio", "trio")[number % 2]
        pid = fork(partial(run, append_for_ever, run_id, writing, backend=backend))
        os.close(writing)
        with open(reading, "rb") as acks:
            heard = acks.read(4 * moments.randint(1, 20))
            time.sleep(moments.uniform(0, 0.003))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            acknowledged = len(heard + acks.read()) // 4
        assert rows(path, run_id) in (acknowledged, acknowledged + 1)
        check_whole(path)


def test_a_killed_drivers_run_is_taken_at_once(path: Path) -> None:
    async def drive(ready: int) -> None:
        await SqliteStore(path).create("run", this_process(), [BODY], Summary())
        os.write(ready, b"!")
        await anyio.sleep_forever()

    reading, writing = os.pipe()
    pid = fork(partial(run, drive, writing))
    os.read(reading, 1)
    store = SqliteStore(path)
    with pytest.raises(RunTaken, match=f"process {pid} on host"):
        run(store.take, "run", this_process())
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert run(store.take, "run", this_process()) == 2
    run(store.aclose)
    os.close(reading)
    os.close(writing)


def test_two_processes_append_at_once(path: Path) -> None:
    """They make the file at once, too."""

    async def drive(run_id: str) -> None:
        store = SqliteStore(path)
        await store.create(run_id, this_process(), [BODY], Summary())
        for seq in range(2, 101):
            assert await store.append(run_id, 1, [BODY], Summary()) == seq
        await store.aclose()

    with child(lambda: run(drive, "a")), child(lambda: run(drive, "b", backend="trio")):
        pass
    assert (rows(path, "a"), rows(path, "b")) == (100, 100)
    check_whole(path)
    assert os.listdir(path.parent) == ["journal.db"]


def test_one_of_two_processes_takes_a_run(path: Path) -> None:
    run(fill, path)
    reading, writing = os.pipe()
    asked_reading, asked_writing = os.pipe()

    def take() -> None:
        os.close(asked_writing)
        try:
            result = b"%d" % run(SqliteStore(path).take, "run", this_process())
        except RunTaken:
            result = b"t"
        os.write(writing, result)
        os.read(asked_reading, 1)  # until both have tried, the winner is alive

    with child(take), child(take):
        answers = os.read(reading, 1) + os.read(reading, 1)
        os.close(asked_writing)
    assert sorted(answers) == sorted(b"2t")
    for each in (reading, writing, asked_reading):
        os.close(each)


def test_the_fence_holds_between_processes(path: Path) -> None:
    run(fill, path, 1)
    old = SqliteStore(path)
    assert run(old.append, "run", 1, [BODY], Summary()) == 2

    async def take_over() -> None:
        store = SqliteStore(path)
        assert await store.take("run", this_process()) == 2
        assert await store.append("run", 2, [b"new"], Summary()) == 3
        await store.aclose()

    with child(lambda: run(take_over)):
        pass
    with pytest.raises(Fenced):
        run(old.append, "run", 1, [b"zombie"], Summary())
    assert [entry.body for entry in run(old.read, "run")] == [BODY, BODY, b"new"]
    run(old.aclose)


def test_a_forked_child_opens_its_own(path: Path) -> None:
    """While the parent goes on with its own."""
    store = SqliteStore(path)
    run(store.create, "run", "", [BODY], Summary())
    run(store.read, "run")

    async def drive() -> None:
        assert len(await store.read("run")) in (1, 2)
        assert await store.create("child", "", [BODY], Summary()) == 1
        await store.aclose()

    with child(lambda: run(drive)):
        assert run(store.append, "run", 1, [BODY], Summary()) == 2
    assert len(run(store.read, "child")) == 1
    run(store.aclose)
    check_whole(path)


def test_forks_in_the_middle_of_writing(path: Path) -> None:
    """The store is never at work in the moment of a fork, so the child finds no lock that nobody will release."""
    store = SqliteStore(path)
    run(store.create, "run", "", [BODY], Summary())
    over = threading.Event()

    async def keep_writing() -> None:
        while not over.is_set():
            await store.append("run", 1, [BODY], Summary())

    writer = threading.Thread(target=run, args=(keep_writing,))
    writer.start()
    try:
        for number in range(10):
            with child(partial(run, store.create, f"child-{number}", "", [BODY], Summary())):
                pass
    finally:
        over.set()
        writer.join()
    assert len(run(store.runs)) == 11
    run(store.aclose)
    check_whole(path)


def test_who_is_in_the_way_is_named(path: Path) -> None:
    run(fill, path, 1)
    locked, locking = os.pipe()
    go_reading, go_writing = os.pipe()

    def hold() -> None:
        os.close(go_writing)
        with write_lock(path):
            os.write(locking, b"!")
            os.read(go_reading, 1)

    store = SqliteStore(path, save_seconds=1)
    with child(hold) as pid:
        os.read(locked, 1)
        with pytest.raises(JournalError, match=rf"journal\.db is held up by process {pid}, which"):
            run(store.append, "run", 1, [BODY], Summary())
        assert len(run(store.read, "run")) == 1, "reading does not wait for writers"
        os.close(go_writing)
    assert run(store.append, "run", 1, [BODY], Summary()) == 2
    run(store.aclose)
    for each in (locked, locking, go_reading):
        os.close(each)


# --- a bad disk -----------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_full_disk_writes_nothing(path: Path) -> None:
    await fill(path)
    store = SqliteStore(path)
    await store._write(lambda connection: connection.execute("PRAGMA max_page_count = 20").fetchall())
    with pytest.raises(JournalError, match=r"journal\.db: the disk is full; free some space") as caught:
        await store.append("run", 1, [BODY, b"y" * 500_000], Summary(task="lost"))
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
    assert (await store.runs())[0].summary.task == "filled"
    assert rows(path, "run") == 20
    assert await store.append("run", 1, [BODY], Summary()) == 21
    await store.aclose()
    check_whole(path)


def test_a_record_that_does_not_fit_takes_no_other_with_it(path: Path) -> None:
    """Several appends in one transaction, one of which the disk refuses: here, by the limit on a file's size."""
    run(fill, path, 1, "small")
    run(fill, path, 1, "big")
    outcome: dict[str, object] = {}

    async def append(store: SqliteStore, run_id: str, body: bytes) -> None:
        try:
            outcome[run_id] = await store.append(run_id, 1, [body], Summary())
        except JournalError as error:
            outcome[run_id] = str(error)

    def limited() -> None:
        store = SqliteStore(path)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

        async def main() -> None:
            async with tasks() as group:
                with write_lock(path):  # until all wait
                    group.start_soon(append, store, "big", b"y" * 2_000_000)
                    for _ in range(3):
                        group.start_soon(append, store, "small", BODY)
                    await anyio.sleep(0.05)
            await store.aclose()

        run(main)
        assert outcome["small"] == 4
        assert "the disk reports an error; check the disk and its quota" in str(outcome["big"]), outcome

    with child(limited):
        pass
    assert (rows(path, "small"), rows(path, "big")) == (4, 1)
    check_whole(path)


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that other users may look into, which pytest's own is not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def as_nobody() -> None:
    if os.geteuid() == 0:
        os.seteuid(NOBODY)


@pytest.mark.parametrize(
    ("file_mode", "folder_mode", "text"),
    [
        (0o444, 0o777, "it may only be read; make the file and its folder writable"),
        (0o444, 0o555, "it may only be read; make the file and its folder writable"),
        (0o000, 0o777, "must be readable and writable"),
        (0o444, 0o000, "must be readable and writable"),
    ],
)
def test_a_file_that_may_not_be_used(shared_folder: Path, file_mode: int, folder_mode: int, text: str) -> None:
    path = shared_folder / "journal.db"
    run(fill, path)
    path.chmod(file_mode)
    shared_folder.chmod(folder_mode)

    def use() -> None:
        as_nobody()
        with pytest.raises(JournalError, match=r"journal\.db: ") as caught:
            run(SqliteStore(path).append, "run", 1, [BODY], Summary())
        assert text in str(caught.value), caught.value

    try:
        with child(use):
            pass
    finally:
        shared_folder.chmod(0o755)
    assert rows(path, "run") == 20


def test_a_folder_that_cannot_be_made(shared_folder: Path) -> None:
    (shared_folder / "file").write_text("in the way")
    with pytest.raises(JournalError, match="its folder must be readable and writable"):
        run(SqliteStore(shared_folder / "file" / "journal.db").runs)


# --- a file that is not as it should be -----------------------------------------------------------------------------


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


async def refused_by_all(path: Path, kind: type[JournalError]) -> JournalError:
    """Every operation refuses the file with the same error, and leaves it as it is."""
    before, store = digest(path), SqliteStore(path)
    errors: list[JournalError] = []
    uses: list[Callable[[], Awaitable[Any]]] = [
        store.runs,
        lambda: store.read("run"),
        lambda: store.create("new", "", [BODY], Summary()),
        lambda: store.append("run", 1, [BODY], Summary()),
    ]
    for use in uses:
        with pytest.raises(kind) as caught:
            await use()
        errors.append(caught.value)
    await store.aclose()
    assert digest(path) == before
    assert len({str(error) for error in errors}) == 1
    return errors[0]


@pytest.mark.anyio
async def test_a_driver_that_looks_for_stops_keeps_its_run_where_nobody_can_look_at_it(path: Path) -> None:
    """Of another container, say: a tool may take longer than a lease without a record."""

    def grow_older(seconds: float) -> float:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE run SET updated = updated - ?", (seconds,))
            return float(connection.execute("SELECT updated FROM run").fetchone()[0])

    store = SqliteStore(path, lease_seconds=60)
    await store.create("run", "far/boot/1/4711/99/aa", [b"x"], Summary())
    before = grow_older(10)
    assert await store.asked_to_stop("run", 1) is None
    assert [row.updated for row in await store.runs()] == [before], "no sign of life is due"
    for _ in range(3):
        grow_older(45)
        with pytest.raises(RunTaken):
            await store.take("run", this_process())
        assert await store.asked_to_stop("run", 1) is None
    grow_older(61)
    assert await store.take("run", this_process()) == 2
    before = grow_older(61)
    assert await store.asked_to_stop("run", 1) is None
    assert [row.updated for row in await store.runs()] == [before], "whoever was overtaken gives none"
    await store.aclose()


@pytest.mark.anyio
async def test_a_new_file_is_whole_before_anything_that_could_fail_unnoticed(path: Path) -> None:
    """Closing moves SQLite's log into the file, or quietly does not where the disk is full."""
    sizes = []

    class Closing(sqlite3.Connection):
        def close(self) -> None:
            (file,) = (row[2] for row in self.execute("PRAGMA database_list"))
            (pages,) = self.execute("PRAGMA page_count").fetchone()
            sizes.append((os.stat(file).st_size, os.stat(f"{file}-wal").st_size, pages > 1))
            assert os.stat(file).st_size == 4096 * pages
            super().close()

    def open_file(address: str, busy_seconds: float) -> sqlite3.Connection:
        options: Any = {"isolation_level": None, "check_same_thread": False, "factory": Closing}
        return sqlite3.connect(address, uri=True, timeout=busy_seconds, **options)

    store = SqliteStore(path, open_file=open_file)
    await store.create("run", this_process(), [b"x"], Summary())
    assert sizes[0][1:] == (0, True)


def test_an_error_of_a_disk_without_room_is_that_it_is_full(tmp_path: Path) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
    if not os.statvfs("/proc").f_bavail:
        assert "the disk is full" in str(explained(error, Path("/proc/journal.db")))
    assert "the disk reports an error" in str(explained(error, tmp_path / "journal.db"))


@pytest.mark.anyio
async def test_what_could_not_be_made_leaves_nothing(path: Path) -> None:
    class Full(sqlite3.Connection):
        """Of a disk that is full, so that SQLite leaves its other files too."""

        def executescript(self, script: str) -> sqlite3.Cursor:
            return super().executescript(f"CREATE TABLE room (taken); PRAGMA max_page_count = 3; {script}")

        def close(self) -> None:
            (file,) = (row[2] for row in self.execute("PRAGMA database_list"))
            super().close()
            for log in ("-wal", "-shm"):
                Path(f"{file}{log}").touch()

    def open_file(address: str, busy_seconds: float) -> sqlite3.Connection:
        return sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False, factory=Full)

    store = SqliteStore(path, open_file=open_file)
    with pytest.raises(JournalError, match="the disk is full"):
        await store.create("run", this_process(), [b"x"], Summary())
    assert list(path.parent.iterdir()) == []


@pytest.mark.anyio
async def test_a_newer_format(path: Path) -> None:
    await fill(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 7")
    error = await refused_by_all(path, JournalNewer)
    assert str(error) == "the journal has format 7; this version reads up to 2"
    assert error.__notes__ == [f"in {path}"]


@pytest.mark.anyio
@pytest.mark.parametrize("content", [b"", b"just a note\n", b"\0" * 5000, b"SQLite format 3\0" + b"junk" * 2000])
async def test_no_database(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    error = await refused_by_all(path, JournalDamaged)
    assert error.where == str(path)  # type: ignore[attr-defined]
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "what"), [(".", "it is a folder; name a file in it"), ("/dev/null", "it is no ordinary file")]
)
async def test_no_file(tmp_path: Path, name: str, what: str) -> None:
    """Least of all is anybody told to remove it."""
    with pytest.raises(JournalDamaged, match=what):
        await SqliteStore(tmp_path / name).runs()


@pytest.mark.anyio
async def test_another_programs_database(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (url)")
    error = await refused_by_all(path, JournalDamaged)
    assert "another program's database" in str(error)


@pytest.mark.anyio
@pytest.mark.parametrize("part", [0.01, 0.2, 0.5, 0.9, 0.999])
async def test_a_cut_file(path: Path, part: float) -> None:
    await fill(path, 100)
    os.truncate(path, int(path.stat().st_size * part))
    await refused_by_all(path, JournalDamaged)


@pytest.mark.anyio
async def test_damaged_tables_of_which_python_cannot_say_what_sqlite_says(path: Path) -> None:
    await fill(path, 1)
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE run", b"CREATE TABLE \x80un"))
    await refused_by_all(path, JournalDamaged)


@pytest.mark.anyio
async def test_a_column_whose_name_is_damaged(path: Path) -> None:
    await fill(path, 1)
    path.write_bytes(path.read_bytes().replace(b"    run_id  TEXT", b"    ruz_id  TEXT"))
    await refused_by_all(path, JournalDamaged)


@pytest.mark.anyio
async def test_a_file_with_a_hole(path: Path) -> None:
    """What is not hit can still be read."""
    await fill(path, 100, "hit")
    await fill(path, 1, "whole")
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2 // 4096 * 4096)
        file.write(b"\xff" * 4096)
    store = SqliteStore(path)
    with pytest.raises(JournalDamaged, match="cut or overwritten"):
        await store.read("hit")
    assert {row.run_id for row in await store.runs()} == {"hit", "whole"}
    await store.aclose()


@pytest.mark.anyio
async def test_a_file_removed_while_in_use(path: Path) -> None:
    """An append into a file that nobody will find again is no append."""
    store = SqliteStore(path)
    await store.create("run", "", [BODY], Summary())
    path.unlink()
    with pytest.raises(JournalError, match="was removed or replaced while it was in use"):
        await store.append("run", 1, [BODY], Summary())
    with pytest.raises(JournalDamaged, match=r"its log is there; put it back, or remove journal\.db-wal"):
        await store.append("run", 1, [BODY], Summary())
    for each in path.parent.iterdir():
        each.unlink()
    with pytest.raises(RunNotFound):
        await store.append("run", 1, [BODY], Summary())
    await store.aclose()


@pytest.mark.anyio
async def test_an_id_that_cannot_be_stored(path: Path) -> None:
    store = SqliteStore(path)
    for use in (store.find, store.read):
        with pytest.raises(JournalError, match=r"must be text that can be written as UTF-8, not 'run\\udcff'"):
            await use("run\udcff")
    await store.aclose()


@pytest.mark.anyio
async def test_a_summary_that_cannot_be_read_hides_no_run(path: Path) -> None:
    await fill(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE run SET summary = '{'")
        connection.commit()
    store = SqliteStore(path)
    (row,) = await store.runs()
    assert (row.run_id, row.entries, row.summary.why) == ("run", 20, "its summary cannot be read")
    await store.aclose()


# --- group commit ---------------------------------------------------------------------------------------------------


def commits(path: Path) -> int:
    """Transactions in the log: frames that end one tell the file's size after it."""
    log = path.with_name(path.name + "-wal").read_bytes()
    frame = 24 + struct.unpack(">I", log[8:12])[0]
    return sum(struct.unpack(">I", log[at + 4 : at + 8])[0] > 0 for at in range(32, len(log), frame))


@pytest.mark.anyio
async def test_appends_that_wait_are_one_transaction(path: Path) -> None:
    store = SqliteStore(path)
    for number in range(50):
        await store.create(f"run-{number}", "", [], Summary())
    before = commits(path)
    assert before == 50
    async with tasks() as group:
        for number in range(50):
            group.start_soon(store.append, f"run-{number}", 1, [BODY], Summary())
    assert 1 <= commits(path) - before <= 10
    assert [rows(path, f"run-{number}") for number in range(50)] == [1] * 50
    await store.aclose()


@pytest.mark.anyio
async def test_a_refused_append_takes_no_other_with_it(path: Path) -> None:
    store = SqliteStore(path)
    await store.create("run", "", [], Summary())
    refused: list[Exception] = []

    async def append(run_id: str, epoch: int, body: Any) -> None:
        try:
            await store.append(run_id, epoch, [b"first", body], Summary())
        except (JournalError, sqlite3.Error) as error:
            refused.append(error)

    async with tasks() as group:
        with write_lock(path):  # until all wait
            group.start_soon(store.append, "run", 1, [b"one"], Summary())
            group.start_soon(append, "run", 9, BODY)
            group.start_soon(store.append, "run", 1, [b"two"], Summary())
            group.start_soon(append, "nobody", 1, BODY)
            group.start_soon(append, "run", 1, object())  # written in part before SQLite refuses it
            group.start_soon(store.append, "run", 1, [b"three"], Summary())
            await anyio.sleep(0.05)
    assert sorted(type(error).__name__ for error in refused) == ["Fenced", "JournalError", "RunNotFound"]
    assert sorted(entry.body for entry in await store.read("run")) == [b"one", b"three", b"two"]
    await store.aclose()


# --- stops ----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_native_cancellation_is_written_all_the_same(path: Path) -> None:
    """aiohttp, uvicorn and `asyncio.timeout` cancel natively; that goes through every shield."""
    await fill(path, 1)
    store = SqliteStore(path)
    with write_lock(path):
        task = asyncio.ensure_future(store.append("run", 1, [BODY], Summary()))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert rows(path, "run") == 2
    await store.aclose()


@pytest.mark.anyio
async def test_a_save_that_takes_too_long_may_yet_be_written(path: Path) -> None:
    store = SqliteStore(path)
    await store.create("run", "", [BODY], Summary())
    thread = store._writer._thread
    assert thread is not None
    store._save_seconds = 0.05
    thread.suspend()  # as a fork does
    try:
        with pytest.raises(SaveTimeout) as caught:
            await store.append("run", 1, [BODY], Summary())
        assert caught.value.args == (0.05, "save_seconds")
    finally:
        thread.go_on()
    store._save_seconds = 10
    await store.aclose()
    assert rows(path, "run") == 2


def test_a_stop_at_every_await(tmp_path: Path) -> None:
    """Wherever the stop comes: what was acknowledged is in the file and nothing else, no thread is left."""
    numbers = iter(range(10_000))

    async def use() -> None:
        store = SqliteStore(tmp_path / f"{next(numbers)}.db")
        path = store.path
        acknowledged = 0
        try:
            await store.create("run", this_process(), [BODY], Summary())
            acknowledged = 1
            acknowledged = await store.append("run", 1, [BODY, BODY], Summary())
            assert len(await store.read("run")) == 3
            await store.release("run", 1)
        finally:
            await finish(5, store.aclose)
            assert store_threads(path) == []
            assert rows(path, "run") == acknowledged

    stopped = list(every_await(use, again_after=(1,)))
    assert {run.way for run in stopped} == {"cancel", "deadline", "shutdown"}
    for each in stopped:
        assert each.error is None or isinstance(each.error, type(each.cause)), each
        assert each.left_running == ()
