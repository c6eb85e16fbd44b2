#!/bin/sh
# RocksDB's GETs and SCANs by policy: run.sh CURTAIL OUT [options of `curtail bench`]. CURTAIL is built with
# the feature `rocksdb`. Two mixes, half SCANs of everything (Concord, Perséphone) and one in two hundred
# (Tiny Quanta); what each takes on an idle server is measured first. JSON goes to OUT.
set -eu
curtail=$1 out=$2
shift 2
given=" $* "
for default in --keys=5000 --policy=fcfs,tq,concord,darc --load=0.3,0.5,0.7 --duration=5s; do
  case $given in
  *" ${default%%=*}"[\ =]*) ;;
  *) set -- "$@" "$default" ;;
  esac
done
status=0
for mix in get-scan-50 get-scan-0.5; do
  "$curtail" bench --app kv --engine rocksdb --mix "$mix" --json "$out/rocksdb-$mix.json" "$@" ||
    status=1
done
exit $status
