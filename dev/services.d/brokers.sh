# shellcheck shell=bash
# Brokers of Apache Kafka, each of them its own controller too: what kafka.sh and kafka3.sh share. Functions take the
# service and then its nodes, all of them where none is named. A service has these functions besides the usual ones:
#   NAME_nodes               prints the numbers of its nodes
#   NAME_ports               prints how many ports in a row it listens on, and how many after them it wants left free
#   NAME_settings NODE PORT  prints the lines of server.properties that are its own
#   NAME_java                prints options of the JVM

KAFKA_VERSION=4.3.1

brokers_package() { echo maven default-jre-headless; }
brokers_find() { java_find 17 && jars_find kafka "$KAFKA_VERSION" "$STATE/$1/log"; }

# brokers_dir is the folder of a node. One that is alone has that of its service.
brokers_dir() { if [[ $("${1}_nodes") == 1 ]]; then echo "$STATE/$1"; else echo "$STATE/$1/$2"; fi; }

# brokers_each prints the nodes that are named, or all, to be split into words.
brokers_each() {
	local service=$1
	shift
	if [[ $# -gt 0 ]]; then echo "$*"; else "${service}_nodes"; fi
}

brokers_up() {
	local service=$1 nodes node port down=() paused=()
	read -ra nodes <<<"$(brokers_each "$@")"
	for node in "${nodes[@]}"; do
		case $(brokers_node_state "$service" "$node") in
		paused) paused+=("$node") ;;
		down) down+=("$node") ;;
		esac
	done
	[[ ${#paused[@]} -eq 0 ]] || brokers_signal CONT "$service" "${paused[@]}"
	if [[ ${#down[@]} -gt 0 ]]; then
		"${service}_find" || die "Apache Kafka is gone" "$JVM_LACKS" "install it again, or dev/services clean"
		brokers_ports "$service" "${down[@]}"
		port=$(<"$STATE/$service/port")
		brokers_format "$service" "$port" "${down[@]}"
		for node in "${down[@]}"; do brokers_launch "$service" "$node"; done
	fi
	brokers_await "$service" "${nodes[@]}"
}

# brokers_ports keeps the ports or chooses new ones. A node that comes back to others cannot choose.
brokers_ports() {
	local service=$1 listened left node port
	read -r listened left <<<"$("${service}_ports")"
	if [[ $("${service}_state") == down ]]; then
		keep_port "$service" "$listened" "$left" >/dev/null
		return
	fi
	shift
	for node in "$@"; do
		for port in $(brokers_node_ports "$service" "$node"); do
			! port_taken "$port" || die "$service-$node cannot start" "somebody else listens on its port $port, and the other nodes expect it there" \
				"dev/services restart $service"
		done
	done
}

# brokers_node_ports prints those that a node itself listens on.
brokers_node_ports() { "${1}_settings" "$2" "$(<"$STATE/$1/port")" | sed -n 's/^listeners=//p' | grep -oE '[0-9]+(,|$)' | tr -d ,; }

# brokers_properties NODE: small pools and one partition of each kind of internal topic for each core, because it serves
# tests. A broker that died may register again when its session has ended: three seconds, for the usual nine would be the
# time of a start. Retention, flushing and the size of segments are as in production.
brokers_properties() {
	local service=$1 node=$2 port=$3 dir
	dir=$(brokers_dir "$service" "$node")
	cat <<-EOF
		process.roles=broker,controller
		node.id=$node
		$("${service}_settings" "$node" "$port")
		inter.broker.listener.name=PLAINTEXT
		controller.listener.names=CONTROLLER
		log.dirs=$dir/data
		auto.create.topics.enable=false
		log.message.timestamp.after.max.ms=9223372036854775807
		group.initial.rebalance.delay.ms=0
		offsets.topic.num.partitions=4
		transaction.state.log.num.partitions=4
		share.coordinator.state.topic.num.partitions=4
		num.network.threads=2
		num.io.threads=2
		log.cleaner.dedupe.buffer.size=2097152
		broker.heartbeat.interval.ms=500
		broker.session.timeout.ms=3000
		${PAWL_KAFKA_PROPERTIES:-}
	EOF
}

# brokers_copies COPIES MIN prints how many copies there are of a partition, and how many must be in step to write.
brokers_copies() {
	cat <<-EOF
		default.replication.factor=$1
		min.insync.replicas=$2
		offsets.topic.replication.factor=$1
		transaction.state.log.replication.factor=$1
		transaction.state.log.min.isr=$2
		share.coordinator.state.topic.replication.factor=$1
		share.coordinator.state.topic.min.isr=$2
	EOF
}

# brokers_format writes the settings, and makes the data folders that are not there yet, all at once: each takes a JVM.
brokers_format() {
	local service=$1 port=$2 node dir children=()
	shift 2
	# 16 bytes as Kafka writes them, which must not begin with a minus
	[[ -s $STATE/$service/cluster ]] || echo "P$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | cut -c 2-22)" >"$STATE/$service/cluster"
	for node in "$@"; do
		dir=$(brokers_dir "$service" "$node")
		mkdir -p "$dir"
		brokers_properties "$service" "$node" "$port" >"$dir/server.properties"
		if [[ -d $dir/data ]]; then continue; fi
		brokers_format_node "$dir" "$(<"$STATE/$service/cluster")" &
		children+=($!)
	done
	wait "${children[@]}" || true # for these only: a broker of another service is a child, too
	for node in "$@"; do
		dir=$(brokers_dir "$service" "$node")
		[[ -d $dir/data ]] || brokers_broken "$service" "$node" "its storage could not be formatted"
	done
}

# brokers_format_node makes the folder beside its final place, and moves it there when it is complete.
brokers_format_node() {
	local dir=$1 id=$2
	rm -rf "$dir/data.new" && sed "s|^log.dirs=.*|&.new|" "$dir/server.properties" >"$dir/format.properties" &&
		"$JAVA" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$JARS/*" kafka.tools.StorageTool format \
			-t "$id" -c "$dir/format.properties" >>"$dir/log" 2>&1 </dev/null 8>&- 9>&- &&
		mv "$dir/data.new" "$dir/data"
	rm -f "$dir/format.properties"
}

# brokers_launch starts a node in a session of its own, which no terminal and no interrupted run takes down.
brokers_launch() {
	local service=$1 dir options
	dir=$(brokers_dir "$1" "$2")
	read -ra options <<<"$("${service}_java")"
	(
		cd "$dir" && exec setsid "$JAVA" "${options[@]}" -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$JARS/*" \
			kafka.Kafka "$dir/server.properties" >>log 2>&1 </dev/null 8>&- 9>&-
	) &
	echo $! >"$dir/pid"
}

# brokers_await waits until each node says over the wire that it and the others named here serve clients. Without most of
# the nodes there is no controller and no answer: then it only sees to it that they live.
brokers_await() {
	local service=$1 node end=$((SECONDS + 300)) all running
	shift
	read -ra all <<<"$("${service}_nodes")"
	for node in "$@"; do
		until brokers_serves "$service" "$node" "$@"; do
			# counted first: one that dies in between must not pass for a lack of others
			running=$(for n in "${all[@]}"; do brokers_node_state "$service" "$n"; done | grep -c up) || true
			[[ $(brokers_node_state "$service" "$node") != down ]] || brokers_broken "$service" "$node" "its JVM ended"
			[[ $SECONDS -lt $end ]] || brokers_broken "$service" "$node" "it did not answer for five minutes"
			[[ $((running * 2)) -gt ${#all[@]} ]] || break
			sleep 0.2 # each question is several processes, and the JVM needs the processors
		done
	done
}

# brokers_serves asks a node for its list of brokers and topics, and looks for the addresses of the nodes that follow.
brokers_serves() {
	local service=$1 answer node
	answer=$(brokers_ask "$(brokers_client_port "$service" "$2")") || return 1
	shift 2
	for node in "$@"; do
		# its host, as text, and its port in four bytes
		[[ $answer == *"3132372e302e302e31$(printf %08x "$(brokers_client_port "$service" "$node")")"* ]] || return 1
	done
}

brokers_client_port() { echo $(($(<"$STATE/$1/port") + $2 - 1)); }

# brokers_ask sends a Metadata request, version 1, for all topics, and prints how its answer begins, in hex: the brokers
# come first. It takes a few milliseconds, where a program of Kafka's would take a second.
brokers_ask() {
	timeout 2 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$0" && printf "\0\0\0\022\0\003\0\001\0\0\0\001\0\004pawl\377\377\377\377" >&3 &&
		dd bs=4096 count=1 <&3 | od -An -v -tx1 | tr -d " \n"' "$1" 2>/dev/null
}

brokers_broken() {
	local dir
	dir=$(brokers_dir "$1" "$2")
	tail -n 8 "$dir/log" | cut -c 1-300 | sed 's/^/  | /' >&2
	die "Apache Kafka did not start" "$3; its log ends as above" "read $dir/log, or begin again: dev/services clean"
}

# brokers_pid prints the process of a node. The settings file in its arguments tells it from a stranger that got the
# number of a node which died, and from a zombie.
brokers_pid() {
	local dir pid
	dir=$(brokers_dir "$1" "$2")
	pid=$(cat "$dir/pid" 2>/dev/null) || return 0
	[[ " $(ps -ww -o args= -p "$pid") " == *" $dir/server.properties "* ]] || return 0
	echo "$pid"
}

brokers_pids() {
	local service=$1 node
	for node in $(brokers_each "$@"); do brokers_pid "$service" "$node"; done
}

# brokers_signal SIGNAL SERVICE [NODE…] returns when the signal has had its effect: a JVM has many threads, and a busy
# machine may take its time to stop them.
brokers_signal() {
	local signal=$1 pids
	shift
	mapfile -t pids < <(brokers_pids "$@")
	[[ ${#pids[@]} -gt 0 ]] || die "Apache Kafka is not running" "there is no process to send SIG$signal to" "dev/services up $1"
	kill "-$signal" "${pids[@]}" 2>/dev/null || true
	case $signal in
	KILL) wait_gone "${pids[@]}" ;;
	STOP) wait_paused "${pids[@]}" ;;
	esac
}

# brokers_down gives the nodes ten seconds: one that is left without the others may wait for them much longer.
brokers_down() {
	local pids
	mapfile -t pids < <(brokers_pids "$@")
	[[ ${#pids[@]} -gt 0 ]] || return 0
	kill -TERM "${pids[@]}" 2>/dev/null || true
	kill -CONT "${pids[@]}" 2>/dev/null || true
	wait_gone "${pids[@]}" || brokers_signal KILL "$@"
}

# brokers_clean does not ask politely, because nothing is kept.
brokers_clean() {
	[[ -z $(brokers_pids "$1") ]] || brokers_signal KILL "$1"
	rm -rf "${STATE:?}/$1"
}

brokers_node_state() {
	local pid
	pid=$(brokers_pid "$1" "$2")
	case $([[ -z $pid ]] || ps -o stat= -p "$pid") in
	"") echo down ;;
	T*) echo paused ;;
	*) echo up ;;
	esac
}

brokers_state() {
	local node
	for node in $("${1}_nodes"); do brokers_node_state "$1" "$node"; done | in_short
}

brokers_describe() { echo "$("${1}_where")  $KAFKA_VERSION as $(id -un), data and log in $STATE/$1"; }
