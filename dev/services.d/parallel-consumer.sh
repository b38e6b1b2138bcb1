# shellcheck shell=bash
# Confluent's Parallel Consumer, a peer in the benchmarks: the tool is the folder of its jars.

PARALLEL_CONSUMER_VERSION=0.5.3.2

parallel-consumer_find() {
	local jars=${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/pawl/parallel-consumer-$PARALLEL_CONSUMER_VERSION
	[[ -d $jars ]] && echo "$jars"
}

parallel-consumer_get() {
	mkdir -p "$STATE/tools"
	jars_find parallel-consumer "$PARALLEL_CONSUMER_VERSION" "$STATE/tools/parallel-consumer.log" ||
		die "no Parallel Consumer on this machine" "$JVM_LACKS" "install Maven, then again: dev/services tool parallel-consumer"
}
