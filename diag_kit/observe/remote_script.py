"""The script that sends a training script and the modules beside it that it imports, as text. POSIX sh, nothing else needed.

Same form as ``remote_source``: ``KEY<TAB>VALUE`` lines and files whose lines stand behind a "|".
"""

from __future__ import annotations

MAX_BYTES = 1_000_000
"""Of all files together; about ten thousand lines each of two large scripts."""

SCRIPT = r"""
path=$1; where=$2; pid=$3; started=$4; world=$5; python=$6; left=$7
tab=$(printf '\t')
echo '==diag_kit:script=='
printf 'started\t%s\nworld\t%s\n' "$started" "$world"
[ -n "$pid" ] && [ -r "/proc/$pid/cmdline" ] &&
  { printf 'cmd\t'; tr '\000\n\t' '\037\036 ' < "/proc/$pid/cmdline"; echo; }
root=
seen=" "
own() { if [ -e "$1" ]; then echo "$1"; elif [ -n "$pid" ] && [ -e "/proc/$pid/root$1" ]; then echo "/proc/$pid/root$1"; fi; }
send() {
  case "$seen" in *" $1 "*) return ;; esac
  seen="$seen$1 "
  [ -r "$1" ] || { printf 'problem\tunreadable\t%s\n' "$1"; return; }
  set -- "$1" $(stat -L -c '%Y %s' "$1" 2>/dev/null)
  [ "${3:-0}" -le "$left" ] || { printf 'problem\ttoo long, left out\t%s\n' "$1"; return; }
  left=$((left - ${3:-0}))
  printf 'file\t%s\t%s\t%s\n' "$1" "${2:-}" "${3:-}"
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
while [ -n "$todo" ] && [ $rounds -lt 3 ]; do
  rounds=$((rounds + 1)); next=
  for file in $todo; do
    here=${file%/*}
    names=$(sed -n -e 's/^[[:space:]]*from[[:space:]]*\(\.*[A-Za-z_][A-Za-z_0-9.]*\)[[:space:]]*import.*/\1/p' \
      -e 's/^[[:space:]]*from[[:space:]]*\.[[:space:]]*import[[:space:]]*\(.*\)/\1/p' \
      -e 's/^[[:space:]]*import[[:space:]]*\(.*\)/\1/p' "$file" |
      sed -e 's/[[:space:]]as[[:space:]][^,]*//g' -e 's/#.*//' -e 's/[(),]/ /g')
    for name in $names; do
      inner=$(printf '%s' "${name#.}" | sed 's/^\.*//' | tr . /)
      case $inner in *[!A-Za-z0-9_/]*|'') continue ;; esac
      for folder in "$here" "$home" "$root$where" "${home%/*}" "${here%/*}"; do
        hit=
        for each in "$folder/$inner.py" "$folder/$inner/__init__.py"; do
          [ -f "$each" ] && case "$each" in */site-packages/*|*/dist-packages/*|/usr/lib/*) ;; *) hit="$hit $each" ;; esac
        done
        if [ -d "$folder/$inner" ] && [ -n "$hit" ]; then
          for each in "$folder/$inner"/*.py; do [ -f "$each" ] && hit="$hit $each"; done
        fi
        for each in $hit; do
          case "$seen" in *" $each "*) continue ;; esac
          [ "$(printf '%s' "$seen" | wc -w)" -lt 40 ] || continue
          send "$each"; next="$next $each"
        done
        [ -n "$hit" ] && break
      done
    done
  done
  todo=$next
done
printf 'end\t1\n'
"""
