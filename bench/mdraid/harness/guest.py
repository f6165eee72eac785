"""md's side: a User Mode Linux guest that does what it is told, a line at a time, and waits idle in between."""
import os
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

from harness import core
from harness.cases import JOURNAL_MIB, MEMBERS_MAX

SOURCES = Path(__file__).resolve().parent.parent / "guest"
# What the guest needs beside its members: kernel, stripe cache, buffers.
OVERHEAD_MIB = 1536
# Far beyond what any line takes.
PATIENCE_SECONDS = 600


class GuestFailed(Exception):
    """The guest did not do what it was told; the message has its last lines."""


def memory_mib(member_mib):
    """The guest's memory."""
    return member_mib * MEMBERS_MAX + JOURNAL_MIB + OVERHEAD_MIB


def build_initramfs(folder):
    """Makes the guest's files, in an archive in `folder`."""
    root = folder / "root"
    for name in ("bin", "sbin", "proc", "sys", "dev", "tmp", "run"):
        (root / name).mkdir(parents=True)
    subprocess.run(["gcc", "-O2", "-Wall", "-static", "-o", root / "bin/load", SOURCES / "load.c"], check=True)
    shutil.copy("/bin/busybox", root / "bin/busybox")
    shutil.copy("/sbin/mdadm", root / "sbin/mdadm")
    linked = subprocess.run(["ldd", "/sbin/mdadm"], check=True, capture_output=True, text=True).stdout
    for library in {word for word in linked.split() if word.startswith("/")}:
        target = root / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)
    shutil.copy(SOURCES / "init", root / "init")
    (root / "init").chmod(0o755)
    archive = folder / "initramfs"
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    with archive.open("wb") as out:
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names.encode(), stdout=out, check=True)
    return archive


class Guest:
    """A running guest. `folder` is a file system in memory, which backs the guest's."""

    def __init__(self, kernel, folder, member_mib, on_core, niceness):
        self.core = on_core
        self.lines, self.pending = [], b""
        # The counters when the measurement began, and what they said of it at its end.
        self.before, self.used = None, None
        command = [kernel, f"mem={memory_mib(member_mib)}M", f"flatram.nr={MEMBERS_MAX}", f"flatram.mb={member_mib}",
                   f"flatram.journal_mb={JOURNAL_MIB}", f"initrd={build_initramfs(folder)}", f"uml_dir={folder}", "con=null",
                   "con0=fd:0,fd:1", "ssl=null", "quiet"]
        # TMPDIR is where UML keeps the guest's memory.
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "TMPDIR": str(folder)}, preexec_fn=lambda: core.claim(on_core, niceness))
        self._answer("boot")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Ends the guest and the processes of its session, nothing else."""
        session = self.process.pid
        self.process.kill()
        self.process.wait()
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.getsid(int(entry.name)) == session:
                    os.kill(int(entry.name), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def tell(self, line):
        """Has the guest do a line (guest/init); returns what it printed."""
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return self._answer(line)

    def measure(self, line):
        """Has the guest do a line with one measurement; returns its values, and what was used of the core."""
        for said in self.tell(line):
            if said.startswith("@@E "):
                pairs = (word.split("=") for word in said.split()[2:])
                return {name: float(value) for name, value in pairs} | self.used
        raise GuestFailed(f"the guest did not measure: {line}")

    def _answer(self, line):
        said, deadline = [], time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = self._line(deadline)
            if answer is None or answer.startswith("@@X"):
                raise GuestFailed(f"the guest failed at `{line}`; its last lines:\n" + "\n".join(self.lines[-20:]))
            if answer.startswith("@@DONE"):
                if answer != "@@DONE 0":
                    raise GuestFailed(f"`{line}` failed in the guest:\n" + "\n".join(said))
                return said
            said.append(answer)

    def _line(self, deadline):
        """The guest's next line; None when there is none. The counters are looked at as the marks come."""
        while b"\n" not in self.pending:
            ready = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]
            data = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not data:
                return None
            self.pending += data
        line, self.pending = self.pending.split(b"\n", 1)
        line = line.decode(errors="replace").strip()
        self.lines.append(line)
        if line.startswith("@@B "):
            self.before = self._counters()
        elif line.startswith("@@E "):
            (before, own_before), (after, own_after) = self.before, self._counters()
            own = own_after - own_before
            self.used = {"cpu_s": own, "foreign": core.foreign_share(before, after, own)}
        return line

    def _counters(self):
        return core.core_seconds(self.core), core.session_seconds(self.process.pid)
