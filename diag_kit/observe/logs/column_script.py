"""The scripts that pick the wanted numbers out of a log where it lies, and what is handed to them.

Each physical line of the log becomes one line of output, in order: ``A1 2 3`` (with tabs) for the wanted numbers of a line
that fits the first shape (B for the second, ...), ``:TEXT`` for any other. A clock or counter that is the same as in the row
before of that shape is left empty. So line numbers need not be sent, and nothing is lost. By awk (mawk is quickest, gawk and
busybox do as well) or by Python.
"""

from __future__ import annotations

from collections.abc import Sequence

from diag_kit.hosts.packed import PACK
from diag_kit.observe.logs.line_shape import STAMP_COLUMN, Hole, Shape, pattern_of
from diag_kit.observe.logs.pieces import CHECK

_WINDOW = 40
"""No number is longer than this in print; the awk looks for its end in so many characters."""

SAMPLE_SCRIPT = (
    CHECK
    + PACK
    + r"""
part=$1; file=$2
check "$file" 0 || exit 0
size=$(($(wc -c < "$file"))) || exit 0
mtime=$(stat -L -c %Y "$file" 2>/dev/null || stat -L -f %m "$file" 2>/dev/null || echo 0)
{
printf '==diag_kit:sample file=0 size=%s mtime=%s now=%s zone=%s==\n' "$size" "$mtime" "$(date +%s)" "$(date +%z)"
printf '==diag_kit:part file=0 offset=0==\n'; head -c "$part" "$file"; echo
if [ "$size" -gt "$((4 * part))" ]; then
  printf '==diag_kit:part file=0 offset=%s==\n' "$((size / 2))"; tail -c "+$((size / 2))" "$file" | head -c "$part"; echo
fi
if [ "$size" -gt "$part" ]; then printf '==diag_kit:part file=0 offset=1==\n'; tail -c "$part" "$file"; echo; fi
} | pack
"""
)

_PYTHON = r"""
import re, sys
out, read = sys.stdout.buffer.write, sys.stdin.buffer.read
def grouped(shape):
    return re.compile(shape).groups
delta = set(map(int, sys.argv[2].split(",")))  # which numbers may be left empty
shapes = [shape.encode() for shape in sys.argv[3:]]
find = re.compile(b"|".join([b"(?:" + shape + b")\n" for shape in shapes] + [b"([^\n]*)\n"])).findall
spans, at = [], 0
for number, shape in enumerate(shapes):
    spans.append((chr(65 + number).encode(), at, at + grouped(shape)))
    at += grouped(shape)
last = [None] * at
def several(rows):
    lines = []
    for row in rows:
        for letter, a, b in spans:
            if row[a]:
                lines.append(letter + b"\t".join([b"" if i in delta and row[i] == last[i] else row[i] for i in range(a, b)]))
                last[a:b] = row[a:b]
                break
        else:
            lines.append(b":" + row[at])
    return lines
def one(rows):
    columns = list(zip(*rows))
    for i in delta - {-1}:
        column = columns[i]
        before = (last[i],) + column[:-1]
        columns[i] = [b"" if now == was else now for now, was in zip(column, before)]
        last[i] = column[-1]
    fits = [row[0] for row in rows]
    texts = map(b"\t".join, zip(*columns[:at]))
    return [b"A" + text if fit else b":" + raw for fit, text, raw in zip(fits, texts, columns[at])]
rest = b""
while True:
    block = read(4194304)
    data = rest + block
    cut = data.rfind(b"\n") + 1 if block else len(data)
    data, rest = data[:cut], data[cut:]
    if data and not data.endswith(b"\n"):
        data += b"\n"
    if data:
        rows = find(data)
        lines = one(rows) if len(spans) == 1 else several(rows)
        lines.append(b"")
        out(b"\n".join(lines))
    if not block:
        break
"""

COLUMNS_SCRIPT = (
    CHECK
    + PACK
    + r"""
from=$1; to=$2; use=$3; program=$4; file=$5; shift 5
check "$file" 0 || exit 0
python=
for p in /usr/bin/python3 /bin/python3 /usr/libexec/platform-python; do
  [ -x "$p" ] && { python=$p; break; }
done
case $use in
  auto) if command -v mawk > /dev/null 2>&1; then set -- mawk "$@"
    elif [ -n "$python" ]; then set -- python "$@"
    else set -- awk "$@"; fi ;;
  *) set -- "$use" "$@" ;;
esac
tool=$1; shift
if [ "$tool" = python ] && [ -z "$python" ]; then tool=awk; fi
pick() {
  case $tool in
    python) "$python" -S -E -c "$dk_python" "" "$@" ;;
    busybox) tr -d '\000' | busybox awk "$program" ;;
    mawk|gawk) "$tool" "$program" ;;
    *) tr -d '\000' | awk "$program" ;;
  esac
}
size=$(($(wc -c < "$file"))) || exit 0
mtime=$(stat -L -c %Y "$file" 2>/dev/null || stat -L -f %m "$file" 2>/dev/null || echo 0)
line_start() {
  if [ "$1" -le 0 ]; then echo 0; elif [ "$1" -ge "$size" ]; then echo "$size"
  else echo "$(($1 + $(tail -c "+$1" "$file" | head -n 1 | wc -c) - 1))"; fi
}
a=$(line_start "$from"); b=$(line_start "$to"); n=$((b - a))
ended=0; [ "$b" -gt 0 ] && [ "$(tail -c "+$b" "$file" | head -c 1 | wc -l)" -gt 0 ] && ended=1
{
  printf '==diag_kit:columns file=0 from=%s to=%s size=%s mtime=%s now=%s zone=%s ended=%s tool=%s==\n' \
    "$a" "$b" "$size" "$mtime" "$(date +%s)" "$(date +%z)" "$ended" "$tool"
  if [ "$n" -gt 0 ]; then tail -c "+$((a + 1))" "$file" | head -c "$n" | pick "$@"; fi
  printf '==diag_kit:end file=0 status=%s==\n' "$?"
} | pack
"""
)
COLUMNS_SCRIPT = COLUMNS_SCRIPT.replace("pick() {", f"dk_python='{_PYTHON}'\npick() {{", 1)
assert "'" not in _PYTHON


def python_arguments(shapes: Sequence[Shape], columns: Sequence[str]) -> tuple[str, ...]:
    """Which of all wanted numbers may be left empty; then one regular expression per shape, with a group for each."""
    holes = [hole for shape in shapes for hole in shape.wanted(columns)]
    may_repeat = ",".join(str(index) for index, hole in enumerate(holes) if repeats(hole))
    return (may_repeat or "-1", *(pattern_of(shape, shape.wanted(columns)) for shape in shapes))


def awk_program(shapes: Sequence[Shape], columns: Sequence[str]) -> str:
    """An awk program made of literal texts of the log, each quoted for awk; it is data to the shell.

    A line is tried as a whole against each shape: first with its numbers in their usual widths, which are then cut by place,
    then with any, and each is cut out behind the text before it.
    """
    rules: list[str] = []
    for number, shape in enumerate(shapes):
        letter = chr(65 + number)
        if any(shape.usual):
            rules.append(_rule(shape, columns, letter, shape.usual))
        rules.append(_rule(shape, columns, letter, ("",) * len(shape.holes)))
    return "\n".join([*rules, '{ print ":" $0 }'])


def _rule(shape: Shape, columns: Sequence[str], letter: str, widths: Sequence[str]) -> str:
    wanted = shape.wanted(columns)
    steps: list[str] = []
    row: list[str] = []
    place: int | None = len(shape.literals[0]) + 1  # where the next number begins, while all before are of a known width
    for number, (hole, usual) in enumerate(zip(shape.holes, widths, strict=True)):
        width = len(usual) if usual else hole.end - hole.start if hole.columns == (STAMP_COLUMN,) else 0
        if hole in wanted:
            name = f"{letter.lower()}{number}"
            value = f"substr($0, {place}, {width})" if place and width else name
            if value == name or repeats(hole):
                steps.append(f"{name} = {value}" if value != name else _cut(shape, number, name, place, width))
                value = name
            if repeats(hole):
                steps.append(f'if ({name} == p{name}) {name} = ""; else p{name} = {name}')
            row.append(value)
        place = place + width + len(shape.literals[number + 1]) if place and width else None
    joined = ' "\\t" '.join(row)
    return f'/^{_regex(shape, widths)}$/ {{ {"; ".join(steps)}; print "{letter}" {joined}; next }}'


def repeats(hole: Hole) -> bool:
    """Whether this number is often the same as in the row before: clocks and counters, which several ranks print alike."""
    return bool({STAMP_COLUMN, "epoch", "step", "micro_step"} & set(hole.columns)) or hole.columns[0].startswith("lr")


def _cut(shape: Shape, number: int, name: str, place: int | None, width: int) -> str:
    """awk that sets ``name`` to the number in a hole, found by its place or behind the text in front of it."""
    before, behind = shape.literals[number], shape.literals[number + 1]
    if place:
        start = str(place)
    else:
        text, skipped = _anchor(shape, number, before)
        start = f"index($0, {_string(text)}) + {len(text)}"
        if skipped:
            base = shape.literals[0]
            start = f"index(substr($0, {len(base) + 1}), {_string(text)}) + {len(base) + len(text)}"
    if width:
        return f"{name} = substr($0, {start}, {width})"
    if not behind:
        return f"{name} = substr($0, {start})"
    return f"t = substr($0, {start}, {_WINDOW}); {name} = substr(t, 1, index(t, {_string(behind[0])}) - 1)"


def _anchor(shape: Shape, number: int, before: str) -> tuple[str, bool]:
    """The text in front of a hole by which it is found, and whether the line's first text has to be passed over for it."""
    place = shape.holes[number].start - len(before)
    if shape.example.find(before) == place:
        return before, False
    if shape.example.find(before, len(shape.literals[0])) == place:
        return before, True
    raise ValueError(f"{before!r} stands more than once")


def can_be_cut(shape: Shape, columns: Sequence[str]) -> bool:
    """Whether awk can find all wanted numbers: each behind a text that stands once."""
    for number, hole in enumerate(shape.holes):
        if hole not in shape.wanted(columns):
            continue
        behind = shape.literals[number + 1]
        if behind and behind[0] in "0123456789.eE+-":
            return False
        if number:
            try:
                _anchor(shape, number, shape.literals[number])
            except ValueError:
                return False
            if not any(not c.isalnum() and c not in ".+-" for c in shape.literals[number]):
                return False
    return True


def _regex(shape: Shape, widths: Sequence[str]) -> str:
    parts = [_quoted(shape.literals[0])]
    for hole, literal, usual in zip(shape.holes, shape.literals[1:], widths, strict=True):
        stamp = hole.columns == (STAMP_COLUMN,)
        parts += [_quoted(usual).replace("9", "[0-9]") if usual and not stamp else hole.pattern, _quoted(literal)]
    return "".join(parts)


def _quoted(text: str) -> str:
    """For an awk regular expression between slashes. Shapes are printable ASCII only."""
    return "".join("\\" + c if c in "\\/.^$*+?()[]{}|" else c for c in text)


def _string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
