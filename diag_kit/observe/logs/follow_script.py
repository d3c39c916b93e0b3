"""The script that follows growing files on the host: only what is appended is read, once, about every second.

Python where the host has it (3.6 or later), else sh with tail and head. Both print the same parts: ``start`` once per
file, ``tick`` per file and second with the appended bytes and lines, and the appended text behind it while the budget lasts.
"""

from __future__ import annotations

from diag_kit.observe.logs.pieces import CHECK

_PYTHON = r"""
import os, sys, time
seconds, budget, paths = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
out = sys.stdout.buffer
def emit(kind, fields, data=None):
    out.write(("==diag_kit:%s %s==\n" % (kind, " ".join("%s=%s" % f for f in fields))).encode())
    if data is not None:
        out.write(data + b"\n")
    out.flush()
def mount_of(path):
    best = ("", "unknown")
    try:
        real = os.path.realpath(path)
        for line in open("/proc/self/mounts", errors="replace"):
            words = line.split()
            point = words[1]
            if (real == point or real.startswith(point.rstrip("/") + "/")) and len(point) >= len(best[0]):
                best = (point, words[2])
    except (OSError, IndexError):
        pass
    return best[1]
class Log:
    def __init__(self, number, path):
        self.number, self.path = number, path
        self.file = open(path, "rb", buffering=0)
        at = os.fstat(self.file.fileno())
        self.offset, self.inode = at.st_size, (at.st_dev, at.st_ino)
        cut = 0
        if self.offset:
            self.file.seek(self.offset - 1)
            cut = int(self.file.read(1) != b"\n")
        emit("start", [("file", number), ("t", "%.3f" % time.time()), ("size", self.offset), ("cut", cut),
                       ("fstype", mount_of(path))])
    def take(self):
        global budget
        got, lines, kept, left = 0, 0, [], 67108864
        self.file.seek(self.offset)
        while left > 0:
            block = self.file.read(min(1048576, left))
            if not block:
                break
            got += len(block); left -= len(block); lines += block.count(b"\n")
            if budget > 0:
                kept.append(block[:budget]); budget -= len(kept[-1])
        self.offset += got
        return got, lines, b"".join(kept)
    def tick(self, n):
        event, got, lines, kept = "none", 0, 0, b""
        try:
            new = open(self.path, "rb", buffering=0)
            at = os.fstat(new.fileno())
            if (at.st_dev, at.st_ino) != self.inode:
                got, lines, kept = self.take()
                event, self.inode, self.offset = "rotated", (at.st_dev, at.st_ino), 0
            elif at.st_size < self.offset:
                event, self.offset = "truncated", 0
            self.file.close()
            self.file = new
        except OSError:
            event = "gone"
        more = self.take()
        got += more[0]; lines += more[1]; kept += more[2]
        emit("tick", [("file", self.number), ("n", n), ("t", "%.3f" % time.time()), ("appended", got), ("lines", lines),
                      ("event", event), ("bytes", len(kept))], kept)
logs = []
for number, path in enumerate(paths):
    if os.path.isfile(path) and os.access(path, os.R_OK):
        try:
            logs.append(Log(number, path))
        except OSError as error:
            emit("failed", [("file", number)], str(error).encode("utf-8", "replace"))
begin, n = time.time(), 0
every = 1.0 if seconds >= 5 else max(0.1, seconds / 5)
while logs and time.time() < begin + seconds - 0.01:
    n += 1
    time.sleep(max(0.0, min(begin + n * every, begin + seconds) - time.time()))
    for log in logs:
        log.tick(n)
"""

FOLLOW_SCRIPT = (
    CHECK
    + r"""
seconds=$1; budget=$2; use=$3; shift 3
n=0
for f in "$@"; do check "$f" "$n"; n=$((n + 1)); done
if [ "$use" != sh ] && command -v python3 > /dev/null 2>&1; then
  exec python3 -S -E - "$seconds" "$budget" "$@" << 'END_OF_PROGRAM'
"""
    + _PYTHON.strip("\n")
    + r"""
END_OF_PROGRAM
fi
now() { t=$(date +%s.%N); case $t in *N) t=${t%.*} ;; esac; echo "$t"; }
inode() { set -- $(ls -i -L "$1" 2> /dev/null); echo "${1:-0}"; }
i=0
for f in "$@"; do
  eval "size_$i=-1"
  if [ -f "$f" ] && [ -r "$f" ]; then
    size=$(($(wc -c < "$f"))); eval "size_$i=$size; inode_$i=$(inode "$f")"
    cut=0; if [ "$size" -gt 0 ] && [ "$(tail -c 1 < "$f" | wc -l)" -eq 0 ]; then cut=1; fi
    type=$(stat -f -c %T "$f" 2> /dev/null || echo unknown)
    printf '==diag_kit:start file=%s t=%s size=%s cut=%s fstype=%s==\n' "$i" "$(now)" "$size" "$cut" "$type"
  fi
  i=$((i + 1))
done
n=0
while [ "$n" -lt "${seconds%.*}" ]; do
  n=$((n + 1)); sleep 1; i=0
  for f in "$@"; do
    eval "offset=\$size_$i; old=\$inode_$i"
    if [ "$offset" -ge 0 ]; then
      event=none; size=0; number=$(inode "$f")
      if [ -f "$f" ]; then size=$(($(wc -c < "$f"))); else event=gone; size=$offset; fi
      if [ "$event" = none ] && [ "$number" != "$old" ]; then event=rotated; offset=0
      elif [ "$size" -lt "$offset" ]; then event=truncated; offset=0; fi
      more=$((size - offset)); lines=0; keep=0
      if [ "$more" -gt 0 ]; then
        lines=$(($(tail -c "+$((offset + 1))" < "$f" | head -c "$more" | wc -l)))
        keep=$more; if [ "$keep" -gt "$budget" ]; then keep=$budget; fi
        budget=$((budget - keep))
      fi
      printf '==diag_kit:tick file=%s n=%s t=%s appended=%s lines=%s event=%s bytes=%s==\n' \
        "$i" "$n" "$(now)" "$more" "$lines" "$event" "$keep"
      if [ "$keep" -gt 0 ]; then tail -c "+$((offset + 1))" < "$f" | head -c "$keep"; fi
      echo
      eval "size_$i=$size; inode_$i=$number"
    fi
    i=$((i + 1))
  done
done
"""
)
