# ruff: noqa: E501
"""The script that watches which data files a training's processes open, rung by rung, as raw text.

Rows: ``o T PID RANK VIA FILE`` an open caught, ``f FILE PATH`` what a file number stands for, ``q T PID FD POS SIZE FILE`` the position in
a file that stays open, ``m PID RANK FILE`` a mapped file, ``blind WHAT WHY``, ``cost CPU_S SWEEPS``, ``window START END``.
The poll loop spends at most DUTY of one core, counted by its own CPU clock: between two sweeps it sleeps long enough.
"""

from __future__ import annotations

import shlex

PYTHON = r"""
import ctypes, os, re, select, signal, struct, subprocess, sys, time
mark = "==diag_kit:opens=="
seconds, data_dir, duty, careful = float(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4] == "careful"
ranks = {int(pid): int(rank) for rank, pid in (item.split(":") for item in sys.argv[5:])}
libc = ctypes.CDLL(None, use_errno=True)
not_data = re.compile(r"^/(dev|proc|sys|etc|usr|lib|lib64|bin|run|boot)/|/(site|dist)-packages/|^/(anon_hugepage|memfd:|SYSV)|"
    r"\.(so|py|pyc|pyi|log|lock|sock|out|err)(\.[0-9.]+)?$|/torchelastic_|/wandb/|tfevents|/__pycache__/|lib/python3| \(deleted\)$")
lines, numbers = [], {}
def say(*parts):
    lines.append(" ".join(str(p) for p in parts))
def flush():
    global lines
    data = "".join(line.replace("\n", "\\n") + "\n" for line in lines).encode("utf-8", "surrogateescape")
    lines = []
    while data:
        data = data[os.write(1, data):]
def file_number(path):
    n = numbers.get(path)
    if n is None:
        n = numbers[path] = len(numbers)
        say("f", n, path)
    return n
def children(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            return [int(c) for c in f.read().split()]
    except (OSError, ValueError):
        return []
def all_children():
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as f:
                    found.setdefault(int(f.read(400).rpartition(b")")[2].split()[1]), []).append(int(name))
            except (OSError, ValueError, IndexError):
                pass
    return found
has_children_file = os.path.exists("/proc/%d/task/%d/children" % (os.getpid(), os.getpid()))
def watched():
    table = None if has_children_file else all_children()
    pids = {}
    for pid, rank in ranks.items():
        if os.path.exists("/proc/%d" % pid):
            pids[pid] = rank
            for child in (children(pid) if table is None else table.get(pid, [])):
                pids[child] = rank
    return pids
def stop(*_):
    raise SystemExit
signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)
outside = re.sub(r"^/proc/[0-9]+/root", "", data_dir)
real = os.path.realpath(data_dir) if data_dir else ""
def as_seen(path):
    # a container's files are watched through /proc/PID/root and named as its processes name them
    return re.sub(r"^/proc/[0-9]+/root(?=/)", "", path)
prefixes = tuple({p.rstrip("/") + "/" for p in (outside, as_seen(real)) if p})
for p in sorted(prefixes):
    say("prefix", p)
def folders():
    found, queue, end = [], [real] if real and os.path.isdir(real) else [], time.time() + 0.5
    while queue and len(found) < 256 and time.time() < end:
        here = queue.pop(0)
        found.append(here)
        try:
            with os.scandir(here) as entries:
                for count, entry in enumerate(entries):
                    if count > 3000 and len(found) == 1 or time.time() > end:
                        break
                    if entry.is_dir(follow_symlinks=False):
                        queue.append(entry.path)
        except OSError as error:
            say("blind", "folder", error.strerror, here)
    return found
IN_OPEN, IN_Q_OVERFLOW, IN_ISDIR = 0x20, 0x4000, 0x40000000
class Inotify:
    def __init__(self):
        self.fd, self.watches, self.known, self.full = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), {}, set(), False
        if self.fd < 0:
            say("blind", "inotify", os.strerror(ctypes.get_errno()))
    def add(self, folder, told=False):
        if self.fd < 0 or folder in self.known or len(self.known) >= 320 or self.full:
            return
        self.known.add(folder)
        wd = libc.inotify_add_watch(self.fd, os.fsencode(folder), IN_OPEN)
        if wd < 0:
            number = ctypes.get_errno()
            self.full = number == 28
            say("blind", "inotify", os.strerror(number), folder)
        else:
            self.watches[wd] = as_seen(folder)
    def drain(self):
        caught = 0
        while self.fd >= 0:
            try:
                data = os.read(self.fd, 262144)
            except OSError:
                return caught
            now, at = time.time(), 0
            while at + 16 <= len(data):
                wd, mask, cookie, size = struct.unpack_from("iIII", data, at)
                name = data[at + 16 : at + 16 + size].rstrip(b"\0")
                at += 16 + size
                if mask & IN_Q_OVERFLOW:
                    say("blind", "inotify", "events were lost: the queue was full")
                elif name and not mask & IN_ISDIR and wd in self.watches:
                    path = self.watches[wd] + "/" + os.fsdecode(name)
                    if not not_data.search(path):
                        say("o", "%.4f" % now, "-", "-", "inotify", file_number(path))
                        caught += 1
        return caught
class Poll:
    def __init__(self, inotify):
        self.inotify, self.gaps, self.last, self.scans, self.blind, self.stays = inotify, {}, {}, {}, set(), {}
        self.hot = set()
        self.sweeps = 0
    def full(self, pid, rank, now):
        # learn which numbers are taken for long, so that sweeps look at the free ones only: an open gets the lowest of them
        base = "/proc/%d/fd/" % pid
        try:
            taken = {}
            for name in os.listdir(base):
                try:
                    taken[int(name)] = os.readlink(base + name)
                except OSError:
                    pass
        except OSError as error:
            if error.errno in (1, 13) and rank not in self.blind:
                self.blind.add(rank)
                say("blind", "poll", error.strerror, "rank", rank, "pid", pid)
            self.gaps.pop(pid, None)
            return
        before = self.scans.get(pid, {})
        self.scans[pid] = taken
        passing = {n for n, t in taken.items() if t.startswith("/") and not not_data.search(t)}
        steady = {n for n, t in taken.items() if (before[n] == t if n in before else n not in passing and not before)}
        self.gaps[pid] = [n for n in range(max(taken, default=2) + 4) if n not in steady][:3]
        for n, target in taken.items():
            if target.startswith("/") and not not_data.search(target):
                self.seen(now, pid, rank, n, target)
                if before.get(n) == target:
                    self.position(now, pid, n, target)
    def position(self, now, pid, n, target):
        key = (pid, n, target)
        self.stays[key] = self.stays.get(key, 0) + 1
        if self.stays[key] > 200 or len(self.stays) > 400:
            return
        try:
            with open("/proc/%d/fdinfo/%d" % (pid, n)) as f:
                info = f.read()
            size = os.stat("/proc/%d/fd/%d" % (pid, n)).st_size
            say("q", "%.3f" % now, pid, n, info.split(None, 2)[1], size, file_number(target))
        except (OSError, IndexError):
            pass
    def seen(self, now, pid, rank, n, target):
        if self.last.get((pid, n)) == target:
            return
        self.last[(pid, n)] = target
        say("o", "%.4f" % now, pid, rank, "poll", file_number(target))
        folder = os.path.dirname(target)
        if folder not in self.inotify.known and (not prefixes or not target.startswith(prefixes) or data_dir):
            self.inotify.add(folder if os.path.isdir(folder) else "/proc/%d/root%s" % (pid, folder))
            self.inotify.known.add(folder)
    def sweep(self, pids):
        # data files pass through few of the free numbers: those are looked at every time, the others every fourth
        now, link, last = time.time(), os.readlink, self.last
        self.sweeps += 1
        everything = self.sweeps % 4 == 0 or not self.hot
        places = [(pid, n) for pid, gaps in self.gaps.items() for n in gaps] if everything else list(self.hot)
        for place in places:
            pid, n = place
            try:
                target = link("/proc/%d/fd/%d" % place)
            except OSError:
                last.pop(place, None)
                if pid not in self.gaps:
                    self.hot.discard(place)
                continue
            if target[:1] == "/" and last.get(place) != target:
                if not not_data.search(target):
                    self.hot.add(place)
                    self.seen(now, pid, pids.get(pid), n, target)
def maps(pids):
    done = set()
    for pid in list(pids)[:64]:
        try:
            with open("/proc/%d/maps" % pid) as f:
                for line in f:
                    path = line.rstrip("\n").split(None, 5)[5:]
                    if path and path[0].startswith("/") and not not_data.search(path[0]) and (pid, path[0]) not in done:
                        done.add((pid, path[0]))
                        if len(done) < 2000:
                            say("m", pid, pids[pid], file_number(path[0]))
        except OSError:
            pass
def watch():
    inotify = Inotify()
    for folder in folders():
        inotify.add(folder)
    poll, start, pids = Poll(inotify), time.time(), watched()
    say("window", "%.4f" % start)
    maps(pids)
    next_look, next_flush, order = 0.0, start + 1, []
    while True:
        now = time.time()
        if now >= start + seconds:
            break
        used = time.process_time()
        if now >= next_look:
            pids, next_look = watched(), now + 1.0
            for gone in set(poll.gaps) - set(pids):
                poll.gaps.pop(gone)
            order = sorted(pids)
            if not pids:
                say("blind", "poll", "no rank is running any more")
                break
        if order:
            pid = order.pop()
            poll.full(pid, pids.get(pid), now)
        poll.sweep(pids)
        inotify.drain()
        if now >= next_flush:
            flush()
            next_flush = now + 1
        spent = time.process_time() - used
        time.sleep(max(0.0005, min(spent / duty - spent, 0.25, start + seconds - time.time())))
    inotify.drain()
    say("window_end", "%.4f" % time.time())
    say("cost", "%.3f" % time.process_time(), poll.sweeps, len(pids))
def fanotify():
    fd = libc.fanotify_init(0x2 | 0x1, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_LARGEFILE", 0))
    if fd < 0:
        say("blind", "fanotify", os.strerror(ctypes.get_errno()))
        return False
    marked = 0
    for folder in folders():
        if libc.fanotify_mark(fd, 1, ctypes.c_uint64(0x20 | 0x08000000), -100, os.fsencode(folder)) == 0:
            marked += 1
        elif not marked:
            say("blind", "fanotify", os.strerror(ctypes.get_errno()), folder)
    if not marked:
        os.close(fd)
        return False
    start, pids, next_look = time.time(), watched(), 0.0
    say("window", "%.4f" % start)
    while time.time() < start + seconds:
        now = time.time()
        if now >= next_look:
            pids, next_look = watched(), now + 0.5
            flush()
        if not select.select([fd], [], [], 0.05)[0]:
            continue
        try:
            data = os.read(fd, 65536)
        except OSError:
            continue
        now, at = time.time(), 0
        while at + 24 <= len(data):
            size, version, _, meta, mask, file, pid = struct.unpack_from("IBBHQii", data, at)
            at += max(size, 24)
            if file < 0:
                if mask & 0x4000:
                    say("blind", "fanotify", "events were lost: the queue was full")
                continue
            try:
                path = as_seen(os.readlink("/proc/self/fd/%d" % file))
            except OSError:
                path = ""
            os.close(file)
            if path and pid != os.getpid() and not not_data.search(path):
                say("o", "%.4f" % now, pid, pids.get(pid, "-"), "fanotify", file_number(path))
        time.sleep(0.01)
    say("window_end", "%.4f" % time.time())
    say("cost", "%.3f" % time.process_time(), 0, len(pids))
    os.close(fd)
    return True
def strace():
    pids = watched()
    command = ["strace", "-f", "-q", "-ttt", "-s", "4096", "-e", "trace=open,openat,openat2", "-e", "signal=none"]
    for pid in list(pids)[:64]:
        command += ["-p", str(pid)]
    try:
        tracer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except OSError as error:
        say("blind", "strace", error.strerror)
        return
    for pid, rank in pids.items():
        say("rank", pid, rank)
    start, text = time.time(), b""
    say("window", "%.4f" % start)
    try:
        while time.time() < start + seconds and tracer.poll() is None:
            if select.select([tracer.stderr], [], [], 0.2)[0]:
                more = os.read(tracer.stderr.fileno(), 65536)
                if not more:
                    break
                whole, _, text = (text + more).rpartition(b"\n")
                for line in whole.split(b"\n"):
                    if b"open" in line or b"strace:" in line or b"ttach" in line:
                        say("x", line.decode("utf-8", "surrogateescape"))
    finally:
        if tracer.poll() is None:
            tracer.send_signal(signal.SIGINT)
            try:
                tracer.wait(5)
            except subprocess.TimeoutExpired:
                tracer.kill()
    say("window_end", "%.4f" % time.time())
    t = os.times()
    say("cost", "%.3f" % (t[0] + t[1] + t[2] + t[3]), 0, len(pids))
print(mark, flush=True)
try:
    if not careful:
        watch()
    elif not (real and os.geteuid() == 0 and fanotify()):
        strace()
    say("end")
finally:
    flush()
"""

# One `ls` over all processes a sweep; about 5 ms of CPU, so 20 sweeps a second stay near a tenth of a core.
SHELL = r"""
seconds=$1; data_dir=$2; careful=$4; shift 4
echo '==diag_kit:opens=='
pids=; for item in "$@"; do
  pid=${item#*:}; [ -d "/proc/$pid" ] || continue
  for each in "$pid" $(cat "/proc/$pid/task/$pid/children" 2>/dev/null); do pids="$pids $each"; echo "rank $each ${item%%:*}"; done
  ls "/proc/$pid/fd" >/dev/null 2>&1 || echo "blind poll Permission denied rank ${item%%:*} pid $pid"
done
[ -n "$data_dir" ] && echo "prefix $data_dir/"
stamp() { case $(date +%N) in *N*|'') date +%s ;; *) date +%s.%N ;; esac; }
whole=${seconds%%.*}; end=$(( $(date +%s) + whole ))
echo "window $(stamp)"
if [ "$careful" = careful ]; then
  if command -v strace >/dev/null 2>&1; then
    flags=; for each in $pids; do flags="$flags -p $each"; done
    timeout -s INT "$seconds" strace -f -q -ttt -s 4096 -e trace=open,openat -e signal=none $flags 2>&1 | sed 's/^/x /'
  else
    echo 'blind strace not installed'
  fi
else
  echo 'blind inotify no python3 on the host'
  folders=; for each in $pids; do folders="$folders /proc/$each/fd"; done
  echo "s $(stamp)"
  while [ "$(date +%s)" -lt "$end" ]; do
    ls -l $folders 2>/dev/null | sed -n -e 's#^/proc/\([0-9]*\)/fd:$#d \1#p' -e 's#.* \([0-9][0-9]*\) -> \(/.*\)$#l \1 \2#p' |
      grep -vE '^l [0-9]+ (/dev/|/proc/|/sys/)'
    echo "s $(stamp)"
    sleep 0.05 2>/dev/null || sleep 1
  done
fi
echo "window_end $(stamp)"
echo "times $(times | tr '\n' ' ')"
echo end
"""

SCRIPT = f"""
if command -v python3 >/dev/null 2>&1; then
  exec python3 -I -S -c {shlex.quote(PYTHON)} "$@"
fi
{SHELL}
"""
