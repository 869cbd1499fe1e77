#!/bin/sh
# slurm.sh start|stop FOLDER: a Slurm of this machine alone (slurmctld, slurmd, munge as Debian packages them, without
# systemd), with its files in FOLDER. Needs root. FOLDER/environment is then to be sourced.
set -eu
what=$1 folder=$2
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

end() {
  [ -f "$folder/$1.pid" ] || return 0
  kill "$(cat "$folder/$1.pid")" 2>/dev/null || true
  rm -f "$folder/$1.pid"
}

if [ "$what" = stop ]; then
  for daemon in slurmd slurmctld munged; do end $daemon; done
  exit 0
fi

host=$(hostname -s)
# A key and a socket of its own: what a machine may have of munge is left alone.
chmod 755 "$folder"
mkdir -p "$folder/munge" "$folder/state" "$folder/spool"
dd if=/dev/urandom of="$folder/munge/key" bs=1024 count=1 2>/dev/null
chmod 600 "$folder/munge/key"
chown -R munge: "$folder/munge"
chmod 711 "$folder/munge"
setpriv --reuid=munge --regid=munge --clear-groups munged --key-file="$folder/munge/key" \
  --socket="$folder/munge/socket" --pid-file="$folder/munge/pid" --log-file="$folder/munge/log" \
  --seed-file="$folder/munge/seed" --force
cp "$folder/munge/pid" "$folder/munged.pid"

# More processors than there may be: the queue is tested, not the machine.
cat >"$folder/slurm.conf" <<CONF
ClusterName=kvcal
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=${SLURM_TEST_PORT:-16817}
SlurmdPort=$((${SLURM_TEST_PORT:-16817} + 1))
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1
NodeName=$host NodeAddr=127.0.0.1 CPUs=8 RealMemory=65536 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF="$folder/slurm.conf"
echo "export SLURM_CONF='$folder/slurm.conf'" >"$folder/environment"
slurmctld -c
slurmd -N "$host"
i=0
until sinfo -h -o %T 2>/dev/null | grep -qx idle; do
  i=$((i + 1))
  if [ $i -gt 60 ]; then
    echo "slurm: the node does not come up:" >&2
    tail -n 20 "$folder/slurmctld.log" "$folder/slurmd.log" >&2
    exit 1
  fi
  sleep 0.5
done
