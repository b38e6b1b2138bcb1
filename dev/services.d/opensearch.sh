# shellcheck shell=bash
# OpenSearch, one node without its security plugin, on loopback only. It runs as whoever calls: started from its jars, it
# does not refuse root. The newest version that the Java found can run.

OPENSEARCH_VERSION="" # once found

opensearch_package() { echo maven default-jre-headless; }

opensearch_find() {
	if java_find 21; then
		OPENSEARCH_VERSION=3.8.0.0
	elif java_find 17; then
		OPENSEARCH_VERSION=2.19.1.0
	else
		return 1
	fi
	jars_find opensearch "$OPENSEARCH_VERSION" "$STATE/opensearch/log"
}

opensearch_find_failed() { echo "$JVM_LACKS"; }
opensearch_env() { echo "export PAWL_TEST_OPENSEARCH='http://$1'"; }

opensearch_up() {
	local dir=$STATE/opensearch
	if [[ $(opensearch_state) == paused ]]; then opensearch_continue; fi
	if [[ $(opensearch_state) == down ]]; then
		opensearch_find || die "OpenSearch is gone" "$JVM_LACKS" "install it again, or dev/services clean"
		opensearch_port
		opensearch_launch "$dir" "$(<"$dir/port")"
	fi
	opensearch_await
}

# opensearch_port keeps the port or chooses a new one: the runner takes none above 9299.
opensearch_port() {
	local file=$STATE/opensearch/port
	until [[ -s $file ]] && ! port_taken "$(<"$file")"; do echo $((5000 + RANDOM % 4000)) >"$file"; done
}

# opensearch_launch starts the node in a session of its own. Its runner counts nodes from 1 and adds that to the port. What
# it prints about every start goes nowhere but the log. The data is kept: the folder of a version, for none reads newer data.
opensearch_launch() {
	local dir=$1 port=$2
	echo "$OPENSEARCH_VERSION" >"$dir/version"
	(
		cd "$dir" && exec setsid "$JAVA" -Xms512m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$JARS/*" \
			org.codelibs.opensearch.runner.OpenSearchRunner -basePath "$dir/data-$OPENSEARCH_VERSION" -numOfNode 1 \
			-baseHttpPort $((port - 1)) -clusterName pawl -printOnFailure >>log 2>&1 </dev/null 8>&- 9>&-
	) &
	echo $! >"$dir/pid"
}

# opensearch_await waits until the node answers and its shards are there.
opensearch_await() {
	local end=$((SECONDS + 300))
	until opensearch_answers; do
		[[ $(opensearch_state) != down ]] || opensearch_broken "its JVM ended"
		[[ $SECONDS -lt $end ]] || opensearch_broken "it did not answer for five minutes"
		sleep 0.2
	done
}

opensearch_answers() {
	# shellcheck disable=SC2016 # the inner shell expands it
	timeout 5 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$0" &&
		printf "GET /_cluster/health?wait_for_status=yellow&timeout=3s HTTP/1.0\r\n\r\n" >&3 && grep -q "\"timed_out\":false" <&3' \
		"$(<"$STATE/opensearch/port")" 2>/dev/null
}

opensearch_broken() {
	tail -n 8 "$STATE/opensearch/log" | cut -c 1-300 | sed 's/^/  | /' >&2
	die "OpenSearch did not start" "$1; its log ends as above" "read $STATE/opensearch/log, or begin again: dev/services clean"
}

# opensearch_pid prints the process. The folder in its arguments tells it from a stranger that got its number.
opensearch_pid() {
	local pid
	pid=$(cat "$STATE/opensearch/pid" 2>/dev/null) || return 0
	[[ " $(ps -ww -o args= -p "$pid") " == *" $STATE/opensearch/data-"* ]] || return 0
	echo "$pid"
}

opensearch_signal() {
	local pid
	pid=$(opensearch_pid)
	[[ -n $pid ]] || die "OpenSearch is not running" "there is no process to send SIG$1 to" "dev/services up opensearch"
	kill "-$1" "$pid" 2>/dev/null || true
	case $1 in
	KILL) wait_gone "$pid" ;;
	STOP) wait_paused "$pid" ;;
	esac
}

opensearch_down() {
	local pid
	pid=$(opensearch_pid)
	[[ -n $pid ]] || return 0
	kill -TERM "$pid" 2>/dev/null || true
	kill -CONT "$pid" 2>/dev/null || true
	wait_gone "$pid" || opensearch_signal KILL
}

opensearch_clean() {
	[[ -z $(opensearch_pid) ]] || opensearch_signal KILL
	rm -rf "${STATE:?}/opensearch"
}

opensearch_state() {
	local pid
	pid=$(opensearch_pid)
	case $([[ -z $pid ]] || ps -o stat= -p "$pid") in
	"") echo down ;;
	T*) echo paused ;;
	*) echo up ;;
	esac
}

opensearch_restart() { opensearch_down && opensearch_up; }
opensearch_kill() { opensearch_signal KILL; }
opensearch_pause() { opensearch_signal STOP; }
opensearch_continue() { opensearch_signal CONT; }
opensearch_where() { echo "127.0.0.1:$(<"$STATE/opensearch/port")"; }
opensearch_describe() {
	echo "$(opensearch_where)  $(cat "$STATE/opensearch/version") as $(id -un), data and log in $STATE/opensearch"
}
