// Package systemd reports the state of a daemon to the service manager: the few lines
// of sd_notify. Without a service manager it does nothing.
package systemd
