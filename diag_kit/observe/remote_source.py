# ruff: noqa: E501
"""The script that finds a module's file on the host and sends its text, without importing anything of the package.

Sends ``KEY<TAB>VALUE`` lines and, for each file, ``file<TAB>PATH<TAB>MTIME<TAB>SIZE`` followed by its lines, each behind a "|".
"""

from __future__ import annotations

import shlex

MAX_FILE_BYTES = 2_000_000
MAX_FILES = 8

LOCATE = r"""
import ast, glob, os, re, sys
from importlib.machinery import PathFinder
print("==diag_kit:source==")
target, named, root, pid, limit, most = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]), int(sys.argv[6])
module, _, qualname = target.partition(":")
out = sys.stdout
def say(*parts):
    out.write("\t".join(str(p).replace("\n", " ").replace("\t", " ") for p in parts) + "\n")
def own(path):
    return root + path if root and path.startswith("/") else path
def ship(path):
    with open(path, "rb") as f:
        data = f.read(limit + 1)
    st = os.stat(path)
    say("file", path[len(root):] if root and path.startswith(root) else path, int(st.st_mtime), st.st_size)
    for line in data[:limit].decode("utf-8", "replace").splitlines():
        out.write("|" + line + "\n")
    return data.decode("utf-8", "replace")
def search_path():
    # The folders that this interpreter would search, worked out from its place: nothing of the environment is run.
    exe = named
    prefix = os.path.dirname(os.path.dirname(exe))
    prefixes, libraries, system = [prefix], [prefix], True
    config = own(os.path.join(prefix, "pyvenv.cfg"))
    if os.path.isfile(config):
        with open(config) as f:
            text = f.read()
        system = bool(re.search(r"include-system-site-packages\s*=\s*true", text, re.I))
        home = re.search(r"^home\s*=\s*(.+)$", text, re.M)
        if home:
            libraries.append(os.path.dirname(home[1].strip()))
            prefixes += libraries[-1:] if system else []
    elif exe:
        prefixes.append(os.path.dirname(os.path.dirname(os.path.realpath(own(exe)))))
        libraries = prefixes
    environ = {}
    try:
        with open("/proc/%s/environ" % pid, "rb") as f:
            environ = dict(item.partition("=")[::2] for item in f.read().decode("utf-8", "replace").split("\0"))
    except OSError:
        pass
    found = [own(p) for p in environ.get("PYTHONPATH", "").split(":") if p]
    try:
        found.append(own(os.readlink("/proc/%s/cwd" % pid)) if root else os.readlink("/proc/%s/cwd" % pid))
    except OSError:
        pass
    homes = [environ.get("HOME", "")] if system else []
    version = "python%d.%d" % sys.version_info[:2] if not root and os.path.realpath(exe) == os.path.realpath(sys.executable) else "python3*"
    for p in prefixes + [os.path.join(h, ".local") for h in homes if h]:
        for lib in ("lib", "lib64", "local/lib"):
            for kind in ("site-packages", "dist-packages"):
                found += sorted(glob.glob(own(os.path.join(p, lib, version, kind))))
        found += [d for d in (own(os.path.join(p, "lib/python3/dist-packages")),) if os.path.isdir(d)]
    for folder in list(found):
        for pth in sorted(glob.glob(os.path.join(folder, "*.pth"))) if folder.endswith("-packages") else []:
            try:
                with open(pth, errors="replace") as f:
                    lines = f.read(100000).splitlines()
            except OSError:
                continue
            for line in lines:
                line = line.strip()
                if line and not line.startswith(("#", "import ", "import\t")):
                    path = os.path.join(folder, line) if not line.startswith("/") else own(line)
                    if os.path.isdir(path):
                        found.append(path)
    for p in libraries:
        found += sorted(glob.glob(own(os.path.join(p, "lib", version if version[-1] != "*" else "python3.[0-9]*"))))
    return list(dict.fromkeys(found))
def editable(paths, top):
    # setuptools' editable installs keep a MAPPING of names to folders in a module of their own
    for folder in paths:
        for finder in glob.glob(os.path.join(folder, "__editable__*.py")):
            try:
                with open(finder) as f:
                    tree = ast.parse(f.read())
            except (OSError, SyntaxError, ValueError):
                continue
            for node in ast.walk(tree):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
                if any(getattr(t, "id", "") == "MAPPING" for t in targets):
                    try:
                        mapping = ast.literal_eval(node.value)
                    except ValueError:
                        continue
                    if top in mapping:
                        return own(mapping[top])
    return None
def locate(name, paths):
    parts, where = name.split("."), paths
    for i, part in enumerate(parts):
        spec = PathFinder.find_spec(".".join(parts[: i + 1]), where)
        if spec is None and i == 0:
            path = editable(paths, part)
            if path:
                spec = PathFinder.find_spec(part, [os.path.dirname(path)])
        if spec is None:
            return None, ".".join(parts[:i]), where
        where = list(spec.submodule_search_locations or [])
        if i + 1 < len(parts) and not where:
            return None, ".".join(parts[: i + 1]), []
    origin = spec.origin if spec.origin not in (None, "namespace") else None
    return origin, name, where
def version(paths, top):
    try:
        from importlib import metadata
    except ImportError:
        return None
    same = lambda a: re.sub(r"[-_.]+", "-", a or "").lower()
    second = None
    for dist in metadata.Distribution.discover(path=paths):
        try:
            name = dist.metadata["Name"]
            if same(name) == same(top):
                return name, dist.version
            if second is None and top in (dist.read_text("top_level.txt") or "").split():
                second = (name, dist.version)
            if second is None and re.search(r"^%s/" % re.escape(top), dist.read_text("RECORD") or "", re.M):
                second = (name, dist.version)
        except Exception:
            continue
    return second
say("python", sys.version.split()[0], sys.executable)
say("interpreter", named)
if root:
    say("root", root)
paths = search_path()
top = module.split(".")[0]
origin, reached, where = locate(module, paths)
found = version(paths, top)
if found:
    say("package", found[0])
    say("version", found[1])
say("module", module)
shipped = []
if origin and origin.endswith((".py", ".pyi")):
    text = ship(origin)
    shipped.append(origin)
elif origin:
    say("problem", "compiled", origin)
else:
    say("problem", "no-module", reached or "", " ".join(paths[:12]))
names = [n for n in qualname.split(".") if n]
# the folders of the top package: [] for a single file and for a package that is not there
top_spec = PathFinder.find_spec(top, paths)
where = list(top_spec.submodule_search_locations or []) if top_spec else []
if not where and editable(paths, top):
    where = [editable(paths, top)]
near = os.path.dirname(origin) if origin else where[0] if where else ""
def distance(path):
    common = os.path.commonpath([near, path]) if near else ""
    return (len(near) - len(common), path.count("/"), path)
if names and where:
    pattern = re.compile(r"^[ \t]*(?:async[ \t]+def|def|class)[ \t]+%s\b" % re.escape(names[-1]), re.M)
    owner = re.compile(r"^[ \t]*class[ \t]+%s\b" % re.escape(names[0]), re.M)
    here = bool(shipped) and bool(pattern.search(text)) and (len(names) == 1 or bool(owner.search(text)))
    looked, hits = 0, []
    for folder in where if not here else []:
        for at, dirs, files in os.walk(folder):
            dirs[:] = sorted(d for d in dirs if d not in ("__pycache__", "tests", ".git"))
            for file in sorted(files):
                path = os.path.join(at, file)
                if not file.endswith(".py") or path in shipped or looked > 4000:
                    continue
                looked += 1
                try:
                    with open(path, "rb") as f:
                        other = f.read(limit).decode("utf-8", "replace")
                except OSError:
                    continue
                if pattern.search(other):
                    hits.append((0 if len(names) == 1 or owner.search(other) else 1, path))
    say("looked", looked)
    best = [path for rank, path in hits if rank == min(hits)[0]]
    inside = [path for path in best if near and path.startswith(near + "/")] or best
    for path in sorted(inside, key=distance)[: most - 1]:
        ship(path)
        shipped.append(path)
say("end", len(shipped))
"""

# In a child of the job's interpreter: what the package prints or warns about goes to standard error, the source alone to standard output.
DYNAMIC = r"""
import os, sys
real = os.dup(1)
os.dup2(2, 1)
import importlib, importlib.metadata, inspect
target = sys.argv[1]
module, _, qualname = target.partition(":")
def send(text):
    data = text.encode("utf-8", "surrogateescape")
    while data:
        data = data[os.write(real, data):]
try:
    found = importlib.import_module(module)
    for name in filter(None, qualname.split(".")):
        found = getattr(found, name)
    lines, first = inspect.getsourcelines(found)
    file = inspect.getsourcefile(inspect.unwrap(found) if callable(found) else found) or ""
    st = os.stat(file)
    first = max(first, 1)
    try:
        dist = importlib.metadata.packages_distributions().get(module.split(".")[0], [module.split(".")[0]])[0]
        version = importlib.metadata.version(dist)
    except Exception:
        dist, version = "", ""
    text = "".join(lines)
    send("==diag_kit:source==\npython\t%s\t%s\ninterpreter\t%s\nmodule\t%s\npackage\t%s\nversion\t%s\n" % (sys.version.split()[0], sys.executable, sys.executable, getattr(found, "__module__", module), dist, version))
    send("lines\t%d\t%d\t%d\n" % (first, len(lines), len(text)))
    send("file\t%s\t%d\t%d\n" % (file, st.st_mtime, st.st_size))
    send("".join("|" + line + "\n" for line in text.splitlines()))
    send("end\t1\n")
except BaseException as error:
    send("==diag_kit:source==\nproblem\timport\t%s: %s\nend\t0\n" % (type(error).__name__, str(error).replace("\n", " ").replace("\t", " ")[:500]))
sys.stderr.flush()
os._exit(0)
"""

_SHELL = r"""
target=$1; python=$2; mode=$3; pid=$4; started=$5; limit=$6; most=$7
tab=$(printf '\t')
send_file() {
  [ -r "$1" ] || { echo "==diag_kit:source=="; printf 'problem\tunreadable\t%s\n' "$1"; return; }
  [ -n "$2" ] || echo "==diag_kit:source=="
  printf 'file\t%s\t%s\t%s\n' "$1" $(stat -L -c '%Y %s' "$1" 2>/dev/null | tr ' ' "$tab")
  head -c "$limit" "$1" | sed 's/^/|/'; echo
}
printf 'started\t%s\n' "$started"
case $target in
  /*)
    file=${target%%:*}
    [ -e "$file" ] || [ -z "$pid" ] || [ ! -e "/proc/$pid/root$file" ] || file="/proc/$pid/root$file"
    send_file "$file"; printf 'end\t1\n'; exit 0 ;;
esac
root=
if [ -n "$python" ] && [ ! -x "$python" ]; then
  if [ -n "$pid" ] && [ -e "/proc/$pid/root$python" -o -L "/proc/$pid/root$python" ]; then root=/proc/$pid/root
  else printf 'problem\tno-interpreter\t%s\n' "$python"; fi
fi
if [ "$mode" = dynamic ]; then
  if [ -n "$root" ] || [ ! -x "$python" ]; then printf 'problem\tno-dynamic\t%s\nend\t0\n' "$python"; exit 0; fi
  cd "/proc/$pid/cwd" 2>/dev/null || cd /
  CUDA_VISIBLE_DEVICES= HF_HUB_OFFLINE=1 PYTHONDONTWRITEBYTECODE=1 exec "$python" -c "$DYNAMIC" "$target"
fi
if [ -z "$root" ] && [ -x "$python" ]; then runner=$python; else runner=$(command -v python3); fi
if [ -n "$runner" ]; then
  PYTHONDONTWRITEBYTECODE=1 exec "$runner" -I -S -c "$LOCATE" "$target" "$python" "$root" "$pid" "$limit" "$most"
fi
module=${target%%:*}; top=${module%%.*}; inner=$(printf '%s' "$module" | tr . /)
echo '==diag_kit:source=='
printf 'python\tnone\t\ninterpreter\t%s\nmodule\t%s\n' "$python" "$module"
for folder in "$root${python%/bin/*}"/lib*/python3*/site-packages "$root${python%/bin/*}"/lib*/python3*/dist-packages; do
  for file in "$folder/$inner.py" "$folder/$inner/__init__.py"; do
    [ -f "$file" ] || continue
    info=$(ls -d "$folder/$top"-[0-9]*.dist-info 2>/dev/null | head -n 1); info=${info##*/}; info=${info%.dist-info}
    [ -n "$info" ] && printf 'package\t%s\nversion\t%s\n' "${info%-*}" "${info##*-}"
    send_file "$file" more; printf 'end\t1\n'; exit 0
  done
done
printf 'problem\tno-module\t%s\t\nend\t0\n' "$module"
"""

SCRIPT = f"""LOCATE={shlex.quote(LOCATE)}
DYNAMIC={shlex.quote(DYNAMIC)}
{_SHELL}"""
