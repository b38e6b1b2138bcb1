// Package systemd tells the service manager how a daemon is: sd_notify in its
// few lines. Without one, nothing is told.
package systemd
