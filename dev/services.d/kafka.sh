# shellcheck shell=bash
# Apache Kafka, one node: brokers.sh does the work. Its ports, in a row:
#   PORT    clients
#   PORT+1  the controller
#   PORT+2  clients that come through a proxy: to them the broker says that it is found at PORT+3
#   PORT+3  nobody. A test listens there, forwards to PORT+2, and holds all of a client's traffic in its hands

kafka_nodes() { echo 1; }
kafka_ports() { echo 3 1; }
kafka_package() { brokers_package; }
kafka_find() { brokers_find kafka; }
kafka_find_failed() { echo "$JVM_LACKS"; }

kafka_env() {
	local port=${1##*:}
	echo "export PAWL_TEST_KAFKA='$1'"
	echo "export PAWL_TEST_KAFKA_BEHIND='127.0.0.1:$((port + 2))'"
	echo "export PAWL_TEST_KAFKA_PROXIED='127.0.0.1:$((port + 3))'"
}

# kafka_settings NODE PORT prints what one node has otherwise than three.
kafka_settings() {
	cat <<-EOF
		controller.quorum.voters=1@127.0.0.1:$(($2 + 1))
		listeners=PLAINTEXT://127.0.0.1:$2,PROXIED://127.0.0.1:$(($2 + 2)),CONTROLLER://127.0.0.1:$(($2 + 1))
		advertised.listeners=PLAINTEXT://127.0.0.1:$2,PROXIED://127.0.0.1:$(($2 + 3))
		listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT
		$(brokers_copies 1 1)
	EOF
}

# PAWL_KAFKA_JVM: `make test` starts brokers often, and a start costs half as much without the second compiler.
kafka_java() { echo "${PAWL_KAFKA_JVM:--Xms512m -Xmx512m -XX:+UseG1GC}"; }
kafka_up() { brokers_up kafka; }
kafka_down() { brokers_down kafka; }
kafka_restart() { kafka_down && kafka_up; }
kafka_kill() { brokers_signal KILL kafka; }
kafka_pause() { brokers_signal STOP kafka; }
kafka_continue() { brokers_signal CONT kafka; }
kafka_clean() { brokers_clean kafka; }
kafka_state() { brokers_state kafka; }
kafka_where() { echo "127.0.0.1:$(<"$STATE/kafka/port")"; }
kafka_describe() { brokers_describe kafka; }
