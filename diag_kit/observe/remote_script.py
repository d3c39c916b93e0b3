"""The script that sends a training script and the modules beside it that it imports, as text. POSIX sh, nothing else needed.

Same form as ``remote_source``: ``KEY<TAB>VALUE`` lines and files whose lines stand behind a "|".
"""

from __future__ import annotations

MAX_BYTES = 1_000_000
"""Of all files together; about ten thousand lines each of two large scripts."""

SCRIPT = r"""
path=$1; where=$2; pid=$3; started=$4; world=$5; python=$6; left=$7
echo '==diag_kit:script=='
printf 'started\t%s\nworld\t%s\n' "$started" "$world"
[ -n "$pid" ] && [ -r "/proc/$pid/cmdline" ] &&
  { printf 'cmd\t'; tr '\000\n\t' '\037\036 ' < "/proc/$pid/cmdline"; echo; }
root=
newline='
'
seen=$newline
own() { if [ -e "$1" ]; then echo "$1"; elif [ -n "$pid" ] && [ -e "/proc/$pid/root$1" ]; then echo "/proc/$pid/root$1"; fi; }
send() {
  case "$seen" in *"$newline$1$newline"*) return ;; esac
  seen="$seen$1$newline"
  [ -r "$1" ] || { printf 'problem\tunreadable\t%s\n' "$1"; return; }
  size=$(stat -L -c %s "$1" 2>/dev/null)
  [ "${size:-0}" -le "$left" ] || { printf 'problem\ttoo long, left out\t%s\n' "$1"; return; }
  left=$((left - ${size:-0}))
  printf 'file\t%s\t%s\t%s\n' "$1" "$(stat -L -c %Y "$1" 2>/dev/null)" "$size"
  sed 's/^/|/' "$1"; echo
}
case $path in
  '-m '*)
    module=$(printf '%s' "${path#-m }" | tr . /); found=
    libraries=${python%/bin/*}
    for folder in "$where" "$where/src" "$libraries"/lib*/python3*/site-packages "$libraries"/lib*/python3*/dist-packages; do
      for file in "$folder/$module.py" "$folder/$module/__main__.py"; do
        [ -n "$found" ] || found=$(own "$file")
      done
    done
    [ -n "$found" ] || { printf 'problem\tunreadable\t%s\n' "$path"; exit 0; }
    script=$found ;;
  /*) script=$(own "$path"); [ -n "$script" ] || script=$path ;;
  *) script=$(own "$where/$path"); [ -n "$script" ] || script=$where/$path ;;
esac
send "$script"
[ -r "$script" ] || exit 0
home=${script%/*}
case $script in /proc/"$pid"/root/*) root=/proc/$pid/root ;; esac
todo=$script; rounds=0
IFS=$newline
while [ -n "$todo" ] && [ $rounds -lt 3 ]; do
  rounds=$((rounds + 1)); next=
  for file in $todo; do
    here=${file%/*}
    names=$(sed -n -e 's/^[[:space:]]*from[[:space:]]*\(\.*[A-Za-z_][A-Za-z_0-9.]*\)[[:space:]]*import.*/\1/p' \
      -e 's/^[[:space:]]*from[[:space:]]*\.[[:space:]]*import[[:space:]]*\(.*\)/\1/p' \
      -e 's/^[[:space:]]*import[[:space:]]*\(.*\)/\1/p' "$file" |
      sed -e 's/[[:space:]]as[[:space:]][^,]*//g' -e 's/#.*//' -e 's/^\.*//' | tr '(), \t' '\n\n\n\n\n' | tr . / | sort -u)
    for inner in $names; do
      case $inner in *[!A-Za-z0-9_/]*|'') continue ;; esac
      for folder in "$here" "$home" "$root$where" "${home%/*}" "${here%/*}"; do
        hit=
        for each in "$folder/$inner.py" "$folder/$inner/__init__.py"; do
          case "$each" in */site-packages/*|*/dist-packages/*|/usr/lib/*) continue ;; esac
          [ -f "$each" ] && hit="$hit$newline$each"
        done
        if [ -d "$folder/$inner" ] && [ -n "$hit" ]; then
          for each in "$folder/$inner"/*.py; do [ -f "$each" ] && hit="$hit$newline$each"; done
        fi
        for each in $hit; do
          case "$seen" in *"$newline$each$newline"*) continue ;; esac
          [ "$(printf '%s' "$seen" | wc -l)" -lt 40 ] || continue
          send "$each"; next="$next$newline$each"
        done
        [ -n "$hit" ] && break
      done
    done
  done
  todo=$next
done
printf 'end\t1\n'
"""
