package process

import (
	"os"
	"slices"
	"strings"
)

// Environ is this process's environment without what describes a delivery,
// because Pawl may itself be running as somebody's handler, and without what lets it
// speak with the service manager, or take over its sockets: a program that does would speak
// for the daemon.
func Environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(DeliveryVariables, name) || slices.Contains(managerVariables, name)
	})
}

var managerVariables = []string{
	"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "LISTEN_PIDFDID",
}

// DeliveryVariables describe a delivery.
var DeliveryVariables = []string{
	"PAWL_ID", "PAWL_TOPIC", "PAWL_KEY", "PAWL_KEY_BASE64", "PAWL_ATTEMPT", "PAWL_TOKEN", "PAWL_TRACEPARENT",
	"PAWL_HEADERS", "PAWL_LOG", "PAWL_DEADLINE", "PAWL_LAST_ATTEMPT",
}
