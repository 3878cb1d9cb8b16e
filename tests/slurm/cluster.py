"""A throw-away Slurm of one node on this machine: munged, slurmctld and slurmd, with two GPUs that are only names.

Slurm hands out what its configuration says, so scheduling, limits, retries and lost nodes can be tested without a GPU: a
device file of any kind stands for a device, and the job gets its number in ``CUDA_VISIBLE_DEVICES``. The daemons are Debian's
own programs, run in the foreground as children of the tests, with all their files in one scratch folder. No service is
started, and nothing of a Slurm that the machine may have is touched: where one is configured, :func:`why_not` says so.

One file stands outside the scratch folder: ``/etc/slurm/slurm.conf``, a link into it, because the executor's job steps look
for the configuration at its usual place only. It goes with the cluster.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from slurm_packages import PATH, installed

CONFIGURATION = Path("/etc/slurm/slurm.conf")
ACCOUNT = "lab"
GPUS, CPUS = 2, 4
#: Without an answer for so long, a node counts as lost.
NODE_LOST_SECONDS = 12
PATIENCE = 60
_SET_PARENT_DEATH_SIGNAL = 1


def why_not(accounting: bool = False, beside_another: bool = False) -> str | None:
    """Why no cluster can be started here, or None. Installs the packages where that is possible.

    ``beside_another``: one of the tests' own is running, so its configuration stands in no one's way.
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a Slurm of one's own needs Linux and root"
    if not beside_another and os.path.lexists(CONFIGURATION) and not _left_by_dead_tests(CONFIGURATION):
        return f"{CONFIGURATION} is there: a Slurm is configured on this machine, and the tests leave it alone"
    try:
        socket.gethostbyname(_host())
    except OSError:
        return f"the name of this host, {_host()}, has no address; add a line for it to /etc/hosts"
    return installed(accounting)


def _host() -> str:
    return socket.gethostname().split(".")[0]


def _left_by_dead_tests(configuration: Path) -> bool:
    """True for a link to the scratch folder of tests that were killed."""
    if not configuration.is_symlink():
        return False
    folder = configuration.readlink().parent
    if not folder.name.startswith("pretrieve-slurm-"):
        return False
    try:
        return not Path(f"/proc/{(folder / 'tests.pid').read_text()}").exists()
    except OSError:
        return True


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _end_with_parent() -> None:
    """In a daemon, before it starts: end when the tests end, however they end."""
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


@dataclass(frozen=True)
class Job:
    """A line of squeue. ``id``: ``7``, or ``7_2`` for the second task of an array; ``comment``: of its first task."""

    id: str
    state: str
    memory_mb: int
    reason: str
    folder: str
    comment: str

    @property
    def rule(self) -> str:
        """The rule that it is a job of."""
        return self.comment.removeprefix("rule_").partition("_wildcards_")[0]


@dataclass
class Cluster:
    """A running Slurm. With ``accounting`` it has a database, in which root belongs to :data:`ACCOUNT` alone."""

    accounting: bool = False
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="pretrieve-slurm-", dir="/tmp")))
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """What a user's commands need to find this cluster."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def start(self) -> None:
        """Start everything and wait for an idle node; what was started is stopped again where that fails."""
        try:
            self._prepare()
            self._launch_munged()
            if self.accounting:
                self._start_database()
            self._launch("slurmctld", "slurmctld", "-D", "-f", str(self.folder / "slurm.conf"))
            self.until("slurmctld", lambda: self._answers("scontrol", "ping"))
            if not self.accounting:
                CONFIGURATION.parent.mkdir(exist_ok=True)
                CONFIGURATION.unlink(missing_ok=True)
                CONFIGURATION.symlink_to(self.folder / "slurm.conf")
                self.start_node()
        except BaseException:
            self.stop()
            raise

    def start_node(self) -> None:
        """Start slurmd, and wait until the node takes jobs."""
        self._launch("slurmd", "slurmd", "-D", "-f", str(self.folder / "slurm.conf"))
        absent = ("down", "drain", "fail", "inval", "unk")

        def takes_jobs() -> bool:
            state = self.node_state()
            return bool(state) and not state.startswith(absent) and not state.endswith("*")

        self.until("a node that takes jobs", takes_jobs)

    def lose_node(self) -> None:
        """``kill -9`` of slurmd: the jobs' processes live on, but nobody hears of them."""
        daemon = self.daemons.pop("slurmd")
        daemon.kill()
        daemon.wait()
        self.until("the loss of the node", lambda: self.node_state().startswith("down"))

    def node_state(self) -> str:
        """``idle``, ``mixed``, ``allocated``, ``down``, …; a star behind it: does not answer."""
        return self.command("sinfo", "--noheader", "--format=%T").strip()

    def jobs(self, folder: Path | None = None) -> list[Job]:
        """All jobs and tasks of arrays that Slurm knows, ended ones too, by number; those of one checkout only."""
        text = self.command("squeue", "--noheader", "--array", "--states=all", "--sort=i", "--format=%i|%T|%m|%r|%Z|%k")
        found = []
        for line in text.splitlines():
            number, state, memory, reason, place, comment = line.split("|", 5)
            unit = {"M": 1, "G": 1024, "T": 1024**2}[memory[-1]] if memory[-1].isalpha() else 1
            found.append(Job(number, state, int(float(memory.rstrip("MGT")) * unit), reason, place, comment))
        return [job for job in found if folder is None or job.folder == str(folder)]

    def end_time_of(self, job: str) -> None:
        """Let a running job's time limit end in five seconds; an end that is past when the controller reads it is refused.

        The controller looks at time limits twice a minute.
        """
        self.command("scontrol", "update", f"JobId={job}", "EndTime=now+5")

    def cancel_all(self) -> None:
        """End every job, whoever has sent it."""
        self.command("scancel", "--state=PENDING")
        self.command("scancel", "--state=RUNNING")

    def command(self, *words: str) -> str:
        """What one of Slurm's commands prints."""
        ended = self._run(*words)
        assert ended.returncode == 0, f"{' '.join(words)}: {ended.stderr}"
        return ended.stdout

    def until(self, what: str, holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Wait for something that is true; the last lines of all daemons' logs where it does not come."""
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, f"waited {seconds} s for {what} in vain\n{self._logs()}"
            time.sleep(0.1)

    def stop(self) -> None:
        """Cancel all jobs, end the daemons by their process ids, and remove every file."""
        if {"slurmctld", "slurmd"} <= self.daemons.keys():
            self._run("scancel", "--user=root")
            with contextlib.suppress(AssertionError):
                self.until("the end of all jobs", lambda: not self.command("squeue", "--noheader"), seconds=20)
        for name in ("slurmd", "slurmctld", "slurmdbd", "mariadbd", "munged"):
            daemon = self.daemons.pop(name, None)
            if daemon is None:
                continue
            daemon.terminate()
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self._kill_orphans()
        if CONFIGURATION.is_symlink() and CONFIGURATION.readlink().parent == self.folder:
            CONFIGURATION.unlink()
            with contextlib.suppress(OSError):
                CONFIGURATION.parent.rmdir()  # stays where packages have put something into it
        shutil.rmtree(self.folder, ignore_errors=True)

    def _kill_orphans(self) -> None:
        """Processes of jobs whose slurmd was killed: without cgroups, the next slurmd ends not all of them."""
        mark = f"SLURM_CONF={self.environment['SLURM_CONF']}".encode()
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (place / "environ").read_bytes().split(b"\0"):
                    os.kill(int(place.name), signal.SIGKILL)

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PATH": PATH} | self.environment
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=30)

    def _answers(self, *words: str) -> bool:
        try:
            return self._run(*words).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def _logs(self) -> str:
        parts = []
        for log in sorted((self.folder / "log").glob("*")):
            parts += [f"== {log.name}", *log.read_text(errors="replace").splitlines()[-15:]]
        return "\n".join(parts)

    def _launch(self, name: str, *command: str) -> None:
        with open(self.folder / f"log/{name}.out", "ab") as stream:
            self.daemons[name] = subprocess.Popen(
                command,
                env=os.environ | {"PATH": PATH} | self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )

    def _prepare(self) -> None:
        self.folder.chmod(0o755)
        for name in ("munge", "state", "spool", "log", "run", "devices"):
            (self.folder / name).mkdir()
        (self.folder / "tests.pid").write_text(str(os.getpid()))
        for number in range(GPUS):
            device = self.folder / f"devices/gpu{number}"
            try:
                os.mknod(device, 0o600 | 0o020000, os.makedev(1, 3))  # a second /dev/null
            except OSError:
                device.touch()
        self.ports = dict(zip(("slurmctld", "slurmd", "slurmdbd", "sql"), _free_ports(4), strict=True))
        (self.folder / "slurm.conf").write_text(self._configuration())
        devices = f"{self.folder}/devices/gpu[0-{GPUS - 1}]"
        (self.folder / "gres.conf").write_text(f"AutoDetect=off\nNodeName=localhost Name=gpu File={devices}\n")
        constrain = [f"Constrain{what}=no" for what in ("Cores", "RAMSpace", "Devices")]
        (self.folder / "cgroup.conf").write_text("\n".join(["CgroupPlugin=cgroup/v1", *constrain, ""]))

    def _configuration(self) -> str:
        """slurm.conf: no systemd, no cgroups, no mail; cores, memory and GPUs are scheduled; quick to answer."""
        host, folder = _host(), self.folder
        lines = {
            "ClusterName": "test",
            "SlurmctldHost": f"{host}(127.0.0.1)",
            "SlurmctldPort": self.ports["slurmctld"],
            "SlurmdPort": self.ports["slurmd"],
            "SlurmUser": "root",
            "SlurmdUser": "root",
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={folder}/munge/socket",
            "CredType": "cred/munge",
            "CommunicationParameters": "NoCtldInAddrAny,NoInAddrAny",
            "StateSaveLocation": f"{folder}/state",
            "SlurmdSpoolDir": f"{folder}/spool",
            "SlurmctldPidFile": f"{folder}/run/slurmctld.pid",
            "SlurmdPidFile": f"{folder}/run/slurmd.pid",
            "SlurmctldLogFile": f"{folder}/log/slurmctld.log",
            "SlurmdLogFile": f"{folder}/log/slurmd.log",
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            "JobAcctGatherType": "jobacct_gather/linux",
            "SwitchType": "switch/none",
            "MpiDefault": "none",
            "MailProg": "/bin/true",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_Core_Memory",
            "DefMemPerCPU": 100,
            "GresTypes": "gpu",
            "SchedulerParameters": "batch_sched_delay=0,sched_interval=2,sched_min_interval=0,bf_interval=2",
            "MinJobAge": 3600,  # ended jobs stay in squeue for as long as the tests may last
            "KillWait": 3,
            "SlurmdTimeout": NODE_LOST_SECONDS,
            "ReturnToService": 2,
            "SlurmdParameters": "config_overrides",  # more cores and memory than there are: most jobs wait, not work
            "JobRequeue": 0,
        }
        if self.accounting:
            lines |= {
                "AccountingStorageType": "accounting_storage/slurmdbd",
                "AccountingStorageHost": "localhost",
                "AccountingStoragePort": self.ports["slurmdbd"],
                "AccountingStoragePass": f"{folder}/munge/socket",
                "AccountingStorageEnforce": "associations",
            }
        node = (
            f"NodeName=localhost NodeHostname={host} NodeAddr=127.0.0.1 CPUs={CPUS} RealMemory=200000 Gres=gpu:{GPUS}"
        )
        partition = "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=10 State=UP"
        return "\n".join([*(f"{key}={value}" for key, value in lines.items()), node, partition, ""])

    def _launch_munged(self) -> None:
        """The service that tells Slurm's daemons who asks; it wants a key of its own and a folder that nobody else writes."""
        place = self.folder / "munge"
        key = place / "key"
        key.touch(0o400)
        key.write_bytes(secrets.token_bytes(128))
        options = {"key-file": key, "socket": place / "socket", "pid-file": place / "pid", "seed-file": place / "seed"}
        options["log-file"] = self.folder / "log/munged.log"
        self._launch("munged", "munged", "--foreground", *(f"--{name}={path}" for name, path in options.items()))
        self.until("munged", (place / "socket").exists)

    def _start_database(self) -> None:
        """MariaDB and slurmdbd, and an account with root in it."""
        data, log = self.folder / "sql", self.folder / "log/mariadb-install-db.log"
        plain = ("--skip-test-db", "--auth-root-authentication-method=normal")
        with open(log, "wb") as stream:
            subprocess.run(
                ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}", *plain],
                env=os.environ | {"PATH": PATH},
                stdout=stream,
                stderr=stream,
                check=True,
                timeout=120,
            )
        own = [f"--datadir={data}", f"--socket={self.folder}/run/sql", f"--pid-file={self.folder}/run/sql.pid"]
        own += ["--bind-address=127.0.0.1", f"--port={self.ports['sql']}", "--innodb-buffer-pool-size=32M"]
        self._launch("mariadbd", "mariadbd", "--no-defaults", "--user=root", "--skip-log-bin", *own)
        ask = ("mariadb", "--no-defaults", "--user=root", f"--socket={self.folder}/run/sql")
        self.until("MariaDB", lambda: self._answers(*ask, "--execute=select 1"))
        statements = "create database slurm; create user slurm@'127.0.0.1' identified by 'slurm';"
        statements += "create user slurm@localhost identified by 'slurm';"
        statements += "grant all on slurm.* to slurm@'127.0.0.1'; grant all on slurm.* to slurm@localhost;"
        self.command(*ask, f"--execute={statements}")
        lines = {
            "DbdHost": "localhost",
            "DbdAddr": "127.0.0.1",
            "DbdPort": self.ports["slurmdbd"],
            "SlurmUser": "root",
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={self.folder}/munge/socket",
            "LogFile": f"{self.folder}/log/slurmdbd.log",
            "PidFile": f"{self.folder}/run/slurmdbd.pid",
            "StorageType": "accounting_storage/mysql",
            "StorageHost": "127.0.0.1",
            "StoragePort": self.ports["sql"],
            "StorageUser": "slurm",
            "StoragePass": "slurm",
            "StorageLoc": "slurm",
        }
        place = self.folder / "slurmdbd.conf"
        place.touch(0o600)
        place.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        self._launch("slurmdbd", "slurmdbd", "-D")
        self.until("slurmdbd", lambda: self._answers("sacctmgr", "--noheader", "show", "cluster"))
        for what in (["cluster", "test"], ["account", ACCOUNT, "Cluster=test"]):
            self.command("sacctmgr", "--immediate", "add", *what)
        self._run("sacctmgr", "--immediate", "add", "user", "root", f"Account={ACCOUNT}", f"DefaultAccount={ACCOUNT}")


@contextlib.contextmanager
def started(accounting: bool = False, beside_another: bool = False) -> Iterator[Cluster]:
    """A cluster for as long as the block lasts. What uses it is skipped, with the reason, where none can be had: see
    :func:`why_not`, or a container that forbids what Slurm's daemons do."""
    reason = why_not(accounting, beside_another)
    if reason:
        pytest.skip(reason)
    made = Cluster(accounting)
    try:
        made.start()
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"Slurm does not start on this machine: {error}")
    try:
        yield made
    finally:
        made.stop()
