# ruff: noqa: E501
"""The script that dumps what /proc says about running trainings, as delimited raw text (no analysis on the host).

One line a statement, ``PID<TAB>KEY<TAB>VALUE``; inside a value NUL is sent as \\x1f and newline as \\x1e. Python does it where the host
has it (a fraction of the time); the sh text below it sends the same lines with grep, ls and stat, busybox's included.
Of an environment only ``ENVIRONMENT`` is ever sent.
"""

from __future__ import annotations

import shlex

_NAMES = (
    "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK NODE_RANK MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID "
    "CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES CUDA_DEVICE_ORDER CUDA_LAUNCH_BLOCKING "
    "OMP_NUM_THREADS MKL_NUM_THREADS TOKENIZERS_PARALLELISM PYTHONUNBUFFERED PYTORCH_CUDA_ALLOC_CONF TORCH_DISTRIBUTED_DEBUG "
    "NCCL_DEBUG NCCL_P2P_DISABLE NCCL_P2P_LEVEL NCCL_SHM_DISABLE NCCL_IB_DISABLE NCCL_NET NCCL_SOCKET_IFNAME NCCL_IB_HCA NCCL_ALGO "
    "NCCL_PROTO NCCL_NET_GDR_LEVEL NCCL_CROSS_NIC NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS "
    "SLURM_JOB_ID SLURM_STEP_ID SLURM_PROCID SLURM_LOCALID SLURM_NTASKS SLURM_NNODES SLURM_CPUS_PER_TASK "
    "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE MPI_LOCALRANKID "
    "ACCELERATE_USE_FSDP ACCELERATE_USE_DEEPSPEED ACCELERATE_MIXED_PRECISION ACCELERATE_GRADIENT_ACCUMULATION_STEPS"
)
ENVIRONMENT = tuple(_NAMES.split())
LIBRARIES = (
    "libtorch_cpu libtorch_cuda libtorch_hip libnccl librccl libcuda libcudart libtensorflow xla_extension libjax libhorovod"
)
PACKAGES = (
    "torch transformers accelerate datasets lightning pytorch_lightning deepspeed speculators trl peft megatron_core nemo_toolkit "
    "torchtitan torchtune axolotl llamafactory unsloth mosaicml mosaicml_streaming webdataset timm ultralytics jax tensorflow"
)

PYTHON = r"""
import os, re, sys, time
out, env_names = sys.stdout.buffer, set(sys.argv[1].encode().split())
libraries, packages = sys.argv[2].encode().split(), sys.argv[3].encode().split()
lib_pattern = re.compile(rb"/[^\n]*/(" + b"|".join(libraries) + rb")([^/\n]*)\n")
module = re.compile(rb"\0-m\0(torch\.distributed\.(run|launch)|accelerate\.commands\.launch|deepspeed\.launcher\.\w+|horovod\.runner)\0")
ranked = (b"RANK=", b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK=", b"SLURM_PROCID=")
pkg_pattern = re.compile(rb"^(" + b"|".join(packages) + rb")-([0-9][^-]*)\.(dist-info|egg-info)$", re.I)
launch = re.compile(rb"^(torchrun|accelerate|deepspeed|horovodrun|composer|colossalai|mpirun|mpiexec|orterun|prterun|srun|slurmstepd)")
python = re.compile(rb"^(python|pypy|pt_)")
def put(pid, key, value):
    value = value.replace(b"\0", b"\x1f").replace(b"\n", b"\x1e")
    out.write(b"%s\t%s\t%s\n" % (pid, key.encode(), value))
def read(pid, name, limit=65536):
    try:
        with open(b"/proc/%s/%s" % (pid, name), "rb") as f:
            return f.read(limit)
    except OSError:
        return None
def link(pid, name):
    try:
        return os.readlink(b"/proc/%s/%s" % (pid, name))
    except OSError:
        return None
def base(path):
    return os.path.basename(path or b"")
def fds(pid, limit):
    try:
        numbers = sorted(os.listdir(b"/proc/%s/fd" % pid), key=int)
    except OSError as error:
        put(pid, "blind", b"fd %d" % (error.errno or 0))
        return
    for number in numbers[:limit]:
        target = link(pid, b"fd/" + number)
        if target is None or (int(number) > 2 and (not target.startswith((b"/", b"pipe:")) or target.startswith(skipped)
                and not target.startswith(b"/dev/nvidia"))):
            continue
        flags, size, mtime = b"-", b"-", b"-"
        if target.startswith(b"/") and not target.startswith(skipped):
            info = read(pid, b"fdinfo/" + number) or b""
            flags = (re.search(rb"flags:\s*([0-7]+)", info) or [b"", b"-"])[1]
            try:
                st = os.stat(b"/proc/%s/fd/%s" % (pid, number))
                size, mtime = b"%d" % st.st_size, b"%d" % st.st_mtime
            except OSError:
                pass
        put(pid, "fd", b" ".join((number, flags, size, mtime, target)))
def versions(pid, maps):
    found = re.search(rb"(/[^\n]*/(?:site|dist)-packages)/(?:torch|tensorflow|jaxlib)/", maps)
    if not found or found[1] in seen_sites:
        return
    seen_sites.add(found[1])
    try:
        names = os.listdir(b"/proc/%s/root%s" % (pid, found[1]))
    except OSError:
        return
    kept = sorted(b"%s=%s" % (m[1], m[2]) for m in map(pkg_pattern.match, names) if m)
    put(pid, "site", found[1] + b"\0" + b"\0".join(kept))
def places(pid, cmd, cwd):
    for arg in cmd.split(b"\0")[1:400]:
        value = arg.split(b"=", 1)[1] if arg.startswith(b"-") and b"=" in arg else arg.split(b"=", 1)[-1]
        if not value or value.startswith(b"-") or len(value) > 1000 or (cwd is None and not value.startswith(b"/")):
            continue
        path = os.path.join(b"/proc/%s/root" % pid, os.path.join(cwd or b"/", value).lstrip(b"/"))
        kind = b"d" if os.path.isdir(path) else b"f" if os.path.isfile(path) else b""
        if kind:
            put(pid, "place", kind + b"\0" + arg)
seen_sites, names, skipped = set(), {}, (b"/dev/", b"/proc/", b"/sys/")
me = os.getpid()
out.write(b"==diag_kit:host==\n")
stat = open("/proc/stat", "rb").read()
put(b"0", "btime", (re.search(rb"btime (\d+)", stat) or [b"", b"0"])[1])
put(b"0", "hz", b"%d" % os.sysconf("SC_CLK_TCK"))
put(b"0", "now", b"%d" % time.time())
put(b"0", "uid", b"%d" % os.geteuid())
put(b"0", "mnt", os.readlink(b"/proc/self/ns/mnt"))
put(b"0", "by", b"python3 " + sys.version.split()[0].encode())
for line in open("/proc/mounts", "rb"):
    if line.split(b" ")[1:2] == [b"/proc"] and re.search(rb"hidepid=(1|2|invisible|noaccess|ptraceable)", line):
        put(b"0", "hidepid", line.strip())
out.write(b"==diag_kit:processes==\n")
procs, stdin_pipes = {}, []
for name in os.listdir(b"/proc"):
    if not name.isdigit() or int(name) == me:
        continue
    cmd = read(name, b"cmdline")
    line = read(name, b"stat")
    if not line:
        continue
    comm, _, rest = line.partition(b"(")[2].rpartition(b")")
    ppid = rest.split()[1] if len(rest.split()) > 1 else b"0"
    procs[name] = (ppid, comm, cmd or b"", line)
def ancestors(pid):
    up, found = procs[pid][0], []
    while up in procs and up not in (b"0", b"1") and up not in found:
        found.append(up)
        up = procs[up][0]
    return found
def is_launcher(pid):
    ppid, comm, cmd, line = procs[pid]
    words = cmd.split(b"\0")
    return bool(launch.match(comm) or any(launch.match(base(w)) for w in words[:2]) or module.search(b"\0".join(words[:8]) + b"\0"))
looked = {}
def look(pid):
    # readable, the chosen environment, the mapped files
    if pid not in looked:
        environ, maps = read(pid, b"environ", 262144), read(pid, b"maps", 4194304)
        items = [item for item in (environ or b"").split(b"\0") if item.split(b"=")[0] in env_names]
        looked[pid] = (environ is not None and maps is not None, items, maps or b"")
    return looked[pid]
launchers = {pid for pid in procs if procs[pid][2] and b"==diag_kit:" not in procs[pid][2] and is_launcher(pid)}
kept = set(launchers)
for pid, (ppid, comm, cmd, line) in procs.items():
    if not cmd or b"==diag_kit:" in cmd or pid in kept:
        continue
    if not (python.match(comm) or python.match(base(cmd.split(b"\0")[0])) or python.match(base(link(pid, b"exe")))):
        continue
    readable, items, maps = look(pid)
    above = set(ancestors(pid))
    if above & launchers or comm.startswith(b"pt_") or lib_pattern.search(maps) or any(i.startswith(ranked) for i in items):
        kept.add(pid)
def head(pid, limit=32768):
    ppid, comm, cmd, line = procs[pid]
    put(pid, "stat", line[: line.rindex(b")") + 1] + b" " + b" ".join(line[line.rindex(b")") + 1 :].split()[:22]))
    put(pid, "cmd", cmd[:limit])
    status = read(pid, b"status") or b""
    for key in ("Uid", "Cpus_allowed_list"):
        m = re.search(key.encode() + rb":\s*([^\n]*)", status)
        if m:
            put(pid, key, m[1].split()[0] if m[1].split() else b"")
            if key == "Uid":
                names[m[1].split()[0]] = b""
children, above, pipes = {}, [], set()
for pid in sorted(kept, key=int)[:2000]:
    ppid, comm, cmd, line = procs[pid]
    head(pid)
    for number in (b"fd/1", b"fd/2"):
        pipes.add(link(pid, number))
    cwd, exe = link(pid, b"cwd"), link(pid, b"exe")
    if exe is not None:
        put(pid, "exe", exe)
    if ppid in kept and procs[ppid][2] == cmd and pid not in launchers:
        children[ppid] = children.get(ppid, 0) + 1
        put(pid, "worker", b"same command line as its parent")
        if children[ppid] <= 4:
            fds(pid, 400)
        continue
    for key, value in (("cwd", cwd), ("root", link(pid, b"root")), ("mnt", link(pid, b"ns/mnt"))):
        if value is not None:
            put(pid, key, value)
    readable, items, maps = look(pid)
    if not readable:
        put(pid, "blind", b"environ")
    for item in items:
        put(pid, "env", item[:2000])
    libs = {m[0] for m in lib_pattern.findall(maps)}
    put(pid, "libs", b",".join(sorted(libs)))
    if libs:
        versions(pid, maps)
    group = read(pid, b"cgroup", 2000)
    if group and re.search(rb"docker|containerd|kubepods|libpod|slurm|lxc", group):
        put(pid, "cgroup", group)
    fds(pid, 400)
    places(pid, cmd, cwd)
    above += [up for up in ancestors(pid) if up not in kept and up not in above]
for pid in above:
    head(pid, 300)
    fds(pid, 100)
stdin, found = {}, True
for pid in procs:
    target = link(pid, b"fd/0")
    if target and target.startswith(b"pipe:"):
        stdin[pid] = target
while found:
    found = [pid for pid, pipe in stdin.items() if pipe in pipes and pid not in kept]
    for pid in found:
        kept.add(pid)
        pipes.add(link(pid, b"fd/1"))
        if pid not in above:
            head(pid, 300)
            fds(pid, 40)
        put(pid, "reader", b"its standard input is a pipe")
import pwd
for uid in sorted(names):
    try:
        put(b"0", "user", uid + b" " + pwd.getpwuid(int(uid)).pw_name.encode())
    except (KeyError, ValueError):
        pass
out.write(b"==diag_kit:end==\n")
"""

SHELL = r"""
clean() { tr '\000\n' '\037\036'; }
put() { printf '%s\t%s\t' "$1" "$2"; printf '%s' "$3" | clean; echo; }
echo '==diag_kit:host=='
put 0 btime "$(sed -n 's/^btime //p' /proc/stat)"
put 0 hz "$(getconf CLK_TCK 2>/dev/null || echo 100)"
put 0 now "$(date +%s)"
put 0 uid "$(id -u)"
put 0 mnt "$(readlink /proc/self/ns/mnt)"
put 0 by "sh"
hide=$(grep -E '^[^ ]+ /proc .*hidepid=([12]|invisible|noaccess|ptraceable)' /proc/mounts)
[ -n "$hide" ] && put 0 hidepid "$hide"
echo '==diag_kit:processes=='
envs=$(printf '%s' "$1" | tr ' ' '|'); libs=$(printf '%s' "$2" | tr ' ' '|'); pkgs=$(printf '%s' "$3" | tr ' ' '|')
starters='torchrun|accelerate|deepspeed|horovodrun|composer|colossalai|mpirun|mpiexec|orterun|prterun|srun|slurmstepd'
words="python|pypy|$starters"
head_of() {
  printf '%s\tstat\t' "$1"; sed 's/\(.*)\( [^ ]*\)\{22\}\).*/\1/' "/proc/$1/stat" | clean; echo
  printf '%s\tcmd\t' "$1"; head -c "${2:-32768}" "/proc/$1/cmdline" | clean; echo
  while read -r key value rest; do
    case $key in Uid:) put "$1" Uid "$value";; Cpus_allowed_list:) put "$1" Cpus_allowed_list "$value";; esac
  done < "/proc/$1/status"
}
fds() {
  [ -r "/proc/$1/fd" ] && [ -x "/proc/$1/fd" ] && ls "/proc/$1/fd" >/dev/null 2>&1 || { put "$1" blind "fd"; return; }
  count=0
  for fd in /proc/$1/fd/*; do
    number=${fd##*/}
    target=$(readlink "$fd") || continue
    case $number:$target in
      [012]:*) ;;
      *:/dev/*|*:/proc/*|*:/sys/*) [ "${target#/dev/nvidia}" = "$target" ] && continue ;;
      *:/*|*:pipe:*) ;;
      *) continue ;;
    esac
    flags=-; size=-; mtime=-
    case $target in
      /dev/*|/proc/*) ;;
      /*) flags=$(sed -n 's/^flags:[[:space:]]*//p' "/proc/$1/fdinfo/$number" 2>/dev/null); flags=${flags:--}
          set -- "$1" $(stat -L -c '%s %Y' "$fd" 2>/dev/null); size=${2:--}; mtime=${3:--} ;;
    esac
    put "$1" fd "$number $flags $size $mtime $target"
    count=$((count + 1)); [ $count -ge 200 ] && break
  done
}
full() {
  for name in exe cwd root; do
    value=$(readlink "/proc/$1/$name") && put "$1" "$name" "$value"
  done
  value=$(readlink "/proc/$1/ns/mnt") && put "$1" mnt "$value"
  if [ -r "/proc/$1/environ" ] && cat "/proc/$1/environ" >/dev/null 2>&1; then
    tr '\000' '\n' < "/proc/$1/environ" | grep -E "^($envs)=" | while IFS= read -r item; do put "$1" env "$item"; done
  else
    put "$1" blind environ
  fi
  if [ -r "/proc/$1/maps" ]; then
    found=$(grep -oE "/.*/($libs)[^/]*$" "/proc/$1/maps" 2>/dev/null | sed -E "s#.*/($libs)[^/]*#\\1#" | sort -u | tr '\n' ',')
    put "$1" libs "${found%,}"
    site=$(grep -oE '/.*/(site|dist)-packages/(torch|tensorflow|jaxlib)/' "/proc/$1/maps" 2>/dev/null | head -n 1)
    site=${site%/*/}
    case " $sites " in *" $site "*) site= ;; esac
    if [ -n "$site" ]; then
      sites="$sites $site"
      kept=$(ls "/proc/$1/root$site" 2>/dev/null | grep -E "^($pkgs)-[0-9][^-]*\.(dist|egg)-info$" | sed -E 's/-([0-9][^-]*)\.(dist|egg)-info$/=\1/')
      printf '%s\tsite\t%s\037' "$1" "$site"; printf '%s' "$kept" | tr '\n' '\037'; echo
    fi
  fi
  value=$(grep -E 'docker|containerd|kubepods|libpod|slurm|lxc' "/proc/$1/cgroup" 2>/dev/null) && put "$1" cgroup "$value"
  fds "$1"
  where=$(readlink "/proc/$1/cwd") || where=
  tr '\000' '\n' < "/proc/$1/cmdline" | sed 1d | while IFS= read -r arg; do
    value=$arg; case $arg in *=*) value=${arg#*=};; esac
    case $value in -*|'') continue ;; /*) path=$value ;; *) [ -n "$where" ] || continue; path=$where/$value ;; esac
    if [ -d "/proc/$1/root$path" ]; then kind=d; elif [ -f "/proc/$1/root$path" ]; then kind=f; else continue; fi
    printf '%s\tplace\t%s\037' "$1" "$kind"; printf '%s' "$arg" | clean; echo
  done
}
pids=$(grep -lasE "$words|pt_" /proc/[0-9]*/cmdline /proc/[0-9]*/comm 2>/dev/null | sed 's#/proc/\([0-9]*\)/.*#\1#' | sort -un)
parent() { sed -n 's/.*) [A-Za-z] \([0-9]*\) .*/\1/p' "/proc/$1/stat" 2>/dev/null; }
keep=" "; pipes=" "; launchers=" "
for pid in $pids; do
  [ "$pid" = "$$" ] && continue
  grep -qas '==diag_kit:' "/proc/$pid/cmdline" && continue
  start=$(tr '\000' '\n' < "/proc/$pid/cmdline" 2>/dev/null | head -n 8 | tr '\n' ' ') 2>/dev/null
  [ -n "$start" ] || continue
  read -r comm < "/proc/$pid/comm" 2>/dev/null || continue
  first=${start%% *}; rest=${start#* }; second=${rest%% *}
  if printf '%s\n%s\n%s\n' "$comm" "${first##*/}" "${second##*/}" | grep -qE "^($starters)" ||
     printf '%s\n' "$start" | grep -qE -- "-m (torch\.distributed\.(run|launch)|accelerate\.commands\.launch|deepspeed\.launcher)"; then
    keep="$keep$pid "; launchers="$launchers$pid "; continue
  fi
  printf '%s\n%s\n' "$comm" "${first##*/}" | grep -qE '^(python|pypy|pt_)' || continue
  case $comm in pt_*) keep="$keep$pid "; continue ;; esac
  if grep -qsE "/($libs)[^/]*$" "/proc/$pid/maps"; then keep="$keep$pid "; continue; fi
  if tr '\000' '\n' < "/proc/$pid/environ" 2>/dev/null | grep -qE '^(RANK|OMPI_COMM_WORLD_RANK|PMI_RANK|SLURM_PROCID)='; then
    keep="$keep$pid "; continue
  fi 2>/dev/null
  up=$(parent "$pid")
  while [ -n "$up" ] && [ "$up" -gt 1 ]; do
    case "$launchers" in *" $up "*) keep="$keep$pid "; break ;; esac
    up=$(parent "$up")
  done
done
known=$keep; ups=
for pid in $keep; do
  head_of "$pid" 2>/dev/null || continue
  pipes="$pipes$(readlink "/proc/$pid/fd/1") $(readlink "/proc/$pid/fd/2") "
  up=$(parent "$pid")
  case "$launchers" in *" $pid "*) same=no ;; *) same=yes ;; esac
  if [ $same = yes ] && [ -n "$up" ] && cmp -s "/proc/$pid/cmdline" "/proc/$up/cmdline" 2>/dev/null; then
    put "$pid" worker "same command line as its parent"
    fds "$pid" 2>/dev/null
  else
    full "$pid" 2>/dev/null
    ups="$ups $up"
  fi
done
for up in $ups; do
  while [ -n "$up" ] && [ "$up" -gt 1 ]; do
    case "$known" in *" $up "*) break ;; esac
    known="$known$up "
    head_of "$up" 300 2>/dev/null || break
    fds "$up" 2>/dev/null
    up=$(parent "$up")
  done
done
stdins=$(ls -l /proc/[0-9]*/fd/0 2>/dev/null | sed -n 's#.* /proc/\([0-9]*\)/fd/0 -> \(pipe:.*\)#\1,\2#p')
more=yes; readers=" "
while [ $more = yes ]; do
  more=no
  for item in $stdins; do
    pid=${item%%,*}
    case "$pipes" in *" ${item#*,} "*) ;; *) continue ;; esac
    case "$readers$keep" in *" $pid "*) continue ;; esac
    more=yes; readers="$readers$pid "
    pipes="$pipes$(readlink "/proc/$pid/fd/1") "
    case "$known" in *" $pid "*) ;; *) head_of "$pid" 300 2>/dev/null && fds "$pid" 2>/dev/null ;; esac
    put "$pid" reader "its standard input is a pipe"
  done
done
ls -ldn /proc/[0-9]* 2>/dev/null | sed -n 's/^[^ ]* *[0-9]* *\([0-9]*\) .*/\1/p' | sort -u | while read -r uid; do
  name=$(getent passwd "$uid" 2>/dev/null | cut -d: -f1)
  [ -n "$name" ] || name=$(sed -n "s/^\([^:]*\):[^:]*:$uid:.*/\1/p" /etc/passwd 2>/dev/null | head -n 1)
  [ -n "$name" ] && put 0 user "$uid $name"
done
echo '==diag_kit:end=='
"""

SCRIPT = f"""
set -- {shlex.quote(" ".join(ENVIRONMENT))} {shlex.quote(LIBRARIES)} {shlex.quote(PACKAGES)} "$1"
if [ "$4" != sh ] && command -v python3 >/dev/null 2>&1; then
  exec python3 -I -S -c {shlex.quote(PYTHON)} "$1" "$2" "$3"
fi
{SHELL}
"""
