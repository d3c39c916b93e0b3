"""The one script that asks nvidia-smi on the host: few calls, each bounded, fields chosen by what that driver knows."""

SCRIPT = r"""
count=$1; step_ms=$2; limit_s=$3
export LC_ALL=C TZ=UTC0
PATH=$PATH:/usr/lib/wsl/lib:/usr/local/nvidia/bin:/opt/nvidia/bin
bounded() { if command -v timeout >/dev/null 2>&1; then timeout "$@"; else shift; "$@"; fi; }
if ! command -v nvidia-smi >/dev/null 2>&1; then
    echo '==diag_kit:absent=='
    for tool in rocm-smi amd-smi xpu-smi hl-smi neuron-ls npu-smi; do
        command -v "$tool" >/dev/null 2>&1 && echo "tool $tool"
    done
    for path in /sys/bus/pci/devices/*; do
        [ -r "$path/class" ] && read -r class < "$path/class" && read -r vendor < "$path/vendor" || continue
        case $class in 0x03*|0x12*) echo "pci $vendor $class";; esac
    done
    [ -r /proc/driver/nvidia/version ] && echo 'nvidia driver loaded'
    exit 0
fi
echo '==diag_kit:list=='
list=$(bounded 15 nvidia-smi -L 2>&1); status=$?
printf '%s\n' "$list"
echo '==diag_kit:list_status=='
echo "$status"
[ "$status" -eq 0 ] || exit 0
gpus=$(printf '%s\n' "$list" | grep -c '^GPU ')
lines=$((1 + count * (gpus > 0 ? gpus : 1)))
help=$(bounded 15 nvidia-smi --help-query-gpu 2>&1)
fields=timestamp
first_of() {
    for field in "$@"; do
        case $help in *"\"$field\""*) fields=$fields,$field; return;; esac
    done
}
for field in index name uuid pci.bus_id driver_version pstate utilization.gpu utilization.memory memory.used \
    memory.total power.draw power.draw.instant enforced.power.limit power.limit temperature.gpu temperature.memory \
    clocks.max.sm pcie.link.gen.max pcie.link.width.current pcie.link.width.max mig.mode.current \
    ecc.errors.uncorrected.volatile.total; do
    first_of "$field"
done
first_of clocks.current.sm clocks.sm
first_of pcie.link.gen.current pcie.link.gen.gpucurrent
first_of clocks_event_reasons.active clocks_throttle_reasons.active
for reason in sw_power_cap sync_boost sw_thermal_slowdown hw_thermal_slowdown hw_power_brake_slowdown; do
    first_of "clocks_event_reasons_counters.$reason"
done
core=timestamp,index,name,driver_version,utilization.gpu,memory.used,memory.total,power.draw,power.limit,temperature.gpu
[ "$fields" = timestamp ] && fields=$core
sample() {
    echo '==diag_kit:query=='
    { status=$({ { bounded "$limit_s" nvidia-smi "--query-gpu=$1" --format=csv,nounits -lms "$step_ms" 2>&1
        echo "$?" >&3; } | head -n "$lines" >&4; } 3>&1); } 4>&1
}
sample "$fields"
[ "$status" = 2 ] && sample "$core"
echo '==diag_kit:topo=='
bounded 15 nvidia-smi topo -m 2>&1
echo '==diag_kit:nvlink=='
bounded 15 nvidia-smi nvlink -s 2>/dev/null
echo '==diag_kit:apps=='
bounded 15 nvidia-smi --query-compute-apps=pid,gpu_uuid,used_memory,process_name --format=csv,nounits 2>&1
exit 0
"""
