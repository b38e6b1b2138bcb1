# shellcheck shell=bash
# Apache Kafka, three nodes that hold a copy of everything each: brokers.sh does the work. A write is good when two have it,
# so one may be killed. Three JVMs are much for tests that need but a broker: nothing starts them unless they are named.
# Its ports: three for clients, then three of the controllers.

kafka3_nodes() { echo 1 2 3; }
kafka3_ports() { echo 6 0; }
kafka3_package() { brokers_package; }
kafka3_find() { brokers_find kafka3; }
kafka3_find_failed() { echo "$JVM_LACKS"; }
kafka3_env() { echo "export PAWL_TEST_KAFKA3='$1'"; }

# kafka3_settings NODE PORT prints what a node has otherwise than one that is alone.
kafka3_settings() {
	local client=$(($2 + $1 - 1)) controller=$(($2 + $1 + 2))
	cat <<-EOF
		controller.quorum.voters=1@127.0.0.1:$(($2 + 3)),2@127.0.0.1:$(($2 + 4)),3@127.0.0.1:$(($2 + 5))
		listeners=PLAINTEXT://127.0.0.1:$client,CONTROLLER://127.0.0.1:$controller
		advertised.listeners=PLAINTEXT://127.0.0.1:$client
		listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
		$(brokers_copies 3 2)
	EOF
}

kafka3_java() { echo -Xms256m -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1; }
kafka3_up() { brokers_up kafka3 "$@"; }
kafka3_down() { brokers_down kafka3 "$@"; }
kafka3_restart() { kafka3_down "$@" && kafka3_up "$@"; }
kafka3_kill() { brokers_signal KILL kafka3 "$@"; }
kafka3_pause() { brokers_signal STOP kafka3 "$@"; }
kafka3_continue() { brokers_signal CONT kafka3 "$@"; }
kafka3_clean() { brokers_clean kafka3; }
kafka3_state() { brokers_state kafka3; }

kafka3_where() {
	local port
	port=$(<"$STATE/kafka3/port")
	echo "127.0.0.1:$port,127.0.0.1:$((port + 1)),127.0.0.1:$((port + 2))"
}

kafka3_describe() { brokers_describe kafka3; }
