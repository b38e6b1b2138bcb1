package systemd

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Notifier notifies the service manager. A nil Notifier does nothing.
type Notifier struct {
	conn     *net.UnixConn
	watchdog time.Duration
}

// New returns a notifier as the environment describes it: NOTIFY_SOCKET, and
// WATCHDOG_USEC if it is meant for the process pid. It is nil if there is no
// service manager.
func New(getenv func(string) string, pid int) (*Notifier, error) {
	path := getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil, nil
	}
	if name, abstract := strings.CutPrefix(path, "@"); abstract {
		path = "\x00" + name
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("reach the service manager: %w", err)
	}
	n := &Notifier{conn: conn}
	usec, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	if whose := getenv("WATCHDOG_PID"); err == nil && usec > 0 && (whose == "" || whose == strconv.Itoa(pid)) {
		n.watchdog = time.Duration(usec) * time.Microsecond
	}
	return n, nil
}

// Watchdog is how often the service manager wants to hear [Notifier.Alive] at
// least; 0: it does not.
func (n *Notifier) Watchdog() time.Duration {
	if n == nil {
		return 0
	}
	return n.watchdog
}

// Ready says that the service has started, or that a reload is over, and how it is.
func (n *Notifier) Ready(status string) { n.send("READY=1\nSTATUS=" + oneLine(status)) }

// Waiting says why the service has not started yet.
func (n *Notifier) Waiting(status string) { n.send("STATUS=" + oneLine(status)) }

// Reloading says that a reload has begun.
func (n *Notifier) Reloading() {
	n.send(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", monotonic()/time.Microsecond))
}

// Stopping says that the service ends.
func (n *Notifier) Stopping() { n.send("STOPPING=1\nSTATUS=draining") }

// Alive keeps the watchdog quiet.
func (n *Notifier) Alive() { n.send("WATCHDOG=1") }

// send sends a state. Failures are ignored: a service manager that does not listen must
// not hold up the work.
func (n *Notifier) send(state string) {
	if n == nil {
		return
	}
	_ = n.conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = n.conn.Write([]byte(state))
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", " ") }
