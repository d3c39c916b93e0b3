"""The remote side where the host has a system Python: one small process that runs many commands at once over one stream.

It costs the host one process of about 9 MB and 10 ms of CPU to start, and then one fork for each command. Requests come as
``run ID TIMEOUT MAX_BYTES LENGTH...`` and the parts' bytes; answers go back as frames ``KIND ID LENGTH`` and bytes (``b`` begun,
``o`` output, ``e`` errors, ``x`` ended), so a command that hangs keeps no other from answering. Each command is a session of its
own with a deadline and a limit on what it may print; the end of the input ends them all. Standard library only, Python 3.6 on,
and only modules that are quick to import.
"""

from __future__ import annotations

AGENT_HELLO = "agent=1"

AGENT_PROGRAM = r"""
import os, select, sys, time, _signal
TERM, KILL = 15, 9
QUEUE_BYTES = 4194304
env = dict(os.environ)
jobs, by_pid, by_fd = {}, {}, {}
queue, queued, paused, ending = [], 0, False, False
poll = select.poll()
wake_r, wake_w = os.pipe()
for fd in (0, 1, wake_r, wake_w):
    os.set_blocking(fd, False)
_signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
def on_signal(number, frame):
    global ending
    ending = ending or number != 17
for number in (1, 2, 15, 17):
    _signal.signal(number, on_signal)
def send(kind, job, data=b""):
    global queued
    head = ("%s %d %d\n" % (kind, job.id, len(data))).encode()
    queue.append(head + data if len(data) < 4096 else head)
    if len(data) >= 4096:
        queue.append(data)
    queued += len(head) + len(data)
def flush():
    global queued, ending, queue
    while queue:
        try:
            done = os.writev(1, queue[:64])
        except BlockingIOError:
            return
        except OSError:
            ending = True
            queue = []
            return
        queued -= done
        n = 0
        while n < len(queue) and done >= len(queue[n]):
            done -= len(queue[n]); n += 1
        del queue[:n]
        if done:
            queue[0] = memoryview(queue[0])[done:]
def kill_group(pid, number, reaped=False):
    try:
        os.killpg(pid, number)
    except OSError:
        if reaped:
            return
        try:
            os.kill(pid, number)
        except OSError:
            pass
def kill_session(sid):
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            try:
                with open("/proc/" + name + "/stat", "rb") as file:
                    if int(file.read().rpartition(b")")[2].split()[3]) == sid:
                        os.kill(int(name), KILL)
            except (OSError, ValueError, IndexError):
                pass
class Job:
    def __init__(self, id, timeout, limit, argv):
        self.id, self.limit, self.how, self.kill_at, self.fds = id, limit, "", 0.0, {}
        self.left, self.total = {"o": limit, "e": limit}, {"o": 0, "e": 0}
        self.deadline = time.monotonic() + timeout
        (out_r, out_w), (err_r, err_w) = os.pipe(), os.pipe()
        try:
            self.pid = start(argv, out_w, err_w)
        finally:
            os.close(out_w); os.close(err_w)
            if not hasattr(self, "pid"):
                os.close(out_r); os.close(err_r)
        for fd, kind in ((out_r, "o"), (err_r, "e")):
            os.set_blocking(fd, False)
            self.fds[fd] = kind
            by_fd[fd] = self
            if not paused:
                poll.register(fd, select.POLLIN)
        jobs[id] = by_pid[self.pid] = self
        send("b", self)
    def read(self, fd):
        try:
            data = os.read(fd, 262144)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.close(fd)
            return False
        kind = self.fds[fd]
        self.total[kind] += len(data)
        if self.left[kind] > 0:
            keep = data[:self.left[kind]]
            self.left[kind] -= len(keep)
            send(kind, self, keep)
        elif self.total[kind] > 4 * max(self.limit, 1048576):
            self.end("overflow")
        return True
    def close(self, fd):
        try:
            poll.unregister(fd)
        except KeyError:  # paused
            pass
        os.close(fd)
        del by_fd[fd], self.fds[fd]
    def end(self, how):
        if not self.how and self.id in jobs:
            self.how, self.kill_at = how, time.monotonic() + 1.0
            kill_group(self.pid, TERM)
    def ended(self, status, cpu_s):
        del jobs[self.id], by_pid[self.pid]
        kill_group(self.pid, KILL, True)
        code = status >> 8 if status & 127 == 0 else 128 + (status & 127)
        if self.how or code in (124, 137):
            kill_session(self.pid)
        for fd in list(self.fds):
            n = 0
            while n < 8 and self.read(fd):
                n += 1
            if fd in self.fds:
                self.close(fd)
        text = "%d %s %.4f %.4f %d %d" % (code, self.how or "ended", cpu_s, spent(), self.total["o"], self.total["e"])
        send("x", self, text.encode())
def start(argv, out_w, err_w):
    path = "/bin/sh"
    try:
        actions = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                   (os.POSIX_SPAWN_DUP2, out_w, 1), (os.POSIX_SPAWN_DUP2, err_w, 2)]
        return os.posix_spawn(path, argv, env, file_actions=actions, setsid=True, setsigdef=(1, 2, 13, 15, 17, 25))
    except (AttributeError, NotImplementedError):
        pass
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            for number in (1, 2, 13, 15, 17, 25):
                _signal.signal(number, _signal.SIG_DFL)
            null = os.open("/dev/null", os.O_RDONLY)
            os.dup2(null, 0); os.dup2(out_w, 1); os.dup2(err_w, 2)
            os.execve(path, argv, env)
        finally:
            os._exit(127)
    return pid
children_s = 0.0
def spent():
    return time.process_time() + children_s
def reap():
    global children_s
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        cpu_s = usage.ru_utime + usage.ru_stime
        children_s += cpu_s
        if pid in by_pid:
            by_pid[pid].ended(status, cpu_s)
text = b""
def requests():
    global text, ending
    try:
        more = os.read(0, 1048576)
    except BlockingIOError:
        return
    except OSError:
        more = b""
    if not more:
        ending = True
        return
    text += more
    while True:
        line, newline, rest = text.partition(b"\n")
        if not newline:
            return
        words = line.split()
        if words[:1] == [b"run"]:
            sizes = [int(word) for word in words[4:]]
            if len(rest) < sum(sizes):
                return
            argv, at = [b"sh", b"-c"], 0
            for size in sizes:
                argv.append(rest[at:at + size]); at += size
            rest = rest[at:]
            begin(int(words[1]), float(words[2]), int(words[3]), argv)
        elif words[:1] == [b"stop"] and int(words[1]) in jobs:
            jobs[int(words[1])].end("stopped")
        elif words[:1] == [b"ping"]:
            queue.append(b"p %s 0\n" % words[1])
        text = rest
class Failed:
    pass
def begin(id, timeout, limit, argv):
    try:
        Job(id, timeout, limit, argv)
    except OSError as error:
        failed = Failed()
        failed.id = id
        said = ("cannot start sh: %s\n" % error).encode()
        send("e", failed, said)
        send("x", failed, ("126 ended 0 %.4f 0 %d" % (spent(), len(said))).encode())
def pause(wanted):
    global paused
    if wanted != paused:
        paused = wanted
        for fd in by_fd:
            if paused:  # not only masked: the end of a pipe would be told again and again
                poll.unregister(fd)
            else:
                poll.register(fd, select.POLLIN)
def deadlines():
    now, soonest = time.monotonic(), 3600.0
    for job in list(jobs.values()):
        if job.how and job.kill_at and now >= job.kill_at:
            kill_group(job.pid, KILL)
            kill_session(job.pid)
            job.kill_at = 0.0
        elif not job.how and now >= job.deadline:
            job.end("timeout")
        soonest = min(soonest, (job.kill_at or now + 3600 if job.how else job.deadline) - now)
    return max(0.0, soonest)
poll.register(0, select.POLLIN)
poll.register(wake_r, select.POLLIN)
os.write(1, ("diag_kit-runner-ready agent=1 pid=%d\n" % os.getpid()).encode())
while not ending:
    wait_s = deadlines()
    flush()
    poll.register(1, select.POLLOUT if queue else 0)
    pause(queued > QUEUE_BYTES)
    for fd, event in poll.poll(int(wait_s * 1000) + 1):
        if fd == 0:
            requests()
        elif fd == 1:
            ending = ending or bool(event & (select.POLLERR | select.POLLHUP | select.POLLNVAL))
        elif fd == wake_r:
            try:
                os.read(wake_r, 4096)
            except OSError:
                pass
            reap()
        elif fd in by_fd:
            by_fd[fd].read(fd)
for job in list(jobs.values()):
    job.end("stopped")
until = time.monotonic() + 1.0
while jobs and time.monotonic() < until:
    queue = []
    reap()
    time.sleep(0.02)
for job in list(jobs.values()):
    kill_group(job.pid, KILL)
    kill_session(job.pid)
os._exit(0)
"""
