#!/bin/sh
# Prints how many compilers may run at once: one per processor, and 1.5 GiB of memory for each.
set -eu
jobs=$(nproc 2>/dev/null || echo 1)
memory_kib=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo 2>/dev/null || true)
limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || true)
case $limit in
  '' | max | *[!0-9]*) ;;
  *) [ -n "$memory_kib" ] && [ $((limit / 1024)) -lt "$memory_kib" ] && memory_kib=$((limit / 1024)) ;;
esac
if [ -n "$memory_kib" ]; then
  most=$((memory_kib / 1572864))
  [ "$most" -ge 1 ] || most=1
  [ "$jobs" -le "$most" ] || jobs=$most
fi
echo "$jobs"
