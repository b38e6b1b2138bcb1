// Package serve is the daemon: it carries out the topics of a configuration,
// reloads it, and serves health, metrics and events. `pawl work` runs here, too.
package serve
